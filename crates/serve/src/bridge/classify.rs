//! Selects the frames of a burst that pass, by their addresses: takes frames, returns the numbers of those that pass.
//!
//! The headers of all frames of the burst are read first. Then each table is queried for all addresses at once, so that
//! its memory can be prefetched. The first table that a frame matches decides on it, unless its verdict is to count.

use super::counts::{TableCounts, WorkerCounts};
use super::forward::Classify;
use super::plan::{OnMatch, Sides, Verdict};
use corelane_link::Burst;
use corelane_packet::{Dissection, Refusal};
use corelane_table::{Address, AddressTables, FamilyTable, Lookup, Prefetch, Reader, Value};
use corelane_worker::CachePadded;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Prefetch distance of headers in frames: enough to hide memory latency, few enough for the first-level cache.
const HEADERS_AHEAD: usize = 16;

/// Read access to a table's entries.
pub type Tables = Reader<AddressTables>;

/// One table, and the verdict for matching frames.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its entries.
    pub reader: Tables,
    /// The addresses to look up.
    pub sides: Sides,
    /// The verdict for matching frames.
    pub on_match: OnMatch,
}

/// Classifies the bursts of one worker.
pub struct Classifier {
    rules: Vec<Rule>,
    otherwise: Verdict,
    not_ip: Verdict,
    counts: Arc<CachePadded<WorkerCounts>>,
    v4: Undecided<Ipv4Addr>,
    v6: Undecided<Ipv6Addr>,
    /// For each frame of the burst, whether it is dropped.
    dropped: Vec<bool>,
}

impl Classifier {
    /// A classifier that queries these tables in order.
    #[must_use]
    pub fn new(
        rules: Vec<Rule>,
        otherwise: Verdict,
        not_ip: Verdict,
        counts: Arc<CachePadded<WorkerCounts>>,
    ) -> Classifier {
        Classifier {
            rules,
            otherwise,
            not_ip,
            counts,
            v4: Undecided::default(),
            v6: Undecided::default(),
            dropped: Vec::new(),
        }
    }

    /// Reads the addresses of all frames.
    #[inline(always)]
    fn read(&mut self, burst: &Burst<'_>) {
        self.v4.clear();
        self.v6.clear();
        self.dropped.clear();
        self.dropped.resize(burst.len(), false);
        let (mut not_ip, mut malformed) = (0, 0);
        for number in 0..HEADERS_AHEAD.min(burst.len()) {
            burst.prefetch(number);
        }
        for number in 0..burst.len() {
            burst.prefetch(number + HEADERS_AHEAD);
            match Dissection::of(burst.frame(number)) {
                Ok(dissection) => match (dissection.source(), dissection.destination()) {
                    (IpAddr::V4(source), IpAddr::V4(destination)) => {
                        self.v4.push(number, source, destination);
                    }
                    (IpAddr::V6(source), IpAddr::V6(destination)) => {
                        self.v6.push(number, source, destination);
                    }
                    // A header has addresses of one family only.
                    _ => malformed += 1,
                },
                Err(refusal) => {
                    match refusal {
                        Refusal::NotIp { .. } => not_ip += 1,
                        _ => malformed += 1,
                    }
                    self.dropped[number] = self.not_ip == Verdict::Drop;
                }
            }
        }
        if not_ip + malformed > 0 {
            self.counts.not_ip.add(not_ip);
            self.counts.malformed.add(malformed);
            if self.not_ip == Verdict::Drop {
                self.counts.dropped_not_ip.add(not_ip + malformed);
            }
        }
    }
}

