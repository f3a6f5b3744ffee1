//! `corelane report`: saved documents, told again or compared.

use crate::outcome::{Done, Outcome, usage};
use anyhow::Context;
use clap::Subcommand;
use corelane_lab::documents::html;
use corelane_lab::documents::streams::{self, StreamsReport};
use corelane_lab::saved;
use corelane_load::http::{HttpLoaded, HttpMerged};
use corelane_report::diff;
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

/// Shows one saved report, or compares two.
pub fn run(what: &ReportWhat) -> Outcome {
    let mut out = std::io::stdout().lock();
    match what {
        ReportWhat::Show { file, html: None } => write!(out, "{}", shown(file, Form::Text)?)?,
        ReportWhat::Show {
            file,
            html: Some(path),
        } => {
            let page = shown(file, Form::Page)?;
            fs::write(path, page).with_context(|| format!("--html {}", path.display()))?;
        }
        ReportWhat::Diff { before, after } => write!(out, "{}", compared(before, after)?)?,
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

#[derive(Clone, Copy)]
enum Form {
    Text,
    Page,
}

fn shown(path: &Path, form: Form) -> anyhow::Result<String> {
    let (text, schema) = read(path)?;
    let wrong = |error: &dyn std::fmt::Display| usage(&path.display().to_string(), error);
    if StreamsReport::is_schema(&schema) {
        let report = StreamsReport::from_json(&text).map_err(|error| wrong(&error))?;
        return Ok(match form {
            Form::Text => streams::render(&report),
            Form::Page => html::streams::page(&report),
        });
    }
    let report = saved::read(&text).map_err(|error| wrong(&error))?;
    Ok(match form {
        Form::Text => report.page().to_text(),
        Form::Page => report.page().to_html(),
    })
}

fn compared(before: &Path, after: &Path) -> anyhow::Result<String> {
    let [old, new] = [before, after].map(|path| read(path).map(|(text, schema)| (path, text, schema)));
    let ((old_path, old, old_schema), (new_path, new, new_schema)) = (old?, new?);
    let wrong = |path: &Path, error: &dyn std::fmt::Display| usage(&path.display().to_string(), error);
    if StreamsReport::is_schema(&old_schema) && old_schema == new_schema {
        let old = StreamsReport::from_json(&old).map_err(|error| wrong(old_path, &error))?;
        let new = StreamsReport::from_json(&new).map_err(|error| wrong(new_path, &error))?;
        return Ok(streams::diff(&old, &new));
    }
    let old = saved::read(&old).map_err(|error| wrong(old_path, &error))?;
    let new = saved::read(&new).map_err(|error| wrong(new_path, &error))?;
    match (old.compared(), new.compared()) {
        (Some(old), Some(new)) if old_schema == new_schema => Ok(diff::diff(&old, &new)),
        (Some(_), Some(_)) => Err(wrong(after, &"it is of another kind than the first")),
        _ => Err(wrong(before, &"runs of this kind are not compared")),
    }
}

/// The text of a document, and its schema.
fn read(path: &Path) -> anyhow::Result<(String, String)> {
    let wrong = |error: &dyn std::fmt::Display| usage(&path.display().to_string(), error);
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let document: serde_json::Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    let schema = document["schema"].as_str().unwrap_or_default().to_owned();
    Ok((text, schema))
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
