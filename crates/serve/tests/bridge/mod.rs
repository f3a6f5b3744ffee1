//! The bridge: verdicts of its tables, changes of tables and links while it runs, and a comparison with a kernel
//! bridge.

mod buckets;
mod fragments;
mod frames;
mod kernel;
mod merged;
mod namespaces;
mod plans;
mod real_tcp;
mod rings;
mod stages;
mod tunnels;
