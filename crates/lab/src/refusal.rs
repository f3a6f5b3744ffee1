//! What experiments refuse to do.

use std::ops::RangeInclusive;
use thiserror::Error;

/// What was asked for and cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The flags that ask for it.
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

/// Refuses the first value that is out of bounds; `what` names it as N, `why` explains the bounds.
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
