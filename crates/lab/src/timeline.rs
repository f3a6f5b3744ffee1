//! Timeline files: a JSON line per second of a run, written as it happens. A killed run leaves every line but the last
//! whole.
//!
//! In: the lines that a generator's sampler closes, here or in a child process. Out: the file. Also reads such files.

use crate::document::{DocumentError, RunFacts};
use corelane_load::Generator;
use corelane_measure::seconds::{Header, OfTrial, Origin, SCHEMA, Second, Seconds};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// Identity of this machine since it started.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The network namespace of the calling thread.
const NETWORK_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// A timeline file that is being written.
#[derive(Debug)]
pub struct TimelineFile {
    origin: Origin,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    out: File,
    has_header: bool,
    /// The first error. Nothing is written after it: a line after a partial one would be damaged.
    failed: Option<io::Error>,
}

/// What a parent does while a generator runs: stops it early, and records its lines.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    pub(crate) interrupt: &'a AtomicBool,
    /// The file, and the trial that the lines belong to.
    pub(crate) lines: Option<(&'a TimelineFile, &'a OfTrial)>,
}

impl<'a> From<&'a AtomicBool> for Watch<'a> {
    fn from(interrupt: &'a AtomicBool) -> Self {
        Self {
            interrupt,
            lines: None,
        }
    }
}

impl<'a> Watch<'a> {
    /// The name of a part of the trial; `None` if nothing is recorded.
    pub(crate) fn part(&self, part: impl ToString) -> Option<OfTrial> {
        let part = Some(part.to_string());
        self.lines.map(|(_, trial)| OfTrial {
            part,
            ..trial.clone()
        })
    }

    /// The lines belong to this trial.
    pub(crate) fn naming(self, trial: Option<&'a OfTrial>) -> Self {
        let lines = self.lines.zip(trial);
        Self {
            lines: lines.map(|((file, _), trial)| (file, trial)),
            ..self
        }
    }
}

impl TimelineFile {
    /// Creates or truncates the file of a run of this plan. `in_this_namespace`: the generator runs in the network
    /// namespace of the calling thread.
    ///
    /// # Errors
    /// If it cannot be opened for writing.
    pub fn create(
        path: &Path,
        facts: &RunFacts,
        plan: &impl Serialize,
        in_this_namespace: bool,
    ) -> io::Result<Self> {
        let namespace = fs::metadata(NETWORK_NAMESPACE).map(|file| file.ino()).ok();
        let machine = fs::read_to_string(BOOT_ID).ok();
        Ok(Self {
            origin: Origin {
                tool: format!("corelane {}", facts.version),
                command_line: facts.command_line.clone(),
                plan: identity(&serde_json::to_vec(plan)?),
                machine: machine.map(|id| id.trim().to_owned()),
                network_namespace: namespace.filter(|_| in_this_namespace),
            },
            state: Mutex::new(State {
                out: File::create(path)?,
                has_header: false,
                failed: None,
            }),
        })
    }

    /// Writes the header, if it is not there yet: a run that is killed before its first line leaves at least that.
    /// [`Self::finish`] reports errors.
    pub fn begin<G: Generator>(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.has_header {
            state.failed = write_line(&mut state.out, &self.header::<G>()).err();
            state.has_header = true;
        }
    }

    /// Writes a line of this kind of generator, after the header if it is the first. [`Self::finish`] reports errors.
    pub fn write<G: Generator>(&self, second: &Second) {
        self.begin::<G>();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failed.is_none() {
            state.failed = write_line(&mut state.out, second).err();
        }
    }

    fn header<G: Generator>(&self) -> Header {
        Header {
            schema: SCHEMA.to_owned(),
            generators: vec![self.origin.clone()],
            durations: G::TIMED.map_or("", |times| times.label).to_owned(),
            units: Header::units(&G::units()),
            aligned: None,
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If a line could not be written; the file ends before it.
    pub fn finish(self) -> io::Result<()> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.failed.map_or(Ok(()), Err)
    }
}

/// Writes a line at once, so that a killed process leaves whole lines.
fn write_line(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    out.write_all(&text)
}

/// The 64-bit FNV-1a hash of a plan. It is not cryptographic: two plans can be made to have the same.
fn identity(plan: &[u8]) -> String {
    let hash = plan.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Whether a text begins like a timeline.
#[must_use]
pub fn is_timeline(text: &str) -> bool {
    let first = text.split_inclusive('\n').next().unwrap_or_default();
    let header = serde_json::from_str::<Header>(first);
    first.ends_with('\n') && header.is_ok_and(|header| header.schema == SCHEMA)
}

/// Reads a timeline. A last line without its end is ignored: the run was killed while it wrote it.
///
/// # Errors
/// If a whole line cannot be read.
pub fn read(text: &str) -> Result<Seconds, DocumentError> {
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut lines = (1..).zip(text[..whole].lines());
    let header = lines.next().map_or(Ok(Header::default()), parse)?;
    Ok(Seconds {
        header,
        lines: lines.map(parse).collect::<Result<_, _>>()?,
        cut_bytes: text.len() - whole,
    })
}

fn parse<T: DeserializeOwned>((number, line): (usize, &str)) -> Result<T, DocumentError> {
    serde_json::from_str(line).map_err(|error| DocumentError::Line(number, error))
}

/// The text of a timeline file.
///
/// # Errors
/// If a value cannot be written as JSON.
pub fn to_text(seconds: &Seconds) -> io::Result<String> {
    let mut text = Vec::new();
    write_line(&mut text, &seconds.header)?;
    seconds
        .lines
        .iter()
        .try_for_each(|line| write_line(&mut text, line))?;
    String::from_utf8(text).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_measure::histogram::Histogram;

    fn timeline() -> Seconds {
        let mut durations = Histogram::new();
        durations.record_many(1_000, 3);
        let line = Second {
            unix_s: 1_700_000_000.004,
            durations: Some(durations),
            ..Second::default()
        };
        Seconds {
            header: Header {
                schema: SCHEMA.to_owned(),
                ..Header::default()
            },
            lines: vec![line.clone(), line],
            cut_bytes: 0,
        }
    }

    #[test]
    fn a_timeline_cut_at_any_byte_keeps_its_whole_lines() {
        let whole = timeline();
        let text = to_text(&whole).unwrap();
        assert!(is_timeline(&text));
        assert_eq!(read(&text).unwrap(), whole);
        for end in 0..text.len() {
            let read = read(&text[..end]).unwrap();
            let lines = text[..end].matches('\n').count();
            assert_eq!(read.lines.len(), lines.saturating_sub(1), "cut at byte {end}");
            let complete: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
            assert_eq!(read.cut_bytes, end - complete);
        }
    }

    #[test]
    fn a_damaged_line_is_named() {
        let text = to_text(&timeline()).unwrap().replacen("unix_s", "unix_s\"", 1);
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn plans_that_differ_have_different_identities() {
        assert_eq!(identity(b"a"), "af63dc4c8601ec8c");
        assert_ne!(identity(b"ab"), identity(b"ba"));
    }
}