impl Classify for Classifier {
    #[inline]
    fn classify(&mut self, burst: &Burst<'_>, passing: &mut Vec<u32>) {
        self.read(burst);
        for (rule, counts) in self.rules.iter_mut().zip(&self.counts.tables) {
            let tables = rule.reader.table();
            let dropped = self
                .v4
                .ask(&tables.v4, rule.sides, rule.on_match, counts, &mut self.dropped)
                + self
                    .v6
                    .ask(&tables.v6, rule.sides, rule.on_match, counts, &mut self.dropped);
            self.counts.dropped_by_table.add(dropped);
        }
        if self.otherwise == Verdict::Drop {
            let undecided = self.v4.frames.iter().chain(&self.v6.frames);
            undecided.for_each(|number| self.dropped[*number as usize] = true);
            self.counts
                .dropped_otherwise
                .add((self.v4.frames.len() + self.v6.frames.len()) as u64);
        }
        let kept = (0u32..).zip(&self.dropped).filter(|(_, dropped)| !**dropped);
        passing.extend(kept.map(|(number, _)| number));
    }

    fn rest(&mut self) {
        // An idle reader would keep a replaced table alive.
        for rule in &mut self.rules {
            let _ = rule.reader.table();
        }
    }
}

/// Frames of one family that no table has decided on yet.
struct Undecided<A> {
    /// Their indices in the burst.
    frames: Vec<u32>,
    /// Source and destination address of each.
    pairs: Vec<A>,
    /// The address of each frame to look up.
    chosen: Vec<A>,
    answers: Vec<Option<Value>>,
}

impl<A: Address> Undecided<A> {
    fn clear(&mut self) {
        self.frames.clear();
        self.pairs.clear();
    }

    #[inline(always)]
    fn push(&mut self, number: usize, source: A, destination: A) {
        self.frames.push(number as u32);
        self.pairs.extend([source, destination]);
    }

    /// Queries a table for all frames, and removes those that it decides on. Returns the number of frames dropped.
    #[inline]
    fn ask(
        &mut self,
        table: &FamilyTable<A>,
        sides: Sides,
        on_match: OnMatch,
        counts: &TableCounts,
        dropped: &mut [bool],
    ) -> u64 {
        if self.frames.is_empty() {
            return 0;
        }
        counts.asked.add(self.frames.len() as u64);
        self.look_up(table, sides);
        let a_frame = if sides == Sides::Both { 2 } else { 1 };
        let (mut kept, mut matched) = (0, 0);
        for place in 0..self.frames.len() {
            let number = self.frames[place];
            let answers = &self.answers[place * a_frame..place * a_frame + a_frame];
            let answer = answers.iter().copied().fold(None, Option::or);
            if let Some(value) = answer {
                matched += 1;
                counts.values[usize::from(value.get())].add(1);
            }
            if answer.is_some() && on_match != OnMatch::Count {
                dropped[number as usize] = on_match == OnMatch::Drop;
                continue;
            }
            if kept != place {
                self.frames[kept] = number;
                self.pairs.copy_within(2 * place..2 * place + 2, 2 * kept);
            }
            kept += 1;
        }
        self.frames.truncate(kept);
        self.pairs.truncate(2 * kept);
        counts.matched.add(matched);
        if on_match == OnMatch::Drop { matched } else { 0 }
    }

    #[inline(always)]
    fn look_up(&mut self, table: &FamilyTable<A>, sides: Sides) {
        let first = match sides {
            Sides::Both => None,
            Sides::Src => Some(0),
            Sides::Dst => Some(1),
        };
        let keys = match first {
            None => &self.pairs,
            Some(first) => {
                self.chosen.clear();
                self.chosen.extend(self.pairs.iter().skip(first).step_by(2));
                &self.chosen
            }
        };
        // Not cleared: the lookup overwrites every element.
        self.answers.resize(keys.len(), None);
        table.lookup(keys, Prefetch::default(), &mut self.answers);
    }
}

impl<A> Default for Undecided<A> {
    fn default() -> Undecided<A> {
        Undecided {
            frames: Vec::new(),
            pairs: Vec::new(),
            chosen: Vec::new(),
            answers: Vec::new(),
        }
    }
}
