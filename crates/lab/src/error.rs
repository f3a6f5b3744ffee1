//! Refused requests. All other errors of experiments are `anyhow` errors, because callers treat them alike.

use std::ops::RangeInclusive;
use thiserror::Error;

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
        let reason = reason.to_string();
        Self { flags, reason }
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
