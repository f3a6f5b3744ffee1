//! A target as a file has it, and what is wrong with one.

use std::path::PathBuf;
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

/// A target as read.
#[derive(Debug, Default)]
pub(super) struct Target {
    pub(super) line: usize,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Body,
}

#[derive(Debug, Default)]
pub(super) enum Body {
    #[default]
    Nothing,
    Text(String),
    File(PathBuf),
}
