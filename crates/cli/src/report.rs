//! `corelane report`: saved documents, told again or compared.

use crate::outcome::{Done, Outcome, usage};
use anyhow::Context;
use clap::Subcommand;
use corelane_lab::documents::html;
use corelane_lab::documents::scale::{self, ScaleReport};
use corelane_lab::documents::streams::{self, StreamsReport};
use corelane_load::http::{HttpLoaded, HttpMerged};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub enum ReportWhat {
    /// Tell a saved report again, as text or as a page
    Show {
        /// A document that `lab scale udp|tcp|http --json FILE` wrote
        file: PathBuf,
        /// Write the report as one HTML page instead
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Compare two saved reports, with their spread in mind
    Diff {
        /// The earlier document
        before: PathBuf,
        /// The later document
        after: PathBuf,
    },
    /// Add up runs of `load http` that ran at the same time, histograms included
    Merge {
        /// Documents that `load http --json` wrote
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// A saved document, of any kind that can be told again.
enum Document {
    Datagrams(Box<ScaleReport>),
    Streams(Box<StreamsReport>),
}

/// Shows one saved report, or compares two.
pub fn run(what: &ReportWhat) -> Outcome {
    let mut out = std::io::stdout().lock();
    match what {
        ReportWhat::Show { file, html: None } => write!(out, "{}", read(file)?.text())?,
        ReportWhat::Show {
            file,
            html: Some(path),
        } => {
            let page = read(file)?.page();
            fs::write(path, page).with_context(|| format!("--html {}", path.display()))?;
        }
        ReportWhat::Diff { before, after } => {
            let compared = match (read(before)?, read(after)?) {
                (Document::Datagrams(before), Document::Datagrams(after)) => scale::diff(&before, &after),
                (Document::Streams(before), Document::Streams(after))
                    if before.protocol == after.protocol =>
                {
                    streams::diff(&before, &after)
                }
                _ => {
                    return Err(usage(
                        &after.display().to_string(),
                        "it is of another kind than the first",
                    ));
                }
            };
            write!(out, "{compared}")?;
        }
        ReportWhat::Merge { files } => {
            let documents: anyhow::Result<Vec<HttpLoaded>> =
                files.iter().map(|file| read_loaded(file)).collect();
            writeln!(
                out,
                "{}",
                serde_json::to_string_pretty(&HttpMerged::of(&documents?))?
            )?;
        }
    }
    Ok(Done)
}

impl Document {
    fn text(&self) -> String {
        match self {
            Self::Datagrams(report) => scale::render(report),
            Self::Streams(report) => streams::render(report),
        }
    }

    fn page(&self) -> String {
        match self {
            Self::Datagrams(report) => html::page(report),
            Self::Streams(report) => html::streams::page(report),
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Document> {
    let wrong = |error: &dyn std::fmt::Display| usage(&path.display().to_string(), error);
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let document: serde_json::Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    if document["schema"].as_str().is_some_and(StreamsReport::is_schema) {
        let report = StreamsReport::from_json(&text).map_err(|error| wrong(&error))?;
        return Ok(Document::Streams(Box::new(report)));
    }
    let report = ScaleReport::from_json(&text).map_err(|error| wrong(&error))?;
    Ok(Document::Datagrams(Box::new(report)))
}

fn read_loaded(path: &Path) -> anyhow::Result<HttpLoaded> {
    let wrong = |error: &dyn std::fmt::Display| usage(&path.display().to_string(), error);
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let loaded: HttpLoaded = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    if loaded.schema != HttpLoaded::SCHEMA {
        return Err(wrong(&format!(
            "a document of schema {}: give {}",
            loaded.schema,
            HttpLoaded::SCHEMA
        )));
    }
    Ok(loaded)
}
