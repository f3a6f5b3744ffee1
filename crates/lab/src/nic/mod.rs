//! Verifies RSS on a NIC that implements it: a guest's device receives planned frames of every hash type, and each
//! frame's hash, queue and CPU are compared with the results of `rss` and `explain`.
//!
//! In: a [`NicPlan`] and the parts of a guest. Out: a [`NicReport`]. The host sends the frames into the guest's tap
//! ([`NicProof`]); the guest configures the device and reads the frames' metadata ([`probe`]).

mod document;
mod frames;
mod page;
mod plan;
mod probe;
mod run;
mod traffic;

pub use document::{
    Caught, CpuReport, ModelReport, NicProbed, NicReport, RoundReport, SCHEMA, TypeReport, Verdict,
};
pub use plan::{NicPlan, NicRound};
pub use probe::probe;
pub use run::NicProof;

/// The kind of the child that probes the device of a guest: [`probe`].
pub(crate) const PROBE: &str = "nic-probe";
