//! `--timeline FILE`: one line per second of a run, written as it happens.

use crate::documents::wrong_file;
use crate::outcome::Outcome;
use anyhow::anyhow;
use clap::Args;
use corelane_lab::document::Head;
use corelane_load::timeline::TimelineFile;
use serde::Serialize;
use std::path::PathBuf;

/// The flag.
#[derive(Debug, Args)]
pub struct TimelineArgument {
    /// Write a JSON line per second, as it happens: rates, errors, durations, CPU time and drops; `report show` draws it
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
}

impl TimelineArgument {
    /// Creates the file, if it is wanted, for a run of this plan.
    pub fn create(
        &self,
        facts: &Head,
        plan: &impl Serialize,
        in_this_namespace: bool,
    ) -> anyhow::Result<Option<TimelineFile>> {
        let create = |path| {
            TimelineFile::create(
                path,
                (&facts.tool.version, &facts.command_line),
                plan,
                in_this_namespace,
            )
            .map_err(|error| wrong_file("--timeline", path, error))
        };
        self.timeline.as_deref().map(create).transpose()
    }

    /// Ends the file.
    pub fn finish(&self, file: Option<TimelineFile>) -> Outcome {
        let Some((file, path)) = file.zip(self.timeline.as_deref()) else {
            return Ok(());
        };
        let lost = |error| {
            anyhow!(
                "--timeline {}: {error}; it has the seconds before that",
                path.display()
            )
        };
        file.finish().map_err(lost)
    }
}
