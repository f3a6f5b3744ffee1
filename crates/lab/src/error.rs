//! Errors of experiments.

use crate::child::ChildError;
use corelane_guest::GuestError;
use corelane_host::HostError;
use corelane_host::bed::BedError;
use corelane_link::LinkError;
use corelane_load::http::HttpLoadError;
use corelane_load::udp::UdpLoadError;
use corelane_rss::TableError;
use corelane_rss::balance::BalanceError;
use corelane_rss::plan::PlanError;
use corelane_table::MemoryError;
use corelane_worker::SpawnError;
use std::ops::RangeInclusive;
use thiserror::Error;

/// An error of an experiment.
#[derive(Debug, Error)]
pub enum LabError {
    /// The request was refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A server or generator failed.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// A thread could not be pinned or timed, or the system refused something else.
    #[error(transparent)]
    Host(#[from] HostError),
    /// There is no namespace.
    #[error(transparent)]
    Bed(#[from] BedError),
    /// A part of a guest is missing, or the guest failed.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// Frames could not be sent.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A client cannot be planned.
    #[error(transparent)]
    Load(#[from] UdpLoadError),
    /// Clients that speak HTTP or move bytes cannot be planned.
    #[error(transparent)]
    StreamLoad(#[from] HttpLoadError),
    /// An entry has no source port.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There can be no such steering table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The loads cannot be balanced.
    #[error(transparent)]
    Balance(#[from] BalanceError),
    /// A table has no memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A thread could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// Something else, in words.
    #[error("{0}")]
    Failed(String),
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The flags concerned.
    pub flags: &'static str,
    reason: String,
}

impl Refusal {
    pub(crate) fn new(flags: &'static str, reason: impl ToString) -> Self {
        Self {
            flags,
            reason: reason.to_string(),
        }
    }
}

/// Rejects the first value out of bounds; `what` names it as N, `why` explains the bounds.
pub(crate) fn within(
    flags: &'static str,
    values: &[usize],
    bounds: RangeInclusive<usize>,
    what: &str,
    why: &str,
) -> Result<(), Refusal> {
    let Some(wrong) = values.iter().find(|value| !bounds.contains(value)) else {
        return Ok(());
    };
    let (what, least, most) = (
        what.replace('N', &wrong.to_string()),
        bounds.start(),
        bounds.end(),
    );
    Err(Refusal::new(
        flags,
        format!("{what}: give {least} to {most}{why}"),
    ))
}
