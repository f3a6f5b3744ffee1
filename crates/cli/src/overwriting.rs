//! What a verb may write over: none of its inputs, and no file that corelane did not write, unless `--force` allows it.
//!
//! One check before every verb, by its arguments: a file name that is no output is an input. Inputs that name further files
//! have these [checked](check_named) when they are read.

use crate::documents::{is_replaced, wrong_file};
use crate::outcome::Outcome;
use crate::shared::STANDARD_OUTPUT;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use corelane_link::{LinkSpec, is_same_file, is_written_capture};
use std::any::TypeId;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The arguments that name files to write.
const OUTPUTS: [&str; 8] = [
    "json",
    "html",
    "export_markdown",
    "export_csv",
    "timeline",
    "output",
    "write_steering",
    "write_certificate",
];

/// The argument that names a file to append to: never an input.
const APPENDED: &str = "access_log";

/// The argument that names a folder to write files to, and how their names begin.
const FOLDER: (&str, &str) = ("lists", "bucket-");

/// The arguments that name links, which may read and write captures.
const LINKS: &str = "link";

/// Enough of a file to know by whom it was written: a page has its style before it names its program.
const LOOKED_AT: u64 = 1 << 18;

/// Adds `--force` to all verbs that write files. In those that have it already it means this, too.
pub fn with_force(command: Command) -> Command {
    let command = command.mut_subcommands(with_force);
    let writes = |arg: &Arg| is_output(arg) || arg.get_id() == LINKS;
    let has = |found: &dyn Fn(&Arg) -> bool| command.get_arguments().any(found);
    if !has(&writes) || has(&|arg| arg.get_id() == "force") {
        return command;
    }
    let force = Arg::new("force").long("force").action(ArgAction::SetTrue);
    command.arg(force.help("Replace existing files that corelane did not write"))
}

fn is_output(arg: &Arg) -> bool {
    OUTPUTS.contains(&arg.get_id().as_str())
}

/// The files that the verb writes.
static WRITTEN: OnceLock<Vec<Output>> = OnceLock::new();

/// A file that a verb writes, and the argument that names it.
struct Output {
    flag: String,
    path: PathBuf,
    /// The link that writes it.
    link: Option<LinkSpec>,
    /// Whether a file that corelane did not write is replaced with `--force` alone. Of a folder of lists all files with the names of
    /// lists are replaced.
    needs_force: bool,
}

impl Output {
    /// Whether it is written over this file.
    fn overwrites(&self, path: &Path) -> bool {
        match &self.link {
            Some(link) => link.overwrites(path),
            None => is_same_file(&self.path, path),
        }
    }
}

/// Returns a usage error if the verb of these arguments would write over one of its inputs, twice to one file, or over a file
/// that corelane did not write.
pub fn check(mut command: &Command, mut matches: &ArgMatches) -> Outcome {
    while let Some((name, below)) = matches.subcommand() {
        (command, matches) = (command.find_subcommand(name).unwrap_or(command), below);
    }
    let (outputs, inputs) = files(command, matches);
    let outputs = WRITTEN.get_or_init(|| outputs);
    let is_forced = matches.try_get_one::<bool>("force").ok().flatten() == Some(&true);
    for (place, output) in outputs.iter().enumerate() {
        let read = inputs.iter().find(|(_, path)| output.overwrites(path));
        let mut before = outputs[..place].iter();
        let written = before.find(|other| is_same_file(&other.path, &output.path));
        let foreign =
            "the file is there and corelane did not write it: give another name, or --force to replace it";
        let what = match (read, written) {
            (Some((input, _)), _) => read_by(input),
            (None, Some(other)) => format!("the file is also written by {}: give another name", other.flag),
            (None, None) if is_forced || !output.needs_force || is_ours(&output.path) => continue,
            (None, None) => foreign.to_owned(),
        };
        return Err(wrong_file(&output.flag, &output.path, what));
    }
    Ok(())
}

fn read_by(input: &str) -> String {
    format!("the file is also read by {input}: give another name")
}

/// Returns a usage error if the verb would write over a file that its input `flag` names.
pub fn check_named(flag: &str, path: &Path) -> Outcome {
    let mut written = WRITTEN.get().into_iter().flatten();
    match written.find(|output| output.overwrites(path)) {
        Some(output) => Err(wrong_file(&output.flag, &output.path, read_by(flag))),
        None => Ok(()),
    }
}

/// The files of a folder that have names of those that a verb writes there.
fn ours_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let there = fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = there.filter(|entry| entry.file_name().to_string_lossy().starts_with(FOLDER.1));
    ours.map(|entry| entry.path())
}

