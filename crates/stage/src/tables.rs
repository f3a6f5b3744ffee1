//! The verdict of address tables: drops frames by their addresses.
//!
//! The headers of all frames of the batch are read first. Then each table is queried for all addresses at once, so that
//! its memory can be prefetched. The first table that a frame matches decides on it, unless its verdict is to count.

use crate::work::HEADERS_AHEAD;
use crate::{Batch, Kinds, Stage, Work};
use corelane_measure::counter::Counter;
use corelane_measure::words;
use corelane_packet::{Addresses, Dissection, Refusal};
use corelane_table::{AddressTables, Lookup, Prefetch, Reader, Value};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

words!(Sides, OnMatch, Verdict);

/// The addresses of a frame to look up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sides {
    /// The source.
    Src,
    /// The destination.
    Dst,
    /// Both: a frame matches if either is in the table.
    #[default]
    Both,
}

/// The verdict for a matching frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMatch {
    /// Drops it; later tables are not queried.
    #[default]
    Drop,
    /// Forwards it; later tables are not queried.
    Pass,
    /// Counts it; later tables are queried.
    Count,
}

/// The verdict for a frame that no table decided on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Forwards it.
    #[default]
    Pass,
    /// Drops it.
    Drop,
}

/// Looks up a batch of addresses of one family. Also called without addresses, so that an idle reader does not keep a
/// replaced table alive.
pub trait Search<A> {
    /// Answer `i` is that of key `i`.
    fn search(&mut self, keys: &[A], answers: &mut [Option<Value>]);
}

impl Search<Ipv4Addr> for Reader<AddressTables> {
    #[inline(always)]
    fn search(&mut self, keys: &[Ipv4Addr], answers: &mut [Option<Value>]) {
        self.table().v4.lookup(keys, Prefetch::default(), answers);
    }
}

impl Search<Ipv6Addr> for Reader<AddressTables> {
    #[inline(always)]
    fn search(&mut self, keys: &[Ipv6Addr], answers: &mut [Option<Value>]) {
        self.table().v6.lookup(keys, Prefetch::default(), answers);
    }
}

/// One table, and the verdict for matching frames.
#[derive(Clone, Debug)]
pub struct Rule<T = Reader<AddressTables>> {
    /// Read access to its entries.
    pub reader: T,
    /// The addresses to look up.
    pub sides: Sides,
    /// The verdict for matching frames.
    pub on_match: OnMatch,
    /// What is counted of it.
    pub counts: Arc<RuleCounts>,
}

/// The counts of a stage, on cache lines of their own: the stage writes them, any thread reads them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct TableCounts {
    /// Frames without an IP header.
    pub not_ip: Counter,
    /// Frames with a truncated or inconsistent IP header.
    pub malformed: Counter,
    /// Frames dropped since a table that drops what matches has an address of theirs.
    pub dropped_table: Counter,
    /// Frames dropped since no table decided on them.
    pub dropped_otherwise: Counter,
    /// Frames dropped since they have no readable IP header.
    pub dropped_not_ip: Counter,
}

/// The counts of one table.
#[derive(Debug)]
#[repr(align(128))]
pub struct RuleCounts {
    /// Frames that were looked up.
    pub asked: Counter,
    /// Frames that matched.
    pub matched: Counter,
    /// Frames that matched, by value of the entry.
    pub values: Vec<Counter>,
}

impl Default for RuleCounts {
    fn default() -> RuleCounts {
        RuleCounts {
            asked: Counter::new(),
            matched: Counter::new(),
            values: (0..=Value::LARGEST).map(|_| Counter::new()).collect(),
        }
    }
}

/// Drops frames by the tables that have their addresses.
pub struct TableStage<T = Reader<AddressTables>> {
    rules: Vec<Rule<T>>,
    otherwise: Verdict,
    not_ip: Verdict,
    headers_ahead: usize,
    counts: Arc<TableCounts>,
    v4: Undecided<Ipv4Addr>,
    v6: Undecided<Ipv6Addr>,
    /// Places of frames that are dropped as they are not IP.
    refused: Vec<u32>,
}

impl<T> TableStage<T> {
    /// A stage that queries these tables in order.
    #[must_use]
    pub fn new(
        rules: Vec<Rule<T>>,
        otherwise: Verdict,
        not_ip: Verdict,
        counts: Arc<TableCounts>,
    ) -> TableStage<T> {
        TableStage {
            rules,
            otherwise,
            not_ip,
            headers_ahead: HEADERS_AHEAD,
            counts,
            v4: Undecided::default(),
            v6: Undecided::default(),
            refused: Vec::new(),
        }
    }

    /// Prefetches headers this many frames ahead: 0 none, [`usize::MAX`] all of the batch before the first is read.
    #[must_use]
    pub fn prefetching(self, headers_ahead: usize) -> TableStage<T> {
        TableStage {
            headers_ahead,
            ..self
        }
    }

