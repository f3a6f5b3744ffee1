//! Why a link cannot be opened or used, and how to fix it.

use std::fmt::Display;
use std::io;
use std::path::Path;
use thiserror::Error;

/// A link could not be opened, or failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The device went away or down, or the other process of a ring ended; opening it again may work later.
    #[error("{link} is lost: {cause}")]
    Lost {
        /// The link's name.
        link: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// There is no such device here.
    #[error("there is no device {device} in this network namespace")]
    NoDevice {
        /// Its name.
        device: String,
    },
    /// A privilege is missing.
    #[error(
        "{link}: not permitted; it needs {needs} (run as root, or in a user namespace that owns the device)"
    )]
    NotPermitted {
        /// The link's name.
        link: String,
        /// Capabilities or rights.
        needs: &'static str,
    },
    /// Not supported by this kernel or device.
    #[error("{link}: {what} is not supported here: {hint}")]
    Unsupported {
        /// The link's name.
        link: String,
        /// The requested feature.
        what: &'static str,
        /// The alternative.
        hint: &'static str,
    },
    /// Any other failure, as one sentence: in use, an invalid request, a damaged file, a rejected system call.
    #[error("{0}")]
    Failed(String),
}

impl LinkError {
    /// Whether opening the link again may succeed later.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, LinkError::Lost { .. } | LinkError::NoDevice { .. })
    }

    pub(crate) fn busy(link: &str, by: &str) -> LinkError {
        LinkError::Failed(format!("{link} is in use: {by}"))
    }

    pub(crate) fn unsupported(link: &str, what: &'static str, hint: &'static str) -> LinkError {
        let link = link.to_owned();
        LinkError::Unsupported { link, what, hint }
    }

    /// The error of a capture file.
    pub(crate) fn file(path: &Path, what: impl Display) -> LinkError {
        LinkError::Failed(format!("{}: {what}", path.display()))
    }

    /// The other end wrote invalid data to shared memory.
    pub(crate) fn corrupt(link: &str, what: &str) -> LinkError {
        LinkError::Failed(format!(
            "{link}: the other end broke the ring's protocol ({what}); use the same version on both ends"
        ))
    }
}

/// Classifies the error of a step of opening a link that needs a privilege.
pub(crate) fn refused(link: &str, step: &str, needs: &'static str, cause: &io::Error) -> LinkError {
    match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => LinkError::NotPermitted {
            link: link.to_owned(),
            needs,
        },
        _ => LinkError::Failed(format!("{link}: {step}: {cause}")),
    }
}

/// Classifies the error of a system call on an open link: lost or failed.
pub(crate) fn on_use(link: &str, step: &str, cause: io::Error) -> LinkError {
    // ENETDOWN: the device is down; ENXIO and ENODEV: it is gone; EBADFD: a tap device was deleted (drivers/net/tun.c);
    // EIO: a tap device is down.
    match cause.raw_os_error() {
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EBADFD | libc::EIO) => LinkError::Lost {
            link: link.to_owned(),
            cause,
        },
        _ => LinkError::Failed(format!("{link}: {step}: {cause}")),
    }
}
