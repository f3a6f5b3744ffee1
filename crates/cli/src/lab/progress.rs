//! What a terminal shows while an experiment runs; nothing is shown to anything else.

use corelane_host::conditions::{Severity, Snapshot};
use corelane_lab::experiment::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};

/// Says what is about to run, where, and what may spoil it; then a bar of so many trials, which take about so many seconds.
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
    eprintln!("{trials} trials, about {seconds:.0} s; ^C ends early and still reports");
    bar(trials)
}

/// A bar of so many trials.
pub fn bar(trials: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}").expect("a template of known fields");
    ProgressBar::new(trials as u64).with_style(style)
}

/// How far the run is.
pub fn show<D>(bar: &ProgressBar, progress: &Progress<'_, D>) {
    bar.set_length(progress.of as u64);
    bar.set_position(progress.done as u64);
    bar.set_message(progress.what.to_owned());
}
