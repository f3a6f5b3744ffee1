//! Why a link cannot be opened or used, and what would mend it.

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
        /// What the kernel said.
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
    /// Somebody else has it.
    #[error("{link} is in use: {by}")]
    Busy {
        /// The link's name.
        link: String,
        /// Who may have it, and how to find out.
        by: &'static str,
    },
    /// The device has another number of queues.
    #[error(
        "{device} has {present} receive queues and {asked} were asked for: ask for {present}, or change the device (ethtool -L {device} combined {asked})"
    )]
    Queues {
        /// The device.
        device: String,
        /// Queues that it has.
        present: usize,
        /// Queues that were asked for.
        asked: usize,
    },
    /// This kernel or device cannot do it.
    #[error("{link}: {what} is not supported here: {hint}")]
    Unsupported {
        /// The link's name.
        link: String,
        /// What was asked for.
        what: &'static str,
        /// What to do instead.
        hint: &'static str,
    },
    /// The layout does not suit this kind of link.
    #[error("{link}: {cause}")]
    Layout {
        /// The link's name.
        link: String,
        /// What is wrong.
        cause: LayoutError,
    },
    /// The stride does not suit this kind of link.
    #[error("{link}: a stride of {stride} bytes does not do here: {rule}")]
    Stride {
        /// The link's name.
        link: String,
        /// The stride asked for.
        stride: usize,
        /// Which strides would.
        rule: &'static str,
    },
    /// A capture file cannot be read or written.
    #[error("{}: {what}", .path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Shared memory holds what the other end may not have written.
    #[error("{link}: the other end broke the ring's protocol ({what}); use the same version on both ends")]
    Corrupt {
        /// The link's name.
        link: String,
        /// What was found.
        what: &'static str,
    },
    /// The kernel refused a step.
    #[error("{link}: {step}: {cause}")]
    System {
        /// The link's name.
        link: String,
        /// What was tried.
        step: &'static str,
        /// What the kernel said.
        cause: io::Error,
    },
}

impl LinkError {
    /// Whether the link may come back when it is opened again.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, LinkError::Lost { .. } | LinkError::NoDevice { .. })
    }
}

/// What a system call on an open link failed with: gone, or a failure.
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
