//! `load tcp`: n workers with m connections each that write, read or both, at full speed or at a rate; reports stalled
//! connections individually.
//!
//! In: a [`TcpPlan`]. Out: a running [`TcpLoad`], and at its end a [`TcpLoadReport`].

mod document;
mod plan;
mod report;
mod run;
mod transfer;

pub use crate::streams::TlsCounts;
pub use document::{Rates, TcpCounts, TcpLoadReport, TcpSum, TcpWorkerCounts};
pub use plan::TcpPlan;
pub use run::TcpLoad;
pub use transfer::{Bytes, Stall, TransferDirection, WRITE_BYTES};
