//! Protocols as state machines over byte slices; no sockets, no clock.
