//! What the parent of a generator does while it runs.

use corelane_load::timeline::{TimelineFile, TrialLabel};
use std::sync::atomic::AtomicBool;

/// Stops a generator early, and records its lines.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    pub(crate) interrupt: &'a AtomicBool,
    /// The file, and the trial that the lines belong to.
    pub(crate) lines: Option<(&'a TimelineFile, &'a TrialLabel)>,
}

impl<'a> Watch<'a> {
    /// The name of a part of the trial; `None` if nothing is recorded.
    pub(crate) fn part(&self, part: impl ToString) -> Option<TrialLabel> {
        let part = Some(part.to_string());
        self.lines.map(|(_, trial)| TrialLabel {
            part,
            ..trial.clone()
        })
    }

    /// The lines belong to this trial; they are not recorded without one.
    pub(crate) fn naming(self, trial: Option<&'a TrialLabel>) -> Self {
        let lines = self.lines.zip(trial);
        Self {
            lines: lines.map(|((file, _), trial)| (file, trial)),
            ..self
        }
    }
}
