//! `load tcp`: n workers with m connections each that write, read or both, at full speed or at a rate; reports stalled
//! connections individually.
//!
//! In: a [`TcpPlan`]. Out: a running [`TcpLoad`], and at its end a [`TcpLoaded`].

mod loaded;
mod plan;
mod report;
mod run;
mod transfer;

pub use loaded::{Rates, Stall, TcpCounts, TcpLoaded, TcpWorkerLoaded};
pub use plan::TcpPlan;
pub use run::TcpLoad;
pub use transfer::{Bytes, Direction, WRITE_BYTES};
