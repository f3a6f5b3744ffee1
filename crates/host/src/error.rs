//! Errors of reading the machine's state. Each message names the file, device or limit at fault.

use std::fmt::Display;
use std::io;

use nix::errno::Errno;
use thiserror::Error;

/// Why a fact could not be read, or a thread or process could not be placed.
#[derive(Debug, Error)]
pub enum HostError {
    /// A kernel file could not be read: it is absent, hidden by a container, or not permitted.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file, from the root of the tree.
        path: String,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },

    /// A counter file has no line for the requested item.
    #[error("{place} has no {what}: check the name, and that the caller is in the right network namespace")]
    Missing {
        /// The file.
        place: &'static str,
        /// The device, protocol or CPU looked for.
        what: String,
    },

    /// A netlink exchange failed.
    #[error("netlink refused {step}: {cause}")]
    Netlink {
        /// The request.
        step: String,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },

    /// Anything else, as one sentence: a file that is not as documented, a CPU or setting that the kernel rejects, a
    /// process whose state cannot be read.
    #[error("{0}")]
    Failed(String),
}

impl HostError {
    /// `place` does not read as documented; the text found is cut to fit one line of a terminal.
    pub(crate) fn format(place: impl Display, expected: &str, found: &str) -> Self {
        const SHOWN: usize = 60;
        let found: String = found.chars().take(SHOWN).collect();
        HostError::Failed(format!(
            "{place} reads {found:?}, expected {expected}: this kernel writes it differently"
        ))
    }

    pub(crate) fn read(path: &str, cause: io::Error) -> Self {
        let path = path.to_owned();
        HostError::Read { path, cause }
    }

    pub(crate) fn missing(place: &'static str, what: impl Into<String>) -> Self {
        let what = what.into();
        HostError::Missing { place, what }
    }

    /// The state of a process cannot be read.
    pub(crate) fn process(process: u32, what: &str) -> impl Fn(Errno) -> Self {
        move |errno| {
            let cause = io::Error::from(errno);
            HostError::Failed(format!("cannot read the {what} of process {process}: {cause}"))
        }
    }

    pub(crate) fn netlink(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        |cause| HostError::Netlink { step, cause }
    }

    pub(crate) fn setting(name: &str, value: &str) -> impl FnOnce(io::Error) -> Self {
        move |cause| HostError::Failed(format!("cannot set {name} to {value}: {cause}"))
    }
}
