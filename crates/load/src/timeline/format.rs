//! The lines of a timeline file.

use corelane_host::conditions::Snapshot;
use corelane_measure::counters;
use corelane_measure::counters::Counters;
use corelane_measure::histogram::Histogram;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};
use thiserror::Error;

/// Name and version of the format.
pub const SCHEMA: &str = "corelane/timeline/1";

/// The first line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    /// Who wrote the lines; several once files are merged.
    pub generators: Vec<Origin>,
    /// The durations of the lines: `latency`, `round trip`; empty where none are measured.
    pub durations: String,
    /// The unit of each field, and of each name in `counts`.
    pub units: BTreeMap<String, String>,
    /// How the clocks of several generators were aligned; `None` for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aligned: Option<String>,
}

/// Who wrote a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// Program and version.
    pub tool: String,
    /// The command line as typed.
    pub command_line: Vec<String>,
    /// The machine and its conditions at the start; `None` in files of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Snapshot>,
    /// Identity of the plan: runs of the same plan have the same.
    pub plan: String,
    /// Identity of the machine since it started (`/proc/sys/kernel/random/boot_id`); `None` if unknown.
    pub machine: Option<String>,
    /// Identity of the network namespace on that machine; `None` if the lines are of several.
    pub network_namespace: Option<u64>,
}

/// Further lines: what happened since the line before. What is unknown is `None`, with the reason in `unknown_because`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Second {
    /// The trial of an experiment; absent outside of experiments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialLabel>,
    /// How many generators the line sums up; absent for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generators: Option<usize>,
    /// The end of the interval, in seconds since 1970-01-01 00:00 UTC.
    pub unix_s: f64,
    /// The end of the interval, in seconds since the generator started.
    pub at_s: f64,
    /// The length of the interval.
    pub interval_s: f64,
    /// What the generator does at the end of the interval.
    pub stage: String,
    /// Events in the interval.
    pub counts: BTreeMap<String, u64>,
    /// Events per second.
    pub per_second: BTreeMap<String, f64>,
    /// What there is at the end of the interval, such as open connections.
    pub levels: BTreeMap<String, u64>,
    /// Failures in the interval by name; those that did not occur are left out.
    pub errors: BTreeMap<String, u64>,
    /// The durations that ended in the interval, in nanoseconds.
    pub durations: Option<Histogram>,
    /// CPU time in the interval.
    pub cpu: Option<CpuSpent>,
    /// What the kernel dropped in the interval by cause, in this network namespace; causes that did not occur are left
    /// out.
    pub drops: Option<BTreeMap<String, u64>>,
    /// Why fields are `None`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown_because: BTreeMap<String, String>,
}

/// The trial of an experiment that a line belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialLabel {
    /// Which trial of the run, from 0, repeats included.
    pub number: usize,
    /// The step.
    pub step: usize,
    /// The round, from 0.
    pub round: usize,
    /// The step in words.
    pub title: String,
    /// The part of the trial, if it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

counters! {
    /// CPU time of a machine in seconds, summed over its CPUs.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
    pub struct CpuSpent {
        /// Used by the generator, with the receive path of its packets where the kernel charges that to it.
        pub own_s: f64,
        /// Used by everything else: other programs, and interrupts.
        pub others_s: f64,
        /// Given to other virtual machines.
        pub stolen_s: f64,
        /// Unused.
        pub idle_s: f64,
    }
}

/// A whole file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// The first line.
    pub header: Header,
    /// The other lines.
    pub lines: Vec<Second>,
    /// Bytes of a last line that was not written to its end, and is ignored.
    pub cut_bytes: usize,
}

impl Header {
    /// The units of the fields that every line has, and of `counts`.
    #[must_use]
    pub fn units(counts: &[(&str, &str)]) -> BTreeMap<String, String> {
        let always = [
            ("unix_s", "seconds since 1970-01-01 00:00 UTC"),
            ("at_s", "seconds since the generator started"),
            ("interval_s", "seconds"),
            ("per_second", "per second"),
            ("durations", "nanoseconds"),
            ("cpu", "CPU-seconds"),
            ("drops", "packets"),
        ];
        let all = always.iter().chain(counts);
        all.map(|(name, unit)| ((*name).to_owned(), (*unit).to_owned()))
            .collect()
    }
}

impl Timeline {
    /// Whether a text begins like a timeline.
    #[must_use]
    pub fn is_begun(text: &str) -> bool {
        let first = text.split_inclusive('\n').next().unwrap_or_default();
        let header = serde_json::from_str::<Header>(first);
        first.ends_with('\n') && header.is_ok_and(|header| header.schema == SCHEMA)
    }

