//! `load udp`: datagrams from any number of sockets, flooded, windowed or on a schedule, each one accounted for.
//!
//! In: a [`UdpPlan`], made from what a user asked for by [`UdpRequest::resolve`]. Out: a running [`UdpLoad`], and at its
//! end a [`UdpLoaded`].

mod flow;
mod generator;
mod loaded;
mod mix;
mod plan;
mod resolve;
mod run;
#[cfg(test)]
mod simulated_tests;
mod skew;
mod weights;

pub use loaded::{SourceLoaded, UdpLoaded, WorkerLoaded};
pub use plan::{Lease, PlannedWorker, Ports, UdpLoadError, UdpPlan, Until};
pub use resolve::{Spread, UdpRequest};
pub use run::{Progress, UdpLoad};
pub use skew::{Skew, UnknownSkew};
