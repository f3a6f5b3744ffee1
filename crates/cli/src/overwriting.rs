//! What a verb may write over: none of its inputs, and no file that corelane did not write, unless `--force` allows it.
//!
//! One check before every verb, by its arguments: a file name that is no output is an input.

use crate::documents::wrong_file;
use crate::outcome::{Outcome, usage};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use corelane_link::{LinkSpec, is_same_file, is_written_capture};
use std::any::TypeId;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

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

/// A file that a verb writes, and the argument that names it.
struct Output {
    flag: String,
    path: PathBuf,
    /// The link that writes it.
    link: Option<LinkSpec>,
    is_replaced: bool,
}

/// Returns a usage error if the verb of these arguments would write over one of its inputs, twice to one file, or over a file
/// that corelane did not write.
pub fn check(mut command: &Command, mut matches: &ArgMatches) -> Outcome {
    while let Some((name, below)) = matches.subcommand() {
        (command, matches) = (command.find_subcommand(name).unwrap_or(command), below);
    }
    let (mut outputs, mut inputs) = (Vec::<Output>::new(), Vec::new());
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        let given = matches.value_source(id) == Some(ValueSource::CommandLine);
        let values = given.then(|| matches.get_raw(id)).flatten().into_iter().flatten();
        let values: Vec<PathBuf> = values
            .map(PathBuf::from)
            .filter(|path| path != Path::new("-"))
            .collect();
        let new = |path: &Path, link| Output {
            flag: flag(arg),
            path: path.to_owned(),
            link,
            is_replaced: id != APPENDED,
        };
        if is_output(arg) || id == APPENDED {
            outputs.extend(values.iter().map(|path| new(path, None)));
        } else if id == LINKS {
            let specs = values
                .iter()
                .filter_map(|value| value.to_str()?.parse::<LinkSpec>().ok());
            for spec in specs {
                inputs.extend(spec.read.iter().map(|path| (flag(arg), path.clone())));
                let written = [&spec.write, &spec.capture].into_iter().flatten();
                outputs.extend(written.map(|path| new(path, Some(spec.clone()))));
            }
        } else if arg.get_value_parser().type_id() == TypeId::of::<PathBuf>() {
            inputs.extend(values.into_iter().map(|path| (flag(arg), path)));
        }
    }
    outputs.retain(|output| fs::metadata(&output.path).map_or(true, |there| there.is_file()));
    for (place, output) in outputs.iter().enumerate() {
        check_one(output, &inputs, &outputs[..place])?;
    }
    let is_forced = matches.try_get_one::<bool>("force").ok().flatten() == Some(&true);
    match outputs
        .iter()
        .find(|output| output.is_replaced && !is_ours(&output.path))
    {
        Some(foreign) if !is_forced => {
            let what = "the file is there and corelane did not write it: give another name, or --force to replace it";
            Err(wrong_file(&foreign.flag, &foreign.path, what))
        }
        _ => Ok(()),
    }
}

fn check_one(output: &Output, inputs: &[(String, PathBuf)], before: &[Output]) -> Outcome {
    let is_written = |path: &Path| match &output.link {
        Some(link) => link.overwrites(path),
        None => is_same_file(&output.path, path),
    };
    let refused = |verb, other: &str| {
        let name = output.path.display();
        Err(usage(
            &output.flag,
            format!("{name} is also {verb} by {other}: give another name"),
        ))
    };
    if let Some((input, _)) = inputs.iter().find(|(_, path)| is_written(path)) {
        return refused("read", input);
    }
    match before
        .iter()
        .find(|other| is_same_file(&other.path, &output.path))
    {
        Some(other) => refused("written", &other.flag),
        None => Ok(()),
    }
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
    begin.is_empty()
        || is_written_capture(begin)
        // A snapshot of a table, or a certificate.
        || text.starts_with("corelane")
        || text.starts_with('{') && (has("\"schema\":\"corelane/") || has("\"schema\": \"corelane/"))
        || text.starts_with("<!DOCTYPE html>") && has(">corelane \u{b7} ")
        || text.starts_with("# ") && has("\n- tool: corelane ")
        || is_own_csv(&text)
}

/// A CSV has no place for a name: ours has names of metrics in its first line, which ends as RFC 4180 has it.
fn is_own_csv(text: &str) -> bool {
    let is_name = |name: &str| {
        let letters = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        !name.is_empty() && name.chars().all(letters)
    };
    let header = text.split_once("\r\n").map(|(header, _)| header);
    header.is_some_and(|header| header.split(',').count() > 3 && header.split(',').all(is_name))
}
