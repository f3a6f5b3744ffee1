//! A target as a file has it, and what is wrong with one.

use crate::http::scenario::UrlEntry;
use thiserror::Error;

/// What is wrong with a file of targets or values.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {reason}")]
pub struct TargetError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl TargetError {
    pub(super) fn new(line: usize, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { line, reason }
    }
}

/// The line of a target, and its request; the path is its URL as written.
pub(super) type Target = (usize, UrlEntry);
