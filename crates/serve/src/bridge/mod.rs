//! The bridge: forwards frames from each link to the others, unless a table drops them.
//!
//! A [`BridgePlan`] names links and tables; [`Bridge::start`] opens them and gives every worker its queues of every
//! link; [`Bridge::bridged`] reports frames passed, and frames dropped by reason. Tables are reloaded when their files
//! change, without interrupting traffic. A lost device is counted, and reopened when it is back.
//!
//! `forward` moves bursts between links, `classify` selects the frames that pass, `worker` is the loop of a thread,
//! `lists` manages the tables, `links` restores lost links, `document` assembles the results, `metrics` declares what
//! of them Prometheus reads.

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
pub use plan::{BURST, BridgePlan, OnMatch, Sides, TablePlan, Verdict};
pub use server::{Bridge, BridgeError};
