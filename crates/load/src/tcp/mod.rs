//! `load tcp`: n workers by m connections that write, read or both, as fast as they can or at a rate; who makes no progress
//! is named.
//!
//! In: a [`TcpPlan`]. Out: a running [`TcpLoad`], and at its end a [`TcpLoaded`].

mod loaded;
mod plan;
mod report;
mod run;
mod transfer;

pub use loaded::{Rates, Stall, TcpCounts, TcpLoaded, TcpWorkerLoaded};
pub use plan::{Direction, TcpLoadError, TcpPlan, WRITE_BYTES};
pub use run::TcpLoad;
