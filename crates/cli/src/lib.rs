//! The `corelane` command: parses arguments, runs the verb, and reports errors with an exit code.

#![forbid(unsafe_code)]
// These macros panic if the stream is closed or full: see `standard`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod arguments;
mod bridge;
mod capture;
mod documents;
mod explain;
mod hash;
mod help;
mod host;
mod infer;
mod interrupt;
mod key;
mod lab;
mod links;
mod load;
mod log;
mod machine;
mod metrics;
mod names;
mod outcome;
mod outputs;
mod overwriting;
mod plan;
mod progress;
mod ready;
mod rebalanced;
mod report;
mod rss;
mod serve;
mod settings;
mod shared;
mod standard;
mod steer;
mod steering;
mod table;
mod terminal;
mod timeline;
mod values;
mod verbs;
mod verify;
mod version;
mod wrong_words;

pub use help::split_examples;

use arguments::Corelane;
use clap::{ColorChoice, CommandFactory, FromArgMatches};
use std::io;
use std::process::ExitCode;

/// The command line as declared: what manual pages and completions are made from.
pub fn command() -> clap::Command {
    overwriting::with_force(Corelane::command())
}

/// Runs the command with the arguments of this process.
pub fn run() -> ExitCode {
    // A child process of an experiment reads its plan from a pipe, not from arguments.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == corelane_lab::child::CHILD_ARGUMENT)
    {
        let ended = corelane_lab::registry::run_child(io::BufReader::new(io::stdin()), io::stdout());
        // Without a reader, the experiment has ended.
        let ended = ended.or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        });
        return outcome::exit(ended.map_err(Into::into), ColorChoice::Never);
    }
    let words = match serve::expanded(std::env::args_os()) {
        Ok(words) => words,
        Err(error) => return outcome::exit(Err(error), ColorChoice::Auto),
    };
    let mut command = help::laid_out(command(), words.iter().cloned()).long_version(&*version::long().leak());
    let matches = command.try_get_matches_from_mut(&words);
    let parsed = matches.and_then(|matches| Ok((Corelane::from_arg_matches(&matches)?, matches)));
    let (corelane, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let words = words.iter().map(|word| word.to_string_lossy().into_owned());
            return wrong_words::exit(error, &command, &words.collect::<Vec<_>>());
        }
    };
    documents::limit_input(corelane.max_input);
    let checked = overwriting::check(&command, &matches);
    let outcome = checked.and_then(|()| arguments::run(&corelane.command));
    outcome::exit(outcome, corelane.color)
}
