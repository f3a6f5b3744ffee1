//! Output of a document: text or JSON on standard output, files in every format, and `--fail-if` gates.

use crate::documents::{check_output, command_line, is_replaced, write_whole};
use crate::outcome::{Outcome, gate_failed, usage};
use crate::shared::JsonArgument;
use crate::standard::say;
use crate::terminal::width;
use clap::Args;
use corelane_report::gate::{Figure, Gate};
use corelane_report::page::{Page, Rendered};
use corelane_report::text::command;
use std::path::{Path, PathBuf};

/// All outputs of a report, and the conditions that fail the run.
#[derive(Debug, Args)]
pub struct OutputArguments {
    #[command(flatten)]
    pub json: JsonArgument,
    /// Write the report as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the report as Markdown
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,
    /// Write all measurements of every step as CSV
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,
    /// Fail with exit code 3 if this condition holds, such as 'linearity < 0.9'; may be repeated
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<String>,
}

/// The text of a document in one format; the JSON text is given.
type Form = fn(&dyn Rendered, &str) -> String;

/// How text is printed.
pub type Print = fn(&str);

impl OutputArguments {
    /// Parses the gates, which may use these figures.
    pub fn gates(&self, figures: &[Figure]) -> anyhow::Result<Vec<Gate>> {
        let parse = |text: &String| Gate::parse(text, figures).map_err(|error| usage("--fail-if", error));
        self.fail_if.iter().map(parse).collect()
    }

    /// Checks that the files can be written.
    pub fn check(&self) -> Outcome {
        self.files()
            .try_for_each(|(flag, path, _)| check_output(flag, path))
    }

    /// Writes the files during a run. Errors are ignored: the final save reports them.
    pub fn save(&self, document: &dyn Rendered, json: &str) {
        for (_, path, form) in self.files() {
            if is_replaced(path) {
                let _ = write_whole(path, &form(document, json));
            }
        }
    }

    /// Writes the files, prints the report, and checks the gates.
    pub fn finish(&self, document: &dyn Rendered, json: &str, gates: &[Gate], print: Print) -> Outcome {
        self.write(document, json, print)?;
        document.proved().map_err(anyhow::Error::msg)?;
        judge(document, gates)
    }

    /// Writes the files and prints the report, or the JSON document if that goes to standard output. If a file cannot be
    /// written, the JSON document is printed unless it was saved.
    fn write(&self, document: &dyn Rendered, text: &str, print: Print) -> Outcome {
        let on_stdout = self.json.on_stdout();
        let (mut lost, mut saved) = (Vec::new(), on_stdout);
        for (flag, path, form) in self.files() {
            match write_whole(path, &form(document, text)) {
                Ok(()) => saved |= Some(path) == self.json.file(),
                Err(error) => lost.push(format!("{flag} {}: {error}", path.display())),
            }
        }
        if !on_stdout {
            print(&document.page().text(width()));
        }
        if on_stdout || !(lost.is_empty() || saved) {
            print(text);
        }
        if !lost.is_empty() {
            let instead = if saved {
                ""
            } else {
                " (the JSON document was printed instead)"
            };
            anyhow::bail!("{}{instead}", lost.join("; "));
        }
        if let Some(html) = self.html.as_ref().filter(|_| !on_stdout) {
            say(&format!("report: {}\n", html.display()));
        }
        Ok(())
    }

    /// The files, each with its flag and format.
    fn files(&self) -> impl Iterator<Item = (&'static str, &Path, Form)> {
        let files: [(_, _, Form); 4] = [
            ("--json", self.json.file(), |_, json| json.to_owned()),
            ("--html", self.html.as_deref(), |document, _| {
                page(document).to_html()
            }),
            (
                "--export-markdown",
                self.export_markdown.as_deref(),
                |document, _| document.page().to_markdown(),
            ),
            ("--export-csv", self.export_csv.as_deref(), |document, _| {
                document.table().to_csv()
            }),
        ];
        files
            .into_iter()
            .filter_map(|(flag, path, form)| Some((flag, path?, form)))
    }
}

/// Returns an error with exit code 3 if a gate fails.
fn judge(document: &dyn Rendered, gates: &[Gate]) -> Outcome {
    let failed = gates
        .iter()
        .filter_map(|gate| gate.failed(|name| document.figure(name)));
    let failed: Vec<String> = failed.collect();
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
