//! Exit codes, and error messages on standard error.

use crate::standard::{self, say};
use clap::ColorChoice;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

/// What every verb returns.
pub type Outcome = anyhow::Result<()>;

/// An error with a specific exit code.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct Failure {
    code: u8,
    what: String,
}

fn failure(code: u8, what: String) -> anyhow::Error {
    Failure { code, what }.into()
}

/// A usage error that names the flag at fault: exit code 2.
pub fn usage(flag: &str, error: impl Display) -> anyhow::Error {
    failure(2, format!("{flag}: {error}"))
}

/// A `--fail-if` condition holds: exit code 3.
pub fn gate_failed(what: impl Display) -> anyhow::Error {
    failure(3, format!("a gate was not met: {what}"))
}

/// This machine lacks a requirement of the command: exit code 77.
pub fn cannot_run(what: impl Display) -> anyhow::Error {
    failure(77, what.to_string())
}

/// Prints the error and returns the exit code.
pub fn exit(outcome: Outcome, color: ColorChoice) -> ExitCode {
    let printed = |()| match standard::lost() {
        Some(error) => Err(anyhow::anyhow!("standard output: {error}")),
        None => Ok(()),
    };
    let Err(error) = outcome.and_then(printed) else {
        return ExitCode::SUCCESS;
    };
    let name = match is_coloured(color) {
        true => "\x1b[1;31mcorelane:\x1b[0m",
        false => "corelane:",
    };
    say(&format!("{name} {error:#}\n"));
    match error.downcast_ref::<Failure>() {
        Some(failure) => ExitCode::from(failure.code),
        None => ExitCode::FAILURE,
    }
}

/// Whether standard error gets colour (<https://no-color.org>).
fn is_coloured(color: ColorChoice) -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let dumb = set("TERM").is_none_or(|terminal| terminal == "dumb");
            io::stderr().is_terminal() && set("NO_COLOR").is_none() && !dumb
        }
    }
}