    /// Reads the text of a file. A last line without its end is ignored: the run was killed while it wrote it.
    ///
    /// # Errors
    /// If a whole line cannot be read.
    pub fn read(text: &str) -> Result<Self, DamagedLine> {
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = (1..).zip(text[..whole].lines());
        let header = lines.next().map_or(Ok(Header::default()), parse)?;
        Ok(Self {
            header,
            lines: lines.map(parse).collect::<Result<_, _>>()?,
            cut_bytes: text.len() - whole,
        })
    }

    /// The text of a file.
    ///
    /// # Errors
    /// If a value cannot be written as JSON.
    pub fn to_text(&self) -> io::Result<String> {
        let mut text = Vec::new();
        write_line(&mut text, &self.header)?;
        let mut lines = self.lines.iter();
        lines.try_for_each(|line| write_line(&mut text, line))?;
        String::from_utf8(text).map_err(io::Error::other)
    }

    /// The sentence on a last line that is ignored, if there is one.
    #[must_use]
    pub fn cut(&self) -> Option<String> {
        let cut =
            |bytes| format!("the last line is incomplete and ignored ({bytes} bytes): the run was killed");
        (self.cut_bytes > 0).then(|| cut(self.cut_bytes))
    }
}

/// A line that cannot be read.
#[derive(Debug, Error)]
#[error("line {0} is damaged: {1}; give a file that `--timeline` wrote")]
pub struct DamagedLine(usize, serde_json::Error);

fn parse<T: DeserializeOwned>((number, line): (usize, &str)) -> Result<T, DamagedLine> {
    serde_json::from_str(line).map_err(|error| DamagedLine(number, error))
}

/// Writes a line at once, so that a killed process leaves whole lines.
pub(super) fn write_line(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    out.write_all(&text)
}

impl Second {
    /// Sets what follows from counts and interval.
    #[must_use]
    pub fn with_rates(mut self) -> Self {
        let per_second = |count: &u64| match self.interval_s {
            interval_s if interval_s > 0.0 => *count as f64 / interval_s,
            _ => 0.0,
        };
        let rates = self.counts.iter();
        self.per_second = rates
            .map(|(name, count)| (name.clone(), per_second(count)))
            .collect();
        self
    }

    /// Joins the next interval of the same generator.
    pub fn extend(&mut self, next: &Self) {
        self.interval_s += next.interval_s;
        self.at_s = next.at_s;
        self.unix_s = next.unix_s;
        self.stage.clone_from(&next.stage);
        self.levels.clone_from(&next.levels);
        self.add_events(next);
        // The sum of something unknown is unknown.
        self.cpu = self.cpu.zip(next.cpu).map(|(one, other)| one.plus(&other));
        let drops = self.drops.take().zip(next.drops.as_ref());
        self.drops = drops.map(|(one, other)| one.plus(other));
        *self = std::mem::take(self).with_rates();
    }

    /// Adds counts, errors and durations.
    pub(super) fn add_events(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.errors.add(&other.errors);
        if let Some(durations) = &other.durations {
            self.durations.get_or_insert_default().add(durations);
        }
        self.unknown_because.extend(other.unknown_because.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_join_into_one_interval_with_the_rate_of_both() {
        let line = |unix_s, count| {
            let mut durations = Histogram::new();
            durations.record_many(1_000, count);
            Second {
                unix_s,
                at_s: unix_s - 100.0,
                interval_s: 1.0,
                counts: BTreeMap::from([("sent".to_owned(), count)]),
                durations: Some(durations),
                ..Second::default()
            }
            .with_rates()
        };
        let mut joined = line(101.0, 10);
        joined.extend(&line(102.0, 30));
        assert_eq!(
            (joined.at_s, joined.interval_s, joined.counts["sent"]),
            (2.0, 2.0, 40)
        );
        assert_eq!(joined.per_second["sent"], 20.0);
        assert_eq!(joined.durations.map(|durations| durations.count()), Some(40));
        assert_eq!((joined.cpu, joined.drops), (None, None));
    }

    fn timeline() -> Timeline {
        let mut durations = Histogram::new();
        durations.record_many(1_000, 3);
        let line = Second {
            unix_s: 1_700_000_000.004,
            durations: Some(durations),
            ..Second::default()
        };
        Timeline {
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
        let text = whole.to_text().unwrap();
        assert!(Timeline::is_begun(&text));
        assert_eq!(Timeline::read(&text).unwrap(), whole);
        for end in 0..text.len() {
            let read = Timeline::read(&text[..end]).unwrap();
            let lines = text[..end].matches('\n').count();
            assert_eq!(read.lines.len(), lines.saturating_sub(1), "cut at byte {end}");
            let complete: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
            assert_eq!(read.cut_bytes, end - complete);
        }
    }

    #[test]
    fn a_damaged_line_is_named() {
        let text = timeline().to_text().unwrap().replacen("unix_s", "unix_s\"", 1);
        let error = Timeline::read(&text).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
