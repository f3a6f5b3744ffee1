//! `load udp`: datagrams from any number of sockets, flooded, windowed or on a schedule; each one is accounted for.
//!
//! In: a [`UdpPlan`]. Out: a running [`UdpLoad`], and at its end a [`UdpLoadReport`].

mod document;
mod flow;
mod generator;
mod metrics;
mod plan;
mod protocol;
mod report;
mod run;
#[cfg(test)]
mod simulated_tests;
mod skew;
mod weights;

pub use document::{SourceCounts, UdpLoadReport, UdpSum, WorkerCounts};
pub use metrics::LiveDatagrams;
pub use plan::{UdpLoadError, UdpPlan, Until};
pub use protocol::{Answer, DatagramProtocol, Probes, Read, Received};
pub use run::{DatagramStart, UdpLoad};
pub use skew::{Skew, UnknownSkew};
