//! The error of invalid input.

/// Error of invalid input: what is wrong with it, and what to give.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InputError(pub(crate) String);

impl InputError {
    pub(crate) fn unknown(given: &str, expected: &str) -> InputError {
        InputError(format!("{given:?} is unknown: give {expected}"))
    }
}
