//! Errors of preparing and running a guest.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Errors of a guest, with the fix if there is one.
#[derive(Debug, Error)]
pub enum GuestError {
    /// A part is not on this machine: the one error after which a caller may say that it *cannot run here*.
    #[error("a guest needs {what}, and none of {} is there: {mend}", list(.tried))]
    Missing {
        /// The part.
        what: &'static str,
        /// Where it was looked for.
        tried: Vec<PathBuf>,
        /// The command that brings it.
        mend: &'static str,
    },

    /// The plan asks for a machine that cannot be.
    #[error("the plan asks for {what}: {mend}")]
    Plan {
        /// What cannot be.
        what: String,
        /// What can.
        mend: &'static str,
    },

    /// A file for the guest could not be read, or the image not be written.
    #[error("cannot put {} into the guest: {cause}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },

    /// The emulator could not be started or listened to.
    #[error("{}: {cause}", program.display())]
    Emulator {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },

    /// The command had not ended when its time was over.
    #[error(
        "the guest's command had not ended after {limit:?}; it had printed:\n{output}\nand on the console:\n{console}"
    )]
    TooLong {
        /// The plan's limit.
        limit: Duration,
        /// What the command had printed.
        output: String,
        /// The end of the kernel's console.
        console: String,
    },

    /// The emulator ended, and the command's status never came.
    #[error(
        "the guest ended before its command did ({status}); it had printed:\n{output}\nand on the console:\n{console}"
    )]
    Ended {
        /// How the emulator ended.
        status: String,
        /// What the command had printed.
        output: String,
        /// The end of the kernel's console and of what the emulator said.
        console: String,
    },
}

impl GuestError {
    /// A [`GuestError::File`] of this file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        |cause| GuestError::File { path, cause }
    }
}

fn list(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}
