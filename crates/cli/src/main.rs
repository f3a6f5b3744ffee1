//! The `corelane` command: arguments become a plan, the plan runs, the outcome becomes words and an exit code.

#![forbid(unsafe_code)]

mod arguments;
mod engines;
mod hash;
mod interrupt;
mod lab;
mod load;
mod outcome;
mod plan;
mod report;
mod serve;
mod simulate;
mod steering;

use arguments::{Command, Corelane, LabWhat, LoadWhat, ScaleWhat, ServeWhat};
use clap::Parser;
use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    // A child of an experiment: its plan comes over a pipe, not from arguments.
    if std::env::args().nth(1).as_deref() == Some(corelane_lab::child::CHILD_ARGUMENT) {
        let attended = corelane_lab::child::attend(io::BufReader::new(io::stdin()), io::stdout());
        return outcome::exit(attended.map(|()| outcome::Done).map_err(Into::into));
    }
    let corelane = Corelane::parse();
    outcome::exit(match corelane.command {
        Command::Hash(arguments) => hash::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Report { what } => report::run(&what),
        Command::Serve {
            what: ServeWhat::Udp(arguments),
        } => serve::udp(&arguments),
        Command::Load {
            what: LoadWhat::Udp(arguments),
        } => load::udp(&arguments),
        Command::Lab {
            what: LabWhat::Scale {
                what: ScaleWhat::Udp(arguments),
            },
        } => lab::scale_udp(&arguments),
        Command::Lab {
            what: LabWhat::Simulate(arguments),
        } => simulate::run(&arguments),
        Command::Lab {
            what: LabWhat::Engines(arguments),
        } => engines::run(&arguments),
    })
}
