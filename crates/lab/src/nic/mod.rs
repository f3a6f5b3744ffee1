//! The proof on a NIC that really does RSS: a guest whose device computes hashes and chooses queues gets planned frames
//! of every hash type, and each frame's hash, queue and CPU are compared with what `rss` and `explain` say.
//!
//! What enters: a [`NicPlan`] and the parts of a guest. What leaves: a [`NicReport`]. The host's side sends the frames
//! into the guest's tap ([`NicProof`]); the guest's side sets the device and reads what it says ([`probe`]).

mod document;
mod frames;
mod guest;
mod page;
mod plan;
mod probe;
mod run;
mod signal;
mod traffic;

pub use document::{
    Caught, CpuReport, ModelReport, NicProbed, NicReport, RoundReport, SCHEMA, TypeReport, Verdict,
};
pub use plan::{NicPlan, NicRound};
pub use probe::probe;
pub use run::NicProof;
