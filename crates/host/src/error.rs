//! Errors of reading the machine's state. Each message names the file, device or limit at fault.

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

    /// A file was read and does not look as documented.
    #[error("{place} reads {found:?}, expected {expected}: this kernel writes it differently")]
    Format {
        /// The file or the line of it.
        place: String,
        /// What the documentation promises.
        expected: &'static str,
        /// The text found, shortened.
        found: String,
    },

    /// A counter file has no line for the requested item.
    #[error("{place} has no {what}: check the name, and that the caller is in the right network namespace")]
    Missing {
        /// The file.
        place: &'static str,
        /// The device, protocol or CPU looked for.
        what: String,
    },

    /// A thread may not run on the CPU asked for.
    #[error(
        "cannot pin this thread to CPU {cpu}: {cause}; choose one of the CPUs that `cpus::allowed` names"
    )]
    Pin {
        /// The CPU asked for.
        cpu: u32,
        /// The kernel's error: `EINVAL` for a CPU that is offline, absent or outside the affinity or cpuset.
        #[source]
        cause: io::Error,
    },

    /// The state of a process could not be read.
    #[error("cannot read the {what} of process {process}: {cause}")]
    Process {
        /// The process.
        process: u32,
        /// Which fact.
        what: &'static str,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },

    /// A user namespace could not be entered.
    #[error("cannot enter a user namespace while {step}: {cause}{hint}")]
    UserNamespace {
        /// Which of the steps failed.
        step: &'static str,
        /// The kernel's error.
        #[source]
        cause: io::Error,
        /// The limit that forbids it, where one was found; empty or begins with "; ".
        hint: String,
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

    /// A kernel setting could not be written.
    #[error("cannot set {name} to {value}: {cause}")]
    Setting {
        /// The setting's dotted name.
        name: String,
        /// The value meant for it.
        value: String,
        /// The kernel's error.
        #[source]
        cause: io::Error,
    },
}

impl HostError {
    /// A [`HostError::Format`] whose found text is cut to fit one line of a terminal.
    pub(crate) fn format(place: impl Into<String>, expected: &'static str, found: &str) -> Self {
        const SHOWN: usize = 60;
        HostError::Format {
            place: place.into(),
            expected,
            found: found.chars().take(SHOWN).collect(),
        }
    }

    pub(crate) fn read(path: &str, cause: io::Error) -> Self {
        let path = path.to_owned();
        HostError::Read { path, cause }
    }

    pub(crate) fn missing(place: &'static str, what: impl Into<String>) -> Self {
        let what = what.into();
        HostError::Missing { place, what }
    }

    /// A [`HostError::Process`] about the calling process.
    pub(crate) fn own_process(what: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| HostError::Process {
            process: std::process::id(),
            what,
            cause: errno.into(),
        }
    }

    pub(crate) fn netlink(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        |cause| HostError::Netlink { step, cause }
    }

    pub(crate) fn setting(name: &str, value: &str) -> impl FnOnce(io::Error) -> Self {
        let (name, value) = (name.to_owned(), value.to_owned());
        |cause| HostError::Setting { name, value, cause }
    }
}
