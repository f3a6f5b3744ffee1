//! Progress display of an experiment; only if standard error is a terminal.

use corelane_host::conditions::{Severity, Snapshot};
use corelane_lab::experiment::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};

/// Prints the test bed, the conditions that spoil a result, and the estimated duration; returns a bar of `trials`
/// steps.
pub fn announce(bed: Option<&str>, snapshot: Option<&Snapshot>, trials: usize, seconds: f64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    if let Some(bed) = bed {
        eprintln!("{bed}");
    }
    for condition in snapshot
        .iter()
        .flat_map(|snapshot| &snapshot.conditions)
        .filter(|condition| condition.severity == Severity::Spoils)
    {
        let value = condition.value.as_deref().unwrap_or("unknown");
        eprintln!(
            "spoils the result: {} is {value}: {}",
            condition.name, condition.why
        );
    }
    eprintln!("{trials} trials, about {seconds:.0} s; ^C stops early and still reports");
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}").expect("a template of known fields");
    ProgressBar::new(trials as u64).with_style(style)
}

/// Updates the progress bar.
pub fn show<D>(bar: &ProgressBar, progress: &Progress<'_, D>) {
    bar.set_length(progress.of as u64);
    bar.set_position(progress.done as u64);
    bar.set_message(progress.what.to_owned());
}
