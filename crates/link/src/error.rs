//! Why a link cannot be opened or used, and how to fix it.

use std::fmt::Display;
use std::io;
use std::path::Path;
use thiserror::Error;

/// A link could not be opened, or failed. The text names the link, and how to fix it.
#[derive(Debug, Error)]
#[error("{0}")]
#[non_exhaustive]
pub enum LinkError {
    /// The device is not there or down, or the other process of a ring ended; opening it again may work later.
    Lost(String),
    /// A privilege is missing, or the kernel or the device does not support what was requested.
    Unavailable(String),
    /// Any other failure: in use, an invalid request, a damaged file, a rejected system call.
    Failed(String),
}

impl LinkError {
    /// Whether opening the link again may succeed later.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, LinkError::Lost(_))
    }

    pub(crate) fn lost(link: &str, cause: impl Display) -> LinkError {
        LinkError::Lost(format!("{link} is lost: {cause}"))
    }

    pub(crate) fn busy(link: &str, by: &str) -> LinkError {
        LinkError::Failed(format!("{link} is in use: {by}"))
    }

    pub(crate) fn unsupported(link: &str, what: &str, hint: &str) -> LinkError {
        LinkError::Unavailable(format!("{link}: {what} is not supported here: {hint}"))
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
pub(crate) fn refused(link: &str, step: &str, needs: &str, cause: &io::Error) -> LinkError {
    match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => LinkError::Unavailable(format!(
            "{link}: not permitted; it needs {needs} (run as root, or in a user namespace that owns the device)"
        )),
        _ => LinkError::Failed(format!("{link}: {step}: {cause}")),
    }
}

/// Classifies the error of a system call on an open link: lost or failed.
pub(crate) fn on_use(link: &str, step: &str, cause: io::Error) -> LinkError {
    // ENETDOWN: the device is down; ENXIO and ENODEV: it is gone; EBADFD: a tap device was deleted (drivers/net/tun.c);
    // EIO: a tap device is down.
    match cause.raw_os_error() {
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EBADFD | libc::EIO) => {
            LinkError::lost(link, cause)
        }
        _ => LinkError::Failed(format!("{link}: {step}: {cause}")),
    }
}

/// Whether a wake-up of the kernel failed without effect: there is nothing to do, or no memory or room for now.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS)
    )
}
