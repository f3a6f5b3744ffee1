//! The bridge: what its tables say of a frame, while they change, while links come and go, and beside a kernel bridge.

mod frames;
mod kernel;
mod namespaces;
mod rings;
