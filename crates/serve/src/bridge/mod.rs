//! The bridge: frames from one link go out of the others, unless a table says no.
//!
//! A [`BridgePlan`] names links and tables; [`Bridge::start`] opens them and gives every worker its queues of every link;
//! [`Bridge::bridged`] reports what passed, what was dropped and why. Tables are read again when their files change, while
//! frames pass. A device that goes away is counted and opened again when it comes back.
//!
//! `forward` moves bursts between links, `classify` says which frames pass, `worker` is what a thread runs, `lists` keeps
//! the tables, `links` brings lost links back, `document` puts together what became of all, `metrics` shows it to Prometheus.

mod classify;
mod counts;
mod document;
mod forward;
mod links;
mod lists;
mod metrics;
mod plan;
mod server;
mod worker;

pub use classify::{Classifier, Rule, Tables};
pub use counts::WorkerCounts;
pub use document::{Bridged, LinkBridged, TableBridged};
pub use forward::{Classify, Failure, Forwarder, Queues};
pub use lists::ListFileError;
pub use metrics::{Metrics, MetricsAddress, exposition};
pub use plan::{BURST, BridgePlan, OnMatch, Sides, TablePlan, Verdict};
pub use server::{Bridge, BridgeError};
