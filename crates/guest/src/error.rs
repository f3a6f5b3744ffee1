//! Errors of preparing and running a guest.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Errors of a guest, with the fix if there is one.
#[derive(Debug, Error)]
pub enum GuestError {
    /// A part is missing on this machine. Callers may treat this error, and no other, as *cannot run here*.
    #[error("{0}")]
    Missing(String),

    /// The command did not end within the limit.
    #[error(
        "the guest's command had not ended after {limit:?}; it had printed:\n{output}\nand on the console:\n{console}"
    )]
    TooLong {
        /// The plan's limit.
        limit: Duration,
        /// The command's output.
        output: String,
        /// The end of the kernel's console.
        console: String,
    },

    /// It was to end before its command did.
    #[error("the guest was stopped before its command ended")]
    Stopped,

    /// Any other failure, as one sentence: an impossible plan, an unreadable file, an emulator that failed.
    #[error("{0}")]
    Failed(String),
}

impl GuestError {
    pub(crate) fn missing(what: &str, tried: &[PathBuf], fix: &str) -> Self {
        let tried: Vec<String> = tried.iter().map(|path| path.display().to_string()).collect();
        let tried = tried.join(", ");
        GuestError::Missing(format!(
            "a guest needs {what}, and none of {tried} is there: {fix}"
        ))
    }

    /// The error of a file for the guest, or of the image.
    pub(crate) fn file<E: Display>(path: &Path) -> impl FnOnce(E) -> Self + use<E> {
        let path = path.display().to_string();
        move |cause| GuestError::Failed(format!("cannot put {path} into the guest: {cause}"))
    }
}
