//! Why a bridge cannot run.

use super::lists::ListFileError;
use corelane_link::{LinkError, SpecError};
use corelane_worker::crew::CrewError;

/// Why a bridge cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// A setting, such as a stage, cannot be as planned, or cannot change.
    #[error("{0}: {1}")]
    Setting(&'static str, String),
    /// Invalid link specification.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A link cannot be opened.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A table file was rejected.
    #[error(transparent)]
    List(#[from] ListFileError),
    /// A thread could not start or continue.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// A link failed in a way that reopening does not repair.
    #[error("{0}")]
    Failed(String),
}
