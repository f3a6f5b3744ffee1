//! `corelane report`: shows, compares and merges saved documents.

use crate::outcome::{Outcome, usage};
use crate::shared::print_json;
use crate::terminal::width;
use anyhow::Context;
use clap::Subcommand;
use corelane_lab::saved;
use corelane_load::http::{HttpLoaded, HttpMerged};
use corelane_report::diff;
use corelane_report::page::Rendered;
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, Subcommand)]
pub enum ReportWhat {
    /// Show a saved report as text or as an HTML page
    Show {
        /// A document written by any `lab ... --json FILE`, or by `load udp|tcp|http --json`
        file: PathBuf,
        /// Write the report as an HTML page instead
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Compare two saved reports, taking their spread into account
    Diff {
        /// The earlier document
        before: PathBuf,
        /// The later document
        after: PathBuf,
    },
    /// Merge simultaneous runs of `load http`, including their histograms
    Merge {
        /// Documents written by `load http --json`
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// Runs the selected verb.
pub fn run(what: &ReportWhat) -> Outcome {
    let mut out = std::io::stdout();
    match what {
        ReportWhat::Show { file, html } => {
            let (_, report) = read(file)?;
            match html {
                None => write!(out, "{}", report.page().text(width()))?,
                Some(path) => {
                    let page = report.page().to_html();
                    fs::write(path, page).with_context(|| format!("--html {}", path.display()))?;
                }
            }
        }
        ReportWhat::Diff { before, after } => write!(out, "{}", compared(before, after)?)?,
        ReportWhat::Merge { files } => {
            let documents: anyhow::Result<Vec<HttpLoaded>> =
                files.iter().map(|file| read_loaded(file)).collect();
            print_json(&HttpMerged::of(&documents?))?;
        }
    }
    Ok(())
}

fn compared(before: &Path, after: &Path) -> anyhow::Result<String> {
    let ((old_schema, old), (new_schema, new)) = (read(before)?, read(after)?);
    match (old.compared(), new.compared()) {
        (Some(old), Some(new)) if old_schema == new_schema => Ok(diff::diff(&old, &new)),
        (Some(_), Some(_)) => Err(wrong(after, &"its kind differs from the first document's")),
        _ => Err(wrong(
            before,
            &"comparison is not supported for runs of this kind",
        )),
    }
}

/// Reads a document and its schema name.
fn read(path: &Path) -> anyhow::Result<(String, Box<dyn Rendered>)> {
    let text = fs::read_to_string(path).map_err(|error| wrong(path, &error))?;
    let document: serde_json::Value = serde_json::from_str(&text).map_err(|error| wrong(path, &error))?;
    let schema = document["schema"].as_str().unwrap_or_default().to_owned();
    let report = saved::read(&text).map_err(|error| wrong(path, &error))?;
    Ok((schema, report))
}

fn wrong(path: &Path, error: &dyn Display) -> anyhow::Error {
    usage(&path.display().to_string(), error)
}

fn read_loaded(path: &Path) -> anyhow::Result<HttpLoaded> {
    let text = fs::read_to_string(path).map_err(|error| wrong(path, &error))?;
    let loaded: HttpLoaded = serde_json::from_str(&text).map_err(|error| wrong(path, &error))?;
    if loaded.schema != HttpLoaded::SCHEMA {
        let (found, expected) = (&loaded.schema, HttpLoaded::SCHEMA);
        return Err(wrong(
            path,
            &format!("the document has schema {found}, expected {expected}"),
        ));
    }
    Ok(loaded)
}
