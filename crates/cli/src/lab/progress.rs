//! Progress of an experiment: what is announced before the first trial, and each trial's result.

use crate::progress::Steps;
use crate::standard::say;
use crate::terminal::error_columns;
use corelane_host::conditions::Severity;
use corelane_lab::document::Head;
use corelane_lab::experiment::Progress;
use corelane_report::text::wrapped;
use std::io::{self, IsTerminal};

/// Prints the test bed, the conditions that spoil a result, and the estimated duration, if standard error is a terminal;
/// returns the progress of so many trials.
pub fn announce(head: &Head, trials: usize, seconds: f64) -> Steps {
    if !io::stderr().is_terminal() {
        return Steps::begin(trials as u64);
    }
    let mut text = String::new();
    let columns = error_columns();
    let mut line = |words: &str| wrapped(&mut text, "", words, columns);
    line(head.bed.as_ref().map_or("", |bed| &bed.describe));
    let conditions = head.conditions.iter().flat_map(|snapshot| &snapshot.conditions);
    for condition in conditions.filter(|condition| condition.severity == Severity::Spoils) {
        let value = condition.value.as_deref().unwrap_or("unknown");
        line(&format!(
            "spoils the result: {} is {value}: {}",
            condition.name, condition.why
        ));
    }
    line(&format!(
        "{trials} trials, about {seconds:.0} s; ^C stops early and still reports"
    ));
    say(&text);
    Steps::begin(trials as u64)
}

/// Shows what the last trial gave.
pub fn show<D>(steps: &mut Steps, progress: &Progress<'_, D>) {
    let result = progress.result.as_ref();
    let result = result.map_or(progress.what.to_owned(), |result| {
        format!("{result}: {}", progress.what)
    });
    steps.done(progress.done as u64, progress.of as u64, &result);
}
