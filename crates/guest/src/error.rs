//! Errors of preparing and running a guest.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Errors of a guest, with the fix if there is one.
#[derive(Debug, Error)]
pub enum GuestError {
    /// A part is missing on this machine. Callers may treat this error, and no other, as *cannot run here*.
    #[error("a guest needs {what}, and none of {} is there: {mend}", list(.tried))]
    Missing {
        /// The part.
        what: &'static str,
        /// The paths searched.
        tried: Vec<PathBuf>,
        /// The command that installs it.
        mend: &'static str,
    },

    /// The plan describes an impossible machine.
    #[error("the plan asks for {what}: {mend}")]
    Plan {
        /// The impossible value.
        what: String,
        /// The accepted values.
        mend: &'static str,
    },

    /// A file for the guest could not be read, or the image could not be written.
    #[error("cannot put {} into the guest: {cause}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// The system error.
        #[source]
        cause: io::Error,
    },

    /// The emulator could not be started or read.
    #[error("{}: {cause}", program.display())]
    Emulator {
        /// The program.
        program: PathBuf,
        /// The system error.
        #[source]
        cause: io::Error,
    },

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

    /// The emulator ended without the command's status.
    #[error(
        "the guest ended before its command did ({status}); it had printed:\n{output}\nand on the console:\n{console}"
    )]
    Ended {
        /// The emulator's exit status.
        status: String,
        /// The command's output.
        output: String,
        /// The end of the kernel's console and of the emulator's messages.
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
