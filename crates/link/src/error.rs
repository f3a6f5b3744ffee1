//! Why a link cannot be opened or used, and how to fix it.

use crate::layout::LayoutError;
use std::io;
use std::path::PathBuf;
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
    /// The resource is in use.
    #[error("{link} is in use: {by}")]
    Busy {
        /// The link's name.
        link: String,
        /// The possible holder, and how to find it.
        by: &'static str,
    },
    /// The device has another number of queues.
    #[error(
        "{device} has {present} receive queues but {asked} were requested: use {present}, or change the device (ethtool -L {device} combined {asked})"
    )]
    Queues {
        /// The device.
        device: String,
        /// Queues that it has.
        present: usize,
        /// The requested queues.
        asked: usize,
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
    /// The layout does not suit this kind of link.
    #[error("{link}: {cause}")]
    Layout {
        /// The link's name.
        link: String,
        /// The error.
        cause: LayoutError,
    },
    /// The stride does not suit this kind of link.
    #[error("{link}: a stride of {stride} bytes does not do here: {rule}")]
    Stride {
        /// The link's name.
        link: String,
        /// The requested stride.
        stride: usize,
        /// The valid strides.
        rule: &'static str,
    },
    /// A capture file cannot be read or written.
    #[error("{}: {what}", .path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// The error.
        what: String,
    },
    /// The other end wrote invalid data to shared memory.
    #[error("{link}: the other end broke the ring's protocol ({what}); use the same version on both ends")]
    Corrupt {
        /// The link's name.
        link: String,
        /// What was found.
        what: &'static str,
    },
    /// The kernel rejected a step.
    #[error("{link}: {step}: {cause}")]
    System {
        /// The link's name.
        link: String,
        /// The failed step.
        step: &'static str,
        /// The kernel's error.
        cause: io::Error,
    },
}

impl LinkError {
    /// Whether opening the link again may succeed later.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, LinkError::Lost { .. } | LinkError::NoDevice { .. })
    }
}

/// Classifies the error of a system call on an open link: lost or failed.
pub(crate) fn on_use(link: &str, step: &'static str, cause: io::Error) -> LinkError {
    let link = link.to_owned();
    // ENETDOWN: the device is down; ENXIO and ENODEV: it is gone; EBADFD: a tap device was deleted (drivers/net/tun.c);
    // EIO: a tap device is down.
    match cause.raw_os_error() {
        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EBADFD | libc::EIO) => {
            LinkError::Lost { link, cause }
        }
        _ => LinkError::System { link, step, cause },
    }
}
