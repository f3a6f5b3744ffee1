//! `--timeline FILE`: one line per second of a run, written as it happens.

use crate::documents::wrong_file;
use crate::log::log_line;
use crate::outcome::{Outcome, usage};
use crate::outputs::Print;
use crate::shared::{JsonArgument, STANDARD_OUTPUT};
use crate::standard::{out, say, write_out};
use anyhow::anyhow;
use clap::Args;
use corelane_lab::document::Head;
use corelane_load::timeline::{Origin, TimelineFile};
use serde::Serialize;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The flag; by default without a file.
#[derive(Debug, Default, Args)]
pub struct TimelineArgument {
    /// Write a JSON line per second, as it happens: rates, errors, durations, CPU time and drops; `report show` draws it.
    /// With -, to standard output, and the text of the report to standard error
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
}

impl TimelineArgument {
    /// The lines go to standard output, which is reserved for them.
    pub fn on_stdout(&self) -> bool {
        self.timeline.as_deref() == Some(Path::new(STANDARD_OUTPUT))
    }

    /// How the text of the report is printed; an error if standard output would have both lines and the document.
    pub fn printer(&self, json: JsonArgument) -> anyhow::Result<Print> {
        match self.on_stdout() {
            true if json.on_stdout() => {
                let both = "standard output has the JSON document: write one of them to a file, such as --json=run.json";
                Err(usage("--timeline", both))
            }
            true => Ok(say),
            false => Ok(write_out),
        }
    }

    /// Creates the file, if it is wanted, for a run of this plan.
    pub fn create(
        &self,
        facts: &Head,
        plan: &impl Serialize,
        in_this_namespace: bool,
    ) -> anyhow::Result<Option<TimelineFile>> {
        let create = |path| {
            let origin = Origin {
                tool: facts.tool.words(),
                command_line: facts.command_line.clone(),
                conditions: facts.conditions.clone(),
                ..Origin::default()
            };
            self.open(path)
                .and_then(|file| TimelineFile::create(file, origin, plan, in_this_namespace))
                .map_err(|error| wrong_file("--timeline", path, error))
        };
        self.timeline.as_deref().map(create).transpose()
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        match self.on_stdout() {
            true => Ok(out().as_fd().try_clone_to_owned()?.into()),
            false => File::create(path),
        }
    }

    /// Ends the file after the report, whose outcome is `reported`. An error of one must not hide that of the other: the
    /// report's is returned, the file's then logged.
    pub fn finish(&self, file: Option<TimelineFile>, reported: Outcome) -> Outcome {
        let ended = self.end(file);
        if let (Err(lost), Err(_)) = (&ended, &reported) {
            log_line(&lost.to_string());
        }
        reported.and(ended)
    }

    fn end(&self, file: Option<TimelineFile>) -> Outcome {
        let Some((file, path)) = file.zip(self.timeline.as_deref()) else {
            return Ok(());
        };
        match file.finish() {
            // A reader of standard output that has what it wanted, as `head` does.
            Err(error) if self.on_stdout() && error.kind() == ErrorKind::BrokenPipe => Ok(()),
            finished => finished.map_err(|error| {
                anyhow!(
                    "--timeline {}: {error}; it has the seconds before that",
                    path.display()
                )
            }),
        }
    }
}
