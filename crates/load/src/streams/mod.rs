//! Generators over streams: opens, uses, monitors and closes connections, independent of the protocol.
//!
//! In: a [`StreamPlan`]: pools of connections, each with a [`StreamProtocol`], a pace, sources, and optional TLS. Out:
//! a running [`StreamLoad`], and at its end counts and times ([`StreamLoadReport`], or what a protocol derives from the
//! [`Outcome`]s).

mod busy;
mod client;
mod connection;
mod counts;
mod document;
mod error;
mod event;
mod generator;
mod group;
mod in_flight;
mod linger;
mod metrics;
mod output;
mod phases;
mod plan;
mod protocol;
mod quota;
mod report;
mod run;
mod slot;
mod sum;
pub(crate) mod tls;

pub use counts::{ConnectionCounts, Counts, Histograms, OwnCounts, RequestCounts, StreamBytes, Tally};
pub use document::{ClientCost, PhaseReport, PoolCounts, StreamLoadReport, StreamSum, WorkerCounts};
pub use error::StreamLoadError;
pub use in_flight::{InFlight, One, Pipeline};
pub use metrics::LiveStreams;
pub use output::ConnectionOutput;
pub use plan::{
    Behaviour, GATHER, Model, PlannedPhase, PlannedPool, PlannedWorker, Share, StreamPlan, Timeouts, Until,
};
pub use protocol::{Answered, Ask, OfBucket, Part, Step, StreamProtocol, Terms, Traffic, Turn};
pub use run::{StreamLoad, StreamStart};
pub use tls::TlsCounts;

pub(crate) use generator::Outcome;
pub(crate) use metrics::CONNECT;
pub(crate) use plan::lease;

#[cfg(test)]
pub(crate) use {
    connection::{Connection, Context},
    event::{Ended, Input, Next, Outcome as ConnectionOutcome, Settled},
    generator::{Common, Generator},
    linger::Linger,
    phases::PhaseTimes,
    quota::Quotas,
    slot::Slot,
};

#[cfg(test)]
mod tests;
