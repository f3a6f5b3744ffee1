//! `corelane report`: shows, compares, merges and joins saved documents.

use crate::documents::{check_output, read_text, schema_of, unreadable, write_whole};
use crate::outcome::{Outcome, usage};
use crate::outputs::OutputArguments;
use crate::standard::{say, write_out};
use crate::terminal::width;
use anyhow::Context;
use clap::Subcommand;
use corelane_lab::join::{FIGURES, Joined};
use corelane_lab::registry::{self, Merge, MergeError};
use corelane_lab::saved::RecordedTimeline;
use corelane_load::timeline::{SCHEMA, Timeline};
use corelane_report::diff::{self, Basis, Diff, DiffError};
use corelane_report::json;
use corelane_report::page::Rendered;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The help of `report diff --fail-if`.
const FAIL_IF: &str =
    "Fail with exit code 3 if this condition holds, such as 'worse > 0' or 'worst > 5%'; may be repeated";

const SHOW: &str = "Examples:\n  corelane report show run.json\n  corelane report show run.json --html run.html\n  \
    corelane report show run.jsonl --html timeline.html";

const DIFF: &str = "Examples:\n  corelane report diff before.json after.json\n  \
    corelane report diff without.json with.json --by gso\n  \
    corelane report diff few.json many.json --by pools\n  \
    corelane report diff before.json after.json --force --fail-if 'worst > 90%'";

const MERGE: &str = "Examples:\n  corelane report merge one.json two.json\n  \
    corelane report merge one.jsonl two.jsonl";

const JOIN: &str = "Examples:\n  corelane report join load.json bridge.json serve.json\n  \
    corelane report join load.json serve.json --json\n\
    Exit code 1 when more frames arrived somewhere than had left the place before.";

/// The help of `report join --fail-if`.
const FAIL_IF_JOINED: &str =
    "Fail with exit code 3 if this condition holds, such as 'unexplained > 0'; may be repeated";

/// What `report merge` reads besides timelines.
const MERGEABLE: &str = "a document of `load ... --json`";

