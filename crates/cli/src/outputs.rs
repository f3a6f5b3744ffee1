//! Output of a document: text or JSON on standard output, files in every format, and `--fail-if` gates.

use crate::documents::{command_line, write_whole};
use crate::outcome::{Outcome, gate_failed, usage};
use crate::terminal::width;
use anyhow::Context;
use clap::Args;
use corelane_report::gate::{Figure, Gate};
use corelane_report::page::{Page, Rendered};
use corelane_report::text::command;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Output formats other than JSON, and the conditions that fail the run.
#[derive(Debug, Args)]
pub struct FormArguments {
    /// Write the report as an HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the report as Markdown
    #[arg(long, value_name = "FILE")]
    pub export_markdown: Option<PathBuf>,
    /// Write all measurements of every step as CSV
    #[arg(long, value_name = "FILE")]
    pub export_csv: Option<PathBuf>,
    /// Fail with exit code 3 if this condition holds, such as 'linearity < 0.9'; may be repeated
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<String>,
}

/// Output formats of an experiment.
#[derive(Debug, Args)]
pub struct OutputArguments {
    /// Write the JSON document to FILE; without FILE, to standard output instead of the text report
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    pub forms: FormArguments,
}

impl OutputArguments {
    /// Writes the files.
    pub fn save(&self, document: &dyn Rendered, json: &str) -> Outcome {
        let file = self.json.as_deref().filter(|path| *path != Path::new("-"));
        write("--json", file, || json.to_owned())?;
        self.forms.save(document)
    }

    /// Writes the files, prints the report, and checks the gates.
    pub fn finish(&self, document: &dyn Rendered, json: &str, gates: &[Gate]) -> Outcome {
        self.save(document, json)?;
        let on_stdout = self.json.as_deref() == Some(Path::new("-"));
        self.forms.print(document, on_stdout.then_some(json))?;
        document.proved().map_err(anyhow::Error::msg)?;
        judge(document, gates)
    }
}

impl FormArguments {
    /// Parses the gates, which may use these figures.
    pub fn gates(&self, figures: &[Figure]) -> anyhow::Result<Vec<Gate>> {
        let parse = |text: &String| Gate::parse(text, figures).map_err(|error| usage("--fail-if", error));
        self.fail_if.iter().map(parse).collect()
    }

    /// Writes the files.
    pub fn save(&self, document: &dyn Rendered) -> Outcome {
        write("--html", self.html.as_deref(), || page(document).to_html())?;
        write("--export-markdown", self.export_markdown.as_deref(), || {
            document.page().to_markdown()
        })?;
        write("--export-csv", self.export_csv.as_deref(), || {
            document.table().to_csv()
        })
    }

    /// Prints the report, or `json` if given.
    pub fn print(&self, document: &dyn Rendered, json: Option<&str>) -> Outcome {
        let mut out = io::stdout().lock();
        match (json, &self.html) {
            (Some(json), _) => write!(out, "{json}")?,
            (None, html) => {
                write!(out, "{}", document.page().text(width()))?;
                if let Some(path) = html {
                    writeln!(io::stderr(), "report: {}", path.display())?;
                }
            }
        }
        Ok(out.flush()?)
    }
}

/// Returns an error with exit code 3 if a gate fails.
pub fn judge(document: &dyn Rendered, gates: &[Gate]) -> Outcome {
    let figures = document.figures();
    let value = |name: &str| figures.iter().find(|(figure, _)| figure.name == name)?.1;
    let failed: Vec<String> = gates.iter().filter_map(|gate| gate.failed(value)).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(gate_failed(failed.join("; "))),
    }
}

/// The page of a document. If the document does not record command and program version, those of this run are used.
fn page(document: &dyn Rendered) -> Page {
    let mut page = document.page();
    if page.command.is_empty() {
        page.command = command(&command_line());
        page.written_by.0 = format!("corelane {}", env!("CARGO_PKG_VERSION"));
    }
    page
}

fn write(flag: &str, path: Option<&Path>, form: impl FnOnce() -> String) -> Outcome {
    match path {
        Some(path) => write_whole(path, &form()).with_context(|| format!("{flag} {}", path.display())),
        None => Ok(()),
    }
}
