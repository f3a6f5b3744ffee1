//! Reading of line-based input files, atomic writing of documents, and the command line recorded in documents.

use crate::outcome::{Outcome, usage};
use anyhow::anyhow;
use corelane_measure::quantity;
use nix::unistd::{AccessFlags, access};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The command line as typed, with the program name `corelane`.
pub fn command_line() -> Vec<String> {
    let arguments = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once("corelane".to_owned()).chain(arguments).collect()
}

/// Writes to a temporary file and renames it, so that a reader never sees a partial document, and a mapped snapshot
/// never changes. A device or a pipe is written directly.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> anyhow::Result<()>) -> Outcome {
    // A link stays, and the file that it leads to is replaced.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (mut file, beside) = begin(path)?;
    let written = write(&mut file);
    let Some(beside) = beside else { return written };
    let replaced = written.and_then(|()| {
        if let Ok(there) = fs::metadata(path) {
            file.set_permissions(there.permissions())?;
        }
        Ok(fs::rename(&beside, path)?)
    });
    if replaced.is_err() {
        // The file is incomplete. An error of its removal is ignored: the original error matters.
        let _ = fs::remove_file(&beside);
    }
    replaced
}

/// Whether writing replaces the file, so that it can be written several times.
pub fn is_replaced(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |there| there.is_file())
}

/// Checks before a run that its output can be written at the end.
pub fn check_output(flag: &str, path: &Path) -> Outcome {
    let checked = match (is_replaced(path), path.is_dir()) {
        (true, _) => begin(path).and_then(|(_, beside)| beside.map_or(Ok(()), fs::remove_file)),
        (false, true) => Err(io::ErrorKind::IsADirectory.into()),
        // Not opened: the reader of a pipe would see its end when it is closed.
        (false, false) => Ok(access(path, AccessFlags::W_OK)?),
    };
    checked.map_err(|error| wrong_file(flag, path, error))
}

/// Opens the temporary file, and returns its path; or opens `path` itself if it is not replaced.
fn begin(path: &Path) -> io::Result<(File, Option<PathBuf>)> {
    let mut options = File::options();
    if !is_replaced(path) {
        return Ok((options.write(true).open(path)?, None));
    }
    options.read(true).write(true).create_new(true);
    // A file of this name that is there may be anybody's.
    let mut number = 0;
    loop {
        let mut beside = path.as_os_str().to_owned();
        beside.push(match number {
            0 => ".part".to_owned(),
            number => format!(".{number}.part"),
        });
        match options.open(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((opened?, Some(beside.into()))),
        }
        number += 1;
    }
}

/// Replaces a file by this text.
pub fn write_whole(path: &Path, text: &str) -> Outcome {
    replace(path, |file| Ok(file.write_all(text.as_bytes())?))
}

/// Largest file that is read as a whole, see `--max-input`.
static MAX_INPUT: OnceLock<u64> = OnceLock::new();

/// The default of [`limit_input`].
const MOST_INPUT: u64 = 1 << 30;

/// Sets the size of the largest file that [`read_text`] accepts. The first call counts.
pub fn limit_input(bytes: Option<u64>) {
    MAX_INPUT.get_or_init(|| bytes.unwrap_or(MOST_INPUT));
}

/// The text of a file, or of standard input (`-`), unless it is larger than `--max-input`.
pub fn read_text(path: &Path) -> io::Result<String> {
    let most = *MAX_INPUT.get_or_init(|| MOST_INPUT);
    let mut text = String::new();
    let input: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path)?),
    };
    let read = input.take(most.saturating_add(1)).read_to_string(&mut text);
    // A limit inside a character is no error of encoding.
    if text.len() as u64 > most || read.as_ref().is_ok_and(|bytes| *bytes as u64 > most) {
        let most = quantity::bytes(most);
        return Err(io::Error::other(format!(
            "more than {most}: raise --max-input if this is meant"
        )));
    }
    read.map(|_| text)
}

/// What `read` makes of the text of the file that a flag names; a usage error if it cannot be read.
pub fn read_with<T, E: Display>(
    flag: &str,
    path: &Path,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> anyhow::Result<T> {
    let text = read_text(path).map_err(|error| wrong_file(flag, path, error))?;
    read(&text).map_err(|error| wrong_file(flag, path, error))
}

/// Parses a JSON document of this schema. Errors give the position and `expected`, as those of [`parse`].
pub fn parse_as<T: DeserializeOwned>(schema: &str, text: &str, expected: &str) -> Result<T, String> {
    match schema_of(text, expected)? {
        found if found == schema => parse(text, expected),
        found => Err(format!(
            "its schema is {found}, and this corelane reads {schema}: give {expected}, of the same version"
        )),
    }
}

/// The schema that a JSON document names. Errors as those of [`parse`].
pub fn schema_of(text: &str, expected: &str) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Kind {
        schema: String,
    }
    Ok(parse::<Kind>(text, expected)?.schema)
}

/// Parses a JSON document. Errors give the position and `expected`, the kind of document.
pub fn parse<T: DeserializeOwned>(text: &str, expected: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| unreadable(text, expected, &error))
}

/// The error of [`parse`].
pub fn unreadable(text: &str, expected: &str, error: &serde_json::Error) -> String {
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default();
    let what = match (error.classify(), reason.strip_prefix("missing field ")) {
        _ if text.trim().is_empty() => return format!("the file is empty: give {expected}"),
        (Category::Eof, _) => "the document is cut off".to_owned(),
        (Category::Syntax, _) => format!("this is no JSON ({reason})"),
        (_, Some(field)) => format!("there is no field {field}"),
        (_, None) => reason.to_owned(),
    };
    let (line, column) = (error.line(), error.column());
    format!("line {line}, column {column}: {what}: give {expected}")
}

/// A usage error about the file that a flag names.
pub fn wrong_file(flag: &str, path: &Path, error: impl Display) -> anyhow::Error {
    usage(flag, format!("{}: {error}", path.display()))
}

/// The lines of a file, read one by one. Errors name the line.
pub fn lines(
    flag: &str,
    path: &Path,
) -> anyhow::Result<impl Iterator<Item = anyhow::Result<String>> + use<>> {
    let file = File::open(path).map_err(|error| wrong_file(flag, path, error))?;
    let lines = (1..).zip(BufReader::new(file).lines());
    Ok(lines.map(|(number, line)| line.map_err(|error| anyhow!("line {number}: {error}"))))
}

/// What `read` makes of the lines of a file that are neither empty nor begin with `#`. Errors name the line.
pub fn entries<T>(
    flag: &str,
    path: &Path,
    read: impl Fn(&str) -> Result<T, String>,
) -> anyhow::Result<Vec<T>> {
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(lines(flag, path)?) {
        let line = line.map_err(|error| wrong_file(flag, path, error))?;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = read(&line).map_err(|error| wrong_file(flag, path, format!("line {number}: {error}")));
        entries.push(entry?);
    }
    Ok(entries)
}