#[derive(Debug, Subcommand)]
pub enum ReportWhat {
    /// Show a saved report as text or as an HTML page
    #[command(after_help = SHOW)]
    Show {
        /// A document written by any `lab ... --json FILE`, or by `load`, `report join` or `bridge --explain` with `--json`; or a
        /// file of `--timeline`
        file: PathBuf,
        /// Write the report as an HTML page instead
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Compare two saved reports, taking their spread into account
    #[command(mut_arg("fail_if", |gate| gate.help(FAIL_IF)), after_help = DIFF)]
    Diff {
        /// The earlier document
        before: PathBuf,
        /// The later document
        after: PathBuf,
        /// Compare runs that differ in this field only, such as gso or pools.connections, or in fields nested in it
        #[arg(long, value_name = "FIELD", conflicts_with = "force")]
        by: Option<String>,
        /// Compare runs although what was measured differs; replace files that corelane did not write
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        outputs: OutputArguments,
    },
    /// Join the documents of packets on their way: every frame in one cell
    #[command(mut_arg("fail_if", |gate| gate.help(FAIL_IF_JOINED)), after_help = JOIN)]
    Join {
        /// The document of `load packets`, those of `bridge`, if any, and that of `serve packets`, in this order
        #[arg(required = true, num_args = 2.., value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        outputs: OutputArguments,
    },
    /// Merge the documents of simultaneous runs of one `load` verb, or their timelines, including histograms
    #[command(after_help = MERGE)]
    Merge {
        /// Documents written by `load ... --json`, or files written by `load ... --timeline`
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// Runs the selected verb.
pub fn run(what: &ReportWhat) -> Outcome {
    match what {
        ReportWhat::Show { file, html } => {
            if let Some(path) = html {
                check_output("--html", path)?;
            }
            let (_, report) = read(file)?;
            match html {
                None => write_out(&report.page().text(width())),
                Some(path) => {
                    let page = report.page().to_html();
                    write_whole(path, &page).with_context(|| format!("--html {}", path.display()))?;
                }
            }
        }
        ReportWhat::Diff {
            before,
            after,
            by,
            force,
            outputs,
        } => {
            outputs.check()?;
            let gates = outputs.gates(&diff::FIGURES)?;
            let basis = match by {
                Some(field) => Basis::By(field),
                None if *force => Basis::Any,
                None => Basis::Alike,
            };
            let diff = compared(before, after, basis)?;
            let json = json::pretty(&diff)?;
            outputs.finish(&diff, &json, &gates, write_out)?;
        }
        ReportWhat::Join { files, outputs } => {
            outputs.check()?;
            let gates = outputs.gates(&FIGURES)?;
            let joined =
                Joined::of(&different(files)?).map_err(|(place, error)| wrong(&files[place], &error))?;
            outputs.finish(&joined, &json::pretty(&joined)?, &gates, write_out)?;
        }
        ReportWhat::Merge { files } => {
            let texts = different(files)?;
            match merged_timelines(files, &texts)? {
                Some(timeline) => write_out(&timeline.to_text()?),
                None => write_out(&merged_documents(files, &texts)?),
            }
        }
    }
    Ok(())
}

/// The sum of these timelines; `None` if the first file is none.
fn merged_timelines(files: &[PathBuf], texts: &[String]) -> anyhow::Result<Option<Timeline>> {
    let mut timelines = Vec::with_capacity(files.len());
    for (file, text) in files.iter().zip(texts) {
        if !Timeline::is_begun(text) {
            if timelines.is_empty() {
                return Ok(None);
            }
            return Err(wrong(file, &"it is no timeline, as the first file is"));
        }
        let read = Timeline::read(text).map_err(|error| wrong(file, &error))?;
        if read.cut_bytes > 0 {
            let cut = read.cut().unwrap_or_default();
            say(&format!("corelane: {}: {cut}\n", file.display()));
        }
        timelines.push(read);
    }
    let merged = Timeline::merged(&timelines).map_err(|(place, error)| wrong(&files[place], &error))?;
    if let Some(aligned) = &merged.header.aligned {
        say(&format!("corelane: {} timelines added {aligned}\n", files.len()));
    }
    Ok(Some(merged))
}

fn compared(before: &Path, after: &Path, basis: Basis<'_>) -> anyhow::Result<Diff> {
    let ((old_schema, old), (new_schema, new)) = (read(before)?, read(after)?);
    match (old.compared(), new.compared()) {
        (Some(old), Some(new)) if old_schema == new_schema => {
            diff::diff(&old, &new, basis).map_err(|error| refused(after, &error))
        }
        (Some(_), Some(_)) => {
            let kinds = format!(
                "it is a document of {new_schema}, and the first of {old_schema}: give two of one kind"
            );
            Err(wrong(after, &kinds))
        }
        (None, _) => Err(incomparable(before, &old_schema)),
        (Some(_), None) => Err(incomparable(after, &new_schema)),
    }
}

fn incomparable(path: &Path, schema: &str) -> anyhow::Error {
    let why = format!(
        "documents of {schema} cannot be compared: give two of `lab scale ... --json` or \
                       `load ... --json`"
    );
    wrong(path, &why)
}

/// The error with the flags that compare the runs nevertheless.
fn refused(after: &Path, error: &DiffError) -> anyhow::Error {
    match error {
        DiffError::Differ(_) => wrong(
            after,
            &format!("{error}. Give --by FIELD if they differ in one field, or --force"),
        ),
        DiffError::Same { .. } => usage("--by", error),
        DiffError::Several { .. } => usage("--by", format!("{error}; measure one value in each run")),
    }
}

/// Reads a document and its schema name.
fn read(path: &Path) -> anyhow::Result<(String, Box<dyn Rendered>)> {
    let text = read_text(path).map_err(|error| wrong(path, &error))?;
    if Timeline::is_begun(&text) {
        let timeline = Timeline::read(&text).map_err(|error| wrong(path, &error))?;
        return Ok((SCHEMA.to_owned(), Box::new(RecordedTimeline(timeline))));
    }
    let schema = schema_of(&text, "a document of `--json`").map_err(|error| wrong(path, &error))?;
    let report = registry::read(&text).map_err(|error| wrong(path, &error))?;
    Ok((schema, report))
}

fn wrong(path: &Path, error: &dyn Display) -> anyhow::Error {
    usage(&path.display().to_string(), error)
}

/// The texts of these files, each another.
fn different(files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::<String>::with_capacity(files.len());
    for file in files {
        let text = read_text(file).map_err(|error| wrong(file, &error))?;
        if let Some(place) = texts.iter().position(|before| *before == text) {
            let before = files[place].display();
            return Err(wrong(
                file,
                &format!("it is the same as {before}: give each run once"),
            ));
        }
        texts.push(text);
    }
    Ok(texts)
}

/// The sum of these documents.
fn merged_documents(files: &[PathBuf], texts: &[String]) -> anyhow::Result<String> {
    let mut expected: Option<(String, Merge)> = None;
    for (file, text) in files.iter().zip(texts) {
        let schema = schema_of(text, MERGEABLE).map_err(|error| wrong(file, &error))?;
        match &expected {
            None => {
                let refused = || {
                    wrong(
                        file,
                        &format!("schema {schema} cannot be merged: give {MERGEABLE}"),
                    )
                };
                let merge = registry::merge(&schema).ok_or_else(refused)?;
                expected = Some((schema, merge));
            }
            Some((expected, _)) if *expected != schema => {
                let different = format!("the document has schema {schema}, expected {expected}");
                return Err(wrong(file, &different));
            }
            Some(_) => {}
        }
    }
    let (_, merge) = expected.context("no document to merge")?;
    merge(texts).map_err(|(place, error)| {
        let why = match &error {
            MergeError::Unreadable(error) => unreadable(&texts[place], MERGEABLE, error),
            impossible @ MergeError::Impossible(_) => impossible.to_string(),
        };
        wrong(&files[place], &why)
    })
}
