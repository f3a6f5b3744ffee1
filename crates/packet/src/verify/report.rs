//! The report: accounts of entries and rows of misplaced frames, combined per bucket, with causes.

use super::ledger::Ledger;
use super::misplaced::Row;
use super::suspects::{ALTERNATIVES, Suspects};
use super::{Cause, Queue, Reordering, Verifier};
use corelane_rss::{Bucket, IndirectionTable, Tuple};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};

/// Result of a verification. Numbers count frames unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// All frames.
    pub frames: u64,
    /// Frames without IP, or damaged.
    pub refused: u64,
    /// Frames of no enabled hash type, which a device delivers to its default queue.
    pub not_hashed: u64,
    /// Frames that were captured too short for the fields that are hashed.
    pub cut_short: u64,
    /// Frames on another queue than their hash selects.
    pub misplaced: u64,
    /// By bucket, in order.
    pub buckets: Vec<BucketReport>,
    /// Why frames are likely misplaced, most frames first.
    pub causes: Vec<CauseCount>,
    /// Misplaced flows, most frames first; at most 16,384.
    pub misplacements: Vec<Misplacement>,
    /// Misplaced frames of further flows, with unknown cause.
    pub misplacements_left_off: u64,
    /// Order within flows.
    pub reordering: Reordering,
}

/// Frames whose hash selects one bucket.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BucketReport {
    /// The bucket, and the number of its queue.
    pub bucket: Bucket,
    /// Frames whose hash selects it.
    pub seen: u64,
    /// Of these, frames with the expected hash; unknown if no hashes were reported.
    pub right_hash: Option<u64>,
    /// Of these, frames that arrived on its queue; unknown if no queues were observed.
    pub right_queue: Option<u64>,
    /// Of these, frames that arrived on another queue.
    pub misplaced: u64,
    /// Causes, most frames first.
    pub causes: Vec<CauseCount>,
}

/// Number of misplaced frames with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CauseCount {
    /// The likely cause.
    pub cause: Cause,
    /// Frames.
    pub frames: u64,
}

/// Misplaced frames with one hash that arrived on one queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Misplacement {
    /// The expected hash.
    #[serde(serialize_with = "hexadecimal")]
    pub hash: u32,
    /// The hash that the device reported, if any.
    #[serde(serialize_with = "optional_hexadecimal")]
    pub reported_hash: Option<u32>,
    /// The bucket (and queue) that the hash selects.
    pub expected: Bucket,
    /// The queue on which the frames arrived.
    pub actual: Queue,
    /// Number of frames.
    pub frames: u64,
    /// Likely cause.
    pub cause: Cause,
    /// The known flows with this hash; at most eight.
    #[serde(serialize_with = "flows")]
    pub flows: Vec<Tuple>,
}

impl Misplacement {
    /// Number of flows that may still be named.
    fn name(&mut self, flows: impl IntoIterator<Item = Tuple>, most: usize) {
        let new = flows.into_iter().filter(|flow| !self.flows.contains(flow));
        let new: Vec<_> = new.take(most).collect();
        self.flows.extend(new);
    }
}

/// Flows named per hash. A pool of 2^32 addresses has about one flow per hash, so a searched flow is among them.
const FLOWS_NAMED: usize = 8;

impl Report {
    pub(super) fn new(verifier: &Verifier, ledger: &Ledger, reordering: Reordering) -> Report {
        let (table, misplaced) = (&verifier.rule.table, &verifier.misplaced);
        let rows = &misplaced.rows;
        let likely = likely(rows.iter().map(|(_, row, _)| row.suspects), table);
        let misplacements = merged(rows.iter().map(|(key, row, frames)| Misplacement {
            hash: key.hash,
            reported_hash: key.reported,
            expected: table.bucket(key.hash),
            actual: key.actual,
            frames: *frames,
            cause: cause(row, &likely, ledger),
            flows: row.flow.into_iter().collect(),
        }));
        Report {
            frames: verifier.frames,
            refused: verifier.refused,
            not_hashed: verifier.not_hashed,
            cut_short: verifier.cut_short,
            misplaced: ledger.entries().map(|(_, entry)| entry.misplaced).sum(),
            buckets: buckets(table, ledger, &misplacements),
            causes: causes(&misplacements),
            misplacements,
            misplacements_left_off: misplaced.left_off,
            reordering,
        }
    }

    /// Searches `flows`, of which `hash` gives the hash, for the flows of misplaced hashes, which a log of hashes does not
    /// contain. At most eight are named per hash.
    pub fn name_flows(&mut self, hash: impl Fn(&Tuple) -> u32, flows: impl IntoIterator<Item = Tuple>) {
        let mut by_hash: HashMap<u32, Vec<Tuple>> = self
            .misplacements
            .iter()
            .map(|misplacement| (misplacement.hash, Vec::new()))
            .collect();
        for flow in flows {
            if let Some(named) = by_hash.get_mut(&hash(&flow))
                && named.len() < FLOWS_NAMED
            {
                named.push(flow);
            }
        }
        for misplacement in &mut self.misplacements {
            let named = by_hash.get(&misplacement.hash).into_iter().flatten();
            misplacement.name(named.copied(), FLOWS_NAMED);
        }
    }
}

