//! `corelane report`: saved documents, told again or compared.

use crate::arguments::ReportWhat;
use crate::outcome::{Done, Outcome, usage};
use anyhow::Context;
use corelane_report::scale::{self, ScaleReport};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Shows one saved report, or compares two.
pub fn run(what: &ReportWhat) -> Outcome {
    let mut out = std::io::stdout().lock();
    match what {
        ReportWhat::Show { file, html } => {
            let report = read(file)?;
            match html {
                Some(path) => {
                    let page = corelane_report::html::page(&report);
                    fs::write(path, page).with_context(|| format!("--html {}", path.display()))?;
                }
                None => write!(out, "{}", scale::render(&report))?,
            }
        }
        ReportWhat::Diff { before, after } => write!(out, "{}", scale::diff(&read(before)?, &read(after)?))?,
    }
    Ok(Done)
}

fn read(path: &Path) -> anyhow::Result<ScaleReport> {
    let text = fs::read_to_string(path).map_err(|error| usage(&path.display().to_string(), error))?;
    ScaleReport::from_json(&text).map_err(|error| usage(&path.display().to_string(), error))
}
