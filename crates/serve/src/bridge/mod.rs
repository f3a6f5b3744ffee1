//! The bridge: forwards frames from each link to the others, unless a table drops them.
//!
//! A [`BridgePlan`] names links and tables; [`Bridge::start`] opens them and gives every worker its queues of every
//! link; [`Bridge::bridged`] reports frames passed, and frames dropped by reason. Tables are reloaded when their files
//! change, without interrupting traffic. A lost device is counted, and reopened when it is back.
//!
//! `forward` moves bursts between links and does with each frame what the stages of `corelane_stage` say, `lane` is the part of one
//! bucket, `mail` what buckets hand over to each other, `worker` is the loop of a thread, `lists` manages the tables, `keys` reads
//! those of ESP, `links` restores lost links, `ways` makes the stages of a plan, `planner` reads tables again and takes other plans,
//! `check` refuses what cannot be, `simulated` is a bridge in one thread, `document` assembles the results, `metrics` declares what
//! of them Prometheus reads.

mod arrived;
mod check;
mod counts;
mod document;
mod error;
mod forward;
mod keys;
mod lane;
mod links;
mod lists;
mod loop_check;
mod mail;
mod metrics;
mod plan;
mod planner;
mod queues;
mod server;
mod simulated;
mod ways;
mod worker;

pub use corelane_stage::{OnMatch, Sides, Verdict};
pub use counts::WorkerCounts;
pub use document::{
    Bridged, Dispatched, LinkBridged, ProtocolDispatched, TableBridged, WorkstreamDispatched,
};
pub use error::BridgeError;
pub use forward::{Failure, Forwarder};
pub use keys::read_keys;
pub use lists::ListFileError;
pub use mail::{BucketsPlan, Mail};
pub use plan::{BURST, BridgePlan, LONGEST_BURST, TablePlan};
pub use queues::Queues;
pub use server::Bridge;
pub use simulated::Simulated;
