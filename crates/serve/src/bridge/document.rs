//! What a bridge did: the document that `corelane bridge` ends with.

use super::counts::WorkerCounts;
use super::links::LinkState;
use super::lists::ListState;
use super::plan::{BridgePlan, OnMatch, Sides};
use corelane_link::{Injected, Tally};
use corelane_worker::{CachePadded, Counter};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The counts of a bridge. Every frame that was received either passed or was dropped under a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bridged {
    /// `corelane/bridge/1`.
    pub schema: String,
    /// Seconds since it started.
    pub duration_s: f64,
    /// Workers that moved frames.
    pub workers: usize,
    /// Frames received on all links.
    pub received: u64,
    /// Frames that were allowed to go on to the other links.
    pub passed: u64,
    /// Frames that were not, by reason: `table`, `otherwise` (no table decided), `not_ip` (with those malformed).
    pub dropped: BTreeMap<String, u64>,
    /// Frames without an IP header.
    pub not_ip: u64,
    /// Frames whose IP header is cut off or contradicts itself.
    pub malformed: u64,
    /// Of each link, in order.
    pub links: Vec<LinkBridged>,
    /// Of each table, in order.
    pub tables: Vec<TableBridged>,
}

/// The counts of one link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkBridged {
    /// Its specification.
    pub link: String,
    /// Its queues.
    pub queues: usize,
    /// Whether it is there now.
    pub up: bool,
    /// Times that it was lost.
    pub lost: u64,
    /// Times that it came back.
    pub returned: u64,
    /// Why it was lost last, or has not come back.
    pub last_loss: Option<String>,
    /// Frames received from it.
    pub received: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Frames sent to it.
    pub sent: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// Frames that arrived and found its receive ring full.
    pub receive_dropped: u64,
    /// Frames that arrived and were no use.
    pub receive_invalid: u64,
    /// What befell its frames, by name, where it has faults: `dropped`, `truncated`, `corrupted`, `duplicated`, `reordered`,
    /// `delayed`, and `held` (held back still); none where it has none. Received frames count above as they come out of
    /// the faults, and so do sent ones.
    #[serde(default)]
    pub faults: Option<BTreeMap<String, u64>>,
    /// Frames that passed and were not sent to it, by reason: `full`, `oversized`, `link_lost`, `refused` (by the device).
    pub not_sent: BTreeMap<String, u64>,
}

/// The counts of one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableBridged {
    /// Its file.
    pub file: PathBuf,
    /// Which addresses are looked up.
    #[serde(rename = "match")]
    pub sides: Sides,
    /// What becomes of frames that match.
    pub on_match: OnMatch,
    /// Entries in use: addresses and prefixes.
    pub entries: u64,
    /// Bytes that they take.
    pub memory_bytes: u64,
    /// Times that the file was read and taken.
    pub loads: u64,
    /// Seconds that reading the file in use took.
    pub load_s: f64,
    /// Times that the file was refused, and the table in use stayed.
    pub refused: u64,
    /// Why it was refused last.
    pub last_refusal: Option<String>,
    /// Wrong lines skipped in the file in use.
    pub skipped_lines: u64,
    /// Frames that were looked up.
    pub asked: u64,
    /// Frames that matched.
    pub matched: u64,
    /// Frames that matched, by the value of the entry; those that are 0 are left out.
    pub rules: BTreeMap<u16, u64>,
}

/// Puts together what the workers counted.
pub(super) fn bridged(
    plan: &BridgePlan,
    duration_s: f64,
    counts: &[Arc<CachePadded<WorkerCounts>>],
    links: &[LinkState],
    injected: &[Option<Injected>],
    lists: &[ListState],
) -> Bridged {
    let sum = |of: &dyn Fn(&WorkerCounts) -> &Counter| -> u64 {
        counts.iter().map(|worker| of(worker).get()).sum()
    };
    let links: Vec<LinkBridged> = links
        .iter()
        .enumerate()
        .map(|(number, state)| link(&plan.links[number], number, state, injected[number], counts))
        .collect();
    let tables = lists.iter().enumerate().map(|(number, state)| TableBridged {
        file: plan.tables[number].file.clone(),
        sides: plan.tables[number].sides,
        on_match: plan.tables[number].on_match,
        entries: state.entries,
        memory_bytes: state.memory_bytes,
        loads: state.loads,
        load_s: state.load_s,
        refused: state.refused,
        last_refusal: state.last_refusal.clone(),
        skipped_lines: state.skipped_lines,
        asked: sum(&|worker| &worker.tables[number].asked),
        matched: sum(&|worker| &worker.tables[number].matched),
        rules: rules(number, counts),
    });
    let dropped: BTreeMap<String, u64> = [
        ("table", sum(&|worker| &worker.dropped_by_table)),
        ("otherwise", sum(&|worker| &worker.dropped_otherwise)),
        ("not_ip", sum(&|worker| &worker.dropped_not_ip)),
    ]
    .map(|(reason, count)| (reason.to_owned(), count))
    .into();
    let received: u64 = links.iter().map(|link| link.received).sum();
    Bridged {
        schema: "corelane/bridge/1".to_owned(),
        duration_s,
        workers: counts.len(),
        received,
        passed: received.saturating_sub(dropped.values().sum()),
        dropped,
        not_ip: sum(&|worker| &worker.not_ip),
        malformed: sum(&|worker| &worker.malformed),
        tables: tables.collect(),
        links,
    }
}

fn link(
    spec: &str,
    number: usize,
    state: &LinkState,
    injected: Option<Injected>,
    counts: &[Arc<CachePadded<WorkerCounts>>],
) -> LinkBridged {
    let (mut tally, mut full, mut oversized, mut lost) = (Tally::default(), 0, 0, 0);
    for worker in counts {
        let link = &worker.links[number];
        tally += link.tally();
        full += link.full.get();
        oversized += link.oversized.get();
        lost += link.link_lost.get();
    }
    LinkBridged {
        link: spec.to_owned(),
        queues: state.queues,
        up: state.up,
        lost: state.lost,
        returned: state.returned,
        last_loss: state.last_loss.clone(),
        received: tally.received,
        received_bytes: tally.received_bytes,
        sent: tally.sent,
        sent_bytes: tally.sent_bytes,
        receive_dropped: tally.receive_dropped,
        receive_invalid: tally.receive_invalid,
        faults: injected.map(|injected| injected.by_name()),
        not_sent: [
            ("full", full),
            ("oversized", oversized),
            ("link_lost", lost),
            ("refused", tally.send_failed),
        ]
        .map(|(reason, count)| (reason.to_owned(), count))
        .into(),
    }
}

fn rules(table: usize, counts: &[Arc<CachePadded<WorkerCounts>>]) -> BTreeMap<u16, u64> {
    let mut rules = BTreeMap::new();
    for worker in counts {
        for (value, counter) in (0u16..).zip(&worker.tables[table].values) {
            let count = counter.get();
            if count > 0 {
                *rules.entry(value).or_default() += count;
            }
        }
    }
    rules
}