/// Merges misplacements that differ only in their flows; most frames first.
fn merged(rows: impl Iterator<Item = Misplacement>) -> Vec<Misplacement> {
    let mut by_hash: BTreeMap<_, Misplacement> = BTreeMap::new();
    for row in rows {
        let key = (row.hash, row.reported_hash, row.actual, row.cause);
        match by_hash.entry(key) {
            Entry::Vacant(place) => drop(place.insert(row)),
            Entry::Occupied(mut merged) => {
                let merged = merged.get_mut();
                merged.frames += row.frames;
                let left = FLOWS_NAMED.saturating_sub(merged.flows.len());
                merged.name(row.flows, left);
            }
        }
    }
    let mut merged: Vec<_> = by_hash.into_values().collect();
    merged.sort_by_key(|misplacement| std::cmp::Reverse(misplacement.frames));
    merged
}

/// The alternatives that explain frames without reported hash: those that fit nearly all flows to which they apply, and
/// too many for a coincidence.
fn likely(suspects: impl Iterator<Item = Suspects>, table: &IndirectionTable) -> Vec<usize> {
    let mut counts = [(0_u32, 0_u32); ALTERNATIVES.len()];
    for suspects in suspects.filter(|suspects| !suspects.certain) {
        for (fits, (having, fitting)) in suspects.alternatives.into_iter().zip(&mut counts) {
            *having += u32::from(fits.is_some());
            *fitting += u32::from(fits == Some(true));
        }
    }
    // An unrelated hash selects the observed queue with a probability of one in this many.
    let queues = table.buckets() as f64;
    let mut likely: Vec<usize> = (0..counts.len())
        .filter(|alternative| {
            let (having, fitting) = counts[*alternative];
            // At most one in twenty does not fit, and the probability of a coincidence is below one in a thousand.
            f64::from(fitting) >= 0.95 * f64::from(having)
                && f64::from(fitting) * queues.ln() >= 1000_f64.ln()
        })
        .collect();
    likely.sort_by_key(|alternative| std::cmp::Reverse(counts[*alternative].1));
    likely
}

/// The cause of a row: a matching alternative, otherwise the cause by the account of the entry, unless what would match may
/// not have been captured.
fn cause(row: &Row, likely: &[usize], ledger: &Ledger) -> Cause {
    let fits = |alternative: &usize| row.suspects.alternatives[*alternative] == Some(true);
    let (fitting, otherwise) = match row.suspects.certain {
        true => ((0..ALTERNATIVES.len()).find(fits), Cause::OtherHash),
        false => (
            likely.iter().copied().find(fits),
            ledger.entries[row.entry].cause(),
        ),
    };
    match fitting {
        Some(alternative) => ALTERNATIVES[alternative],
        None if row.suspects.hidden => Cause::CutShort,
        None => otherwise,
    }
}

fn buckets(table: &IndirectionTable, ledger: &Ledger, misplacements: &[Misplacement]) -> Vec<BucketReport> {
    let mut reports: Vec<_> = (0..table.buckets())
        .map(|number| BucketReport {
            bucket: Bucket::new(number as u16),
            seen: 0,
            right_hash: ledger.hashes.then_some(0),
            right_queue: ledger.queues.then_some(0),
            misplaced: 0,
            causes: Vec::new(),
        })
        .collect();
    for (bucket, (seen, entry)) in table.entries().iter().zip(ledger.entries()) {
        let report = &mut reports[bucket.index()];
        report.seen += seen;
        report.misplaced += entry.misplaced;
        report.right_hash = report.right_hash.map(|sum| sum + entry.right_hashes);
        report.right_queue = report.right_queue.map(|sum| sum + entry.right.count);
    }
    for report in &mut reports {
        report.causes = causes(
            misplacements
                .iter()
                .filter(|misplacement| misplacement.expected == report.bucket),
        );
    }
    reports
}

fn causes<'a>(misplacements: impl IntoIterator<Item = &'a Misplacement>) -> Vec<CauseCount> {
    let mut frames: BTreeMap<Cause, u64> = BTreeMap::new();
    for misplacement in misplacements {
        *frames.entry(misplacement.cause).or_default() += misplacement.frames;
    }
    let mut counts: Vec<_> = frames
        .into_iter()
        .map(|(cause, frames)| CauseCount { cause, frames })
        .collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.frames));
    counts
}

fn hexadecimal<S: Serializer>(hash: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("0x{hash:08x}"))
}

fn optional_hexadecimal<S: Serializer>(hash: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    match hash {
        Some(hash) => hexadecimal(hash, serializer),
        None => serializer.serialize_none(),
    }
}

fn flows<S: Serializer>(flows: &[Tuple], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(flows.iter().map(Tuple::to_string))
}
