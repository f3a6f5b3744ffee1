//! How a command ends: the exit codes, and errors as words on standard error.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// A command that did what it was told.
#[derive(Debug)]
pub struct Done;

/// What every verb returns.
pub type Outcome = anyhow::Result<Done>;

/// The request cannot be carried out as written: exit code 2.
#[derive(Debug)]
pub struct Usage(pub String);

/// This machine lacks what the request needs: exit code 77.
#[derive(Debug)]
pub struct CannotRun(pub String);

/// A condition that the user set was not met: exit code 3.
#[derive(Debug)]
pub struct GateFailed(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Display for CannotRun {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Display for GateFailed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a gate was not met: {}", self.0)
    }
}

impl std::error::Error for Usage {}
impl std::error::Error for GateFailed {}
impl std::error::Error for CannotRun {}

/// A usage error that names the flag at fault.
pub fn usage(flag: &str, error: impl fmt::Display) -> anyhow::Error {
    Usage(format!("{flag}: {error}")).into()
}

/// Says what went wrong, and chooses the exit code.
pub fn exit(outcome: Outcome) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    // The reader of our output left, as `head` does: nobody is there to be told.
    if error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    {
        return ExitCode::SUCCESS;
    }
    eprintln!("corelane: {error:#}");
    if error.is::<Usage>() {
        ExitCode::from(2)
    } else if error.is::<CannotRun>() {
        ExitCode::from(77)
    } else if error.is::<GateFailed>() {
        ExitCode::from(3)
    } else {
        ExitCode::FAILURE
    }
}
