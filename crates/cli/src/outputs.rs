//! Where a document goes: text or JSON on standard output, files in every form, and gates.

use crate::documents::write_whole;
use crate::outcome::{Done, GateFailed, Outcome, usage};
use anyhow::Context;
use clap::Args;
use corelane_report::gate::{Figure, Gate};
use corelane_report::page::Rendered;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The forms of a document, and what fails the run.
#[derive(Debug, Args)]
pub struct OutputArguments {
    /// Write the JSON document to FILE; without FILE to standard output, and nothing else there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Write the report as one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the report in Markdown
    #[arg(long, value_name = "FILE")]
    pub export_markdown: Option<PathBuf>,
    /// Write every step with all that was measured as CSV
    #[arg(long, value_name = "FILE")]
    pub export_csv: Option<PathBuf>,
    /// Fail with exit code 3 when this holds, such as 'linearity < 0.9'; may be repeated
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<String>,
}

impl OutputArguments {
    /// Whether standard output is for JSON alone.
    fn json_on_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Reads the gates, which may name these figures.
    ///
    /// # Errors
    /// When one is no gate.
    pub fn gates(&self, figures: &[Figure]) -> anyhow::Result<Vec<Gate>> {
        let parse = |text: &String| Gate::parse(text, figures).map_err(|error| usage("--fail-if", error));
        self.fail_if.iter().map(parse).collect()
    }

    /// Writes the files.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn save(&self, document: &dyn Rendered, json: &str) -> anyhow::Result<()> {
        let write = |flag: &str, path: Option<&Path>, form: &dyn Fn() -> String| match path {
            Some(path) => write_whole(path, &form()).with_context(|| format!("{flag} {}", path.display())),
            None => Ok(()),
        };
        let json_file = self.json.as_deref().filter(|_| !self.json_on_stdout());
        write("--json", json_file, &|| json.to_owned())?;
        write("--html", self.html.as_deref(), &|| document.page().to_html())?;
        write("--export-markdown", self.export_markdown.as_deref(), &|| {
            document.page().to_markdown()
        })?;
        write("--export-csv", self.export_csv.as_deref(), &|| {
            document.table().to_csv()
        })?;
        Ok(())
    }

    /// Writes the files, prints the report, and judges it: by the gates, and by what it is to prove.
    ///
    /// # Errors
    /// When a file cannot be written, a gate is not met, or the report does not show what it is to prove.
    pub fn finish(&self, document: &dyn Rendered, json: &str, gates: &[Gate]) -> Outcome {
        self.save(document, json)?;
        let mut out = io::stdout().lock();
        if self.json_on_stdout() {
            write!(out, "{json}")?;
        } else {
            write!(out, "{}", document.page().to_text())?;
            if let Some(path) = &self.html {
                writeln!(io::stderr(), "report: {}", path.display())?;
            }
        }
        document.proved().map_err(anyhow::Error::msg)?;
        let figures = document.figures();
        let value = |name: &str| figures.iter().find(|(figure, _)| figure.name == name)?.1;
        let failed: Vec<String> = gates.iter().filter_map(|gate| gate.failed(value)).collect();
        match failed.is_empty() {
            true => Ok(Done),
            false => Err(GateFailed(failed.join("; ")).into()),
        }
    }
}
