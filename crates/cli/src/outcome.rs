//! How a command ends: the exit codes, and errors as words on standard error.

use std::fmt::{self, Display};
use std::io;
use std::process::ExitCode;

/// What every verb returns.
pub type Outcome = anyhow::Result<()>;

/// An error with an exit code of its own.
#[derive(Debug)]
struct Failure {
    code: u8,
    what: String,
}

impl Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what)
    }
}

impl std::error::Error for Failure {}

fn failure(code: u8, what: String) -> anyhow::Error {
    Failure { code, what }.into()
}

/// The request cannot be carried out as written: the flag at fault, and exit code 2.
pub fn usage(flag: &str, error: impl Display) -> anyhow::Error {
    failure(2, format!("{flag}: {error}"))
}

/// A condition that the user set was not met: exit code 3.
pub fn gate_failed(what: impl Display) -> anyhow::Error {
    failure(3, format!("a gate was not met: {what}"))
}

/// This machine lacks what the request needs: exit code 77.
pub fn cannot_run(what: impl Display) -> anyhow::Error {
    failure(77, what.to_string())
}

/// Reports what went wrong, and chooses the exit code.
pub fn exit(outcome: Outcome) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    // The reader of our output left, as `head` does: nobody is there to read a report.
    if error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    {
        return ExitCode::SUCCESS;
    }
    eprintln!("corelane: {error:#}");
    match error.downcast_ref::<Failure>() {
        Some(failure) => ExitCode::from(failure.code),
        None => ExitCode::FAILURE,
    }
}