    /// Reads the addresses of all frames.
    #[inline(always)]
    fn read<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        self.v4.clear();
        self.v6.clear();
        self.refused.clear();
        let places = work.len();
        match work.untouched() {
            Some(lent) => self.read_each(
                places,
                |place| lent.prefetch(place),
                |place| Some(Dissection::of(lent.frame(place))),
            ),
            None => self.read_each(
                places,
                |place| work.prefetch(place),
                |place| work.goes_on(place).then(|| work.dissection(place)),
            ),
        }
        for place in &self.refused {
            work.drop(*place as usize, &self.counts.dropped_not_ip);
        }
    }

    #[inline(always)]
    fn read_each<'frame>(
        &mut self,
        places: usize,
        prefetch: impl Fn(usize),
        headers: impl Fn(usize) -> Option<Result<Dissection<'frame>, Refusal>>,
    ) {
        let (mut not_ip, mut malformed) = (0, 0);
        for place in 0..self.headers_ahead.min(places) {
            prefetch(place);
        }
        for place in 0..places {
            prefetch(place.saturating_add(self.headers_ahead));
            let Some(headers) = headers(place) else { continue };
            match headers.map(|dissection| dissection.addresses()) {
                Ok(Addresses::V4(both)) => self.v4.push(place, *both),
                Ok(Addresses::V6(both)) => self.v6.push(place, *both),
                Err(refusal) => {
                    match refusal {
                        Refusal::NotIp { .. } => not_ip += 1,
                        _ => malformed += 1,
                    }
                    if self.not_ip == Verdict::Drop {
                        self.refused.push(place as u32);
                    }
                }
            }
        }
        if not_ip + malformed > 0 {
            self.counts.not_ip.add(not_ip);
            self.counts.malformed.add(malformed);
        }
    }
}

impl<T: Search<Ipv4Addr> + Search<Ipv6Addr>> Stage for TableStage<T> {
    #[inline]
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        let decides = !self.rules.is_empty() || self.otherwise == Verdict::Drop;
        if !decides && work.is_read() && !work.kinds().has(Kinds::REFUSED) {
            return;
        }
        self.read(work);
        let dropped = &self.counts.dropped_table;
        for rule in &mut self.rules {
            self.v4.ask(rule, |place| work.drop(place, dropped));
            self.v6.ask(rule, |place| work.drop(place, dropped));
        }
        if self.otherwise == Verdict::Drop {
            for place in self.v4.places.iter().chain(&self.v6.places) {
                work.drop(*place as usize, &self.counts.dropped_otherwise);
            }
        }
    }
}

/// Frames of one family that no table has decided on yet.
struct Undecided<A> {
    places: Vec<u32>,
    /// Source and destination address of each.
    pairs: Vec<A>,
    /// The address of each frame to look up.
    chosen: Vec<A>,
    answers: Vec<Option<Value>>,
}

impl<A: Copy> Undecided<A> {
    fn clear(&mut self) {
        self.places.clear();
        self.pairs.clear();
    }

    #[inline(always)]
    fn push<Bytes: Into<A>>(&mut self, place: usize, ends: [Bytes; 2]) {
        self.places.push(place as u32);
        self.pairs.extend(ends.map(Into::into));
    }

    /// Queries a table for all frames, and removes those that it decides on.
    #[inline]
    fn ask<T: Search<A>>(&mut self, rule: &mut Rule<T>, mut drop: impl FnMut(usize)) {
        rule.counts.asked.add(self.places.len() as u64);
        let (sides, on_match) = (rule.sides, rule.on_match);
        self.look_up(&mut rule.reader, sides);
        let per_frame = if sides == Sides::Both { 2 } else { 1 };
        let (mut kept, mut matched) = (0, 0);
        for at in 0..self.places.len() {
            let place = self.places[at];
            let answers = &self.answers[at * per_frame..at * per_frame + per_frame];
            let answer = answers.iter().copied().fold(None, Option::or);
            if let Some(value) = answer {
                matched += 1;
                rule.counts.values[usize::from(value.get())].add(1);
            }
            if answer.is_some() && on_match != OnMatch::Count {
                if on_match == OnMatch::Drop {
                    drop(place as usize);
                }
                continue;
            }
            if kept != at {
                self.places[kept] = place;
                self.pairs.copy_within(2 * at..2 * at + 2, 2 * kept);
            }
            kept += 1;
        }
        self.places.truncate(kept);
        self.pairs.truncate(2 * kept);
        rule.counts.matched.add(matched);
    }

    #[inline(always)]
    fn look_up<T: Search<A>>(&mut self, tables: &mut T, sides: Sides) {
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
        tables.search(keys, &mut self.answers);
    }
}

impl<A> Default for Undecided<A> {
    fn default() -> Undecided<A> {
        Undecided {
            places: Vec::new(),
            pairs: Vec::new(),
            chosen: Vec::new(),
            answers: Vec::new(),
        }
    }
}