/// The files that a verb writes, and those that it reads, each with the argument that names it. Devices and pipes are none.
fn files(command: &Command, matches: &ArgMatches) -> (Vec<Output>, Vec<(String, PathBuf)>) {
    let (mut outputs, mut inputs) = (Vec::<Output>::new(), Vec::new());
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        let given = matches.value_source(id) == Some(ValueSource::CommandLine);
        let values = given.then(|| matches.get_raw(id)).flatten().into_iter().flatten();
        let values = values.filter(|value| **value != *STANDARD_OUTPUT);
        let new = |path: &Path, link: Option<&LinkSpec>| Output {
            flag: flag(arg),
            path: path.to_owned(),
            link: link.cloned(),
            needs_force: id != APPENDED && id != FOLDER.0,
        };
        if is_output(arg) || id == APPENDED {
            outputs.extend(values.map(|path| new(Path::new(path), None)));
        } else if id == FOLDER.0 {
            let there = values.flat_map(|folder| ours_in(Path::new(folder)));
            outputs.extend(there.map(|path| new(&path, None)));
        } else if id == LINKS {
            for spec in values.filter_map(|value| value.to_str()?.parse::<LinkSpec>().ok()) {
                let written = spec.write.iter().chain(&spec.capture);
                outputs.extend(written.map(|path| new(path, Some(&spec))));
                inputs.extend(spec.read.into_iter().map(|path| (flag(arg), path)));
            }
        } else if arg.get_value_parser().type_id() == TypeId::of::<PathBuf>() {
            inputs.extend(values.map(|path| (flag(arg), path.into())));
        }
    }
    outputs.retain(|output| is_replaced(&output.path));
    (outputs, inputs)
}

/// The argument as people write it.
fn flag(arg: &Arg) -> String {
    match arg.get_long() {
        Some(long) => format!("--{long}"),
        None => arg.get_id().as_str().to_uppercase(),
    }
}

/// Whether corelane wrote the file, or nothing is lost: it is absent or empty.
fn is_ours(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LOOKED_AT).read_to_end(&mut begin));
    // What cannot be reached is for the verb to report.
    fs::metadata(path).is_err() || read.is_ok() && is_own_text(&begin)
}

/// Whether a file that begins so is empty, or one of ours.
fn is_own_text(begin: &[u8]) -> bool {
    let text = String::from_utf8_lossy(begin);
    let has = |words: &str| text.contains(words);
    let is_comparison = |line: &str| line.starts_with("before ") && line.contains("; corelane ");
    begin.is_empty()
        || is_written_capture(begin)
        // A snapshot of a table, or a certificate.
        || text.starts_with("corelane")
        || text.starts_with('{') && (has("\"schema\":\"corelane/") || has("\"schema\": \"corelane/"))
        || text.starts_with("<!DOCTYPE html>") && has(">corelane \u{b7} ")
        || text.starts_with("# ") && (has("\n- tool: corelane") || text.lines().any(is_comparison))
        || is_own_csv(&text)
}

/// Units at the end of names of metrics.
const UNITS: [&str; 5] = ["_ns", "_s", "_bytes", "_share", "_per_second"];

/// A CSV has no place for a name: ours has names of metrics in its first line, one of them with its unit, and the line ends as
/// RFC 4180 has it; or it is a comparison.
fn is_own_csv(text: &str) -> bool {
    let is_letter =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_.".contains(letter);
    let is_name = |name: &str| !name.is_empty() && name.chars().all(is_letter);
    let header = text.split_once("\r\n").map_or("", |(header, _)| header);
    let has_unit = |name: &str| UNITS.iter().any(|unit| name.ends_with(unit));
    header.contains(",metric,before,after,")
        || header.split(',').count() > 3 && header.split(',').all(is_name) && header.split(',').any(has_unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_lab::registry;
    use corelane_report::diff::{Basis, diff};
    use corelane_report::json;
    use corelane_report::page::Rendered;

    fn own_forms(name: &str, report: &dyn Rendered, json: &str) {
        let (page, csv) = (report.page(), report.table().to_csv());
        // Only runs write Markdown. Loads of an earlier version have no origin.
        let has_origin = !page.origin.is_empty() || name.starts_with("comparison");
        let markdown = has_origin.then(|| page.to_markdown());
        let forms = [json.to_owned(), page.to_html(), csv];
        for text in forms.into_iter().chain(markdown) {
            assert!(is_own_text(text.as_bytes()), "{name}: {text:.300}");
        }
    }

    #[test]
    fn the_columns_of_percentiles_are_ours_and_those_of_others_are_not() {
        assert!(is_own_csv("rate,sent,p99_ns,p99.95\r\n1,2,3,4\r\n"));
        for other in [
            "Name,Age,City,Zip\r\n",
            "name,age\r\n",
            "a,b,c,d\n",
            "a,,b,c\r\n",
            "id,name,age,city\r\n",
        ] {
            assert!(!is_own_csv(other), "{other:?}");
        }
    }

    #[test]
    fn every_form_of_every_document_is_ours() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/documents");
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            if path.extension().is_none_or(|extension| extension != "json") || name.starts_with("merged") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let report = registry::read(&text).unwrap();
            own_forms(&name, &*report, &text);
            if let Some(run) = report.compared() {
                let diff = diff(&run, &run, Basis::Any).unwrap();
                own_forms(
                    &format!("comparison of {name}"),
                    &diff,
                    &json::pretty(&diff).unwrap(),
                );
            }
        }
    }
}
