//! The bridge on rings in memory, 64-byte frames, both addresses looked up among six million entries. It is compared
//! with the bare table and the same keys, and with the same bridge one frame at a time on the table of the post "Intel
//! DDIO, LLC cache, buffer alignment, prefetching, shared locks and packet rates". One CPU, one run, interleaved
//! rounds; the result is the median of the rounds and of their ratios.
//!
//! Only the bridge is timed: frames are put into the ring before, and taken out of the other ring after. The rate of a
//! round is that of the median burst, so that a burst during which another program had the CPU does not count.

use corelane_link::memory::{MemoryLink, pair};
use corelane_link::{FrameLayout, Link};
use corelane_rss::Bucket;
use corelane_serve::bridge::{BURST, Forwarder, Queues, WorkerCounts};
use corelane_stage::{Batch, OnMatch, Rule, Sides, Stage, TableStage, Verdict, Work};
use corelane_table::post::{PostLock, PostPrefetch, PostTable};
use corelane_table::{AddressMap, ListOptions, Lookup, Placement, Prefetch, Seed, Value};
use corelane_worker::CachePadded;
use std::fmt::Write;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

const ENTRIES: usize = 6_000_000;
/// Short rounds, so that interference in memory and caches affects all ways equally.
const ROUNDS: usize = 201;
const BURSTS_A_ROUND: usize = 20;

fn main() {
    // `cargo test --benches` only checks that the benchmark runs.
    let quick = std::env::args().any(|argument| argument == "--test");
    let entries = if quick { 10_000 } else { ENTRIES };
    let (rounds, bursts) = if quick { (1, 2) } else { (ROUNDS, BURSTS_A_ROUND) };
    let mut draws = fastrand::Rng::with_seed(6);
    let addresses: Vec<Ipv4Addr> = (0..entries).map(|_| Ipv4Addr::from(draws.u32(..))).collect();
    let map = map_of(&addresses);
    let post = PostTable::new(PostTable::BUCKETS[0], &addresses);
    let keys: Vec<Ipv4Addr> = (0..1 << 20)
        .map(|number| match number % 2 {
            0 => addresses[draws.usize(..entries)],
            _ => Ipv4Addr::from(draws.u32(..)),
        })
        .collect();

    let mut bench = Bench { keys, at: 0, bursts };
    let rule = Rule {
        reader: map.reader(),
        sides: Sides::Both,
        on_match: OnMatch::Count,
        counts: Arc::default(),
    };
    let mut ours = Bridged::new(BURST, |counts| tables(vec![rule], counts));
    let mut theirs = Bridged::new(1, |_| OneByOne { table: &post });
    let mut empty = Bridged::new(BURST, |counts| tables(Vec::new(), counts));
    let mut found: [Vec<f64>; 4] = Default::default();
    for _ in 0..rounds {
        found[0].push(bench.bare(&map));
        found[1].push(bench.bridge(&mut ours));
        found[2].push(bench.bridge(&mut theirs));
        found[3].push(bench.bridge(&mut empty));
    }
    print(found);
}

/// Prints the rates of the bare table, the bridge, the bridge on the post's table, and the bridge without a table.
fn print(found: [Vec<f64>; 4]) {
    let ratio = |over: &[f64], under: &[f64]| {
        median(over.iter().zip(under).map(|(over, under)| over / under).collect())
    };
    let (to_bare, to_post) = (ratio(&found[1], &found[0]), ratio(&found[1], &found[2]));
    let [bare, ours, theirs, empty] = found.map(median);
    println!(
        "bare table, batched               {:8.1} M lookups/s",
        2.0 * bare / 1e6
    );
    println!(
        "bridge, bursts of {BURST}            {:8.1} M lookups/s, {:6.1} M frames/s",
        2.0 * ours / 1e6,
        ours / 1e6
    );
    println!(
        "bridge, no table                  {:8} {:19.1} M frames/s",
        "",
        empty / 1e6
    );
    println!(
        "bridge, one by one, post's table  {:8.1} M lookups/s, {:6.1} M frames/s",
        2.0 * theirs / 1e6,
        theirs / 1e6
    );
    println!("bridge to bare table              {to_bare:8.2} of its lookups (at least 0.5 is wanted)");
    println!("bridge to the post's one by one   {to_post:8.2} times its frames (at least 3 is wanted)");
}

/// The bridge's own stage.
fn tables(rules: Vec<Rule>, counts: &WorkerCounts) -> TableStage {
    TableStage::new(rules, Verdict::Pass, Verdict::Pass, Arc::clone(&counts.tables))
}

/// The post's table, queried with one frame at a time: no batch, no prefetching.
struct OneByOne<'table> {
    table: &'table PostTable,
}

impl Stage for OneByOne<'_> {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        for place in 0..work.len() {
            if let Ok(dissection) = work.dissection(place)
                && let (IpAddr::V4(source), IpAddr::V4(destination)) =
                    (dissection.source(), dissection.destination())
            {
                let mut answers = [None; 2];
                let keys = [source, destination];
                self.table
                    .lookup_batch(&keys, PostPrefetch::None, PostLock::None, &mut answers);
                black_box(answers);
            }
        }
    }
}

/// A bridge between two rings, and the other ends of the rings.
struct Bridged<S> {
    forwarder: Forwarder<MemoryLink, S>,
    from: MemoryLink,
    to: MemoryLink,
}

impl<S: Stage> Bridged<S> {
    fn new(burst: usize, stage: impl FnOnce(&WorkerCounts) -> S) -> Bridged<S> {
        let layout = FrameLayout::new(BURST, 1920, 0).expect("a layout within bounds");
        let (from, near) = pair(layout).expect("memory for a ring");
        let (far, to) = pair(layout).expect("memory for a ring");
        let counts = Arc::new(CachePadded::new(WorkerCounts::new(2)));
        let links = vec![Queues::new(vec![near]), Queues::new(vec![far])];
        let stage = stage(&counts);
        Bridged {
            forwarder: Forwarder::new(links, [(Bucket::new(0), stage)], burst, counts),
            from,
            to,
        }
    }
}

struct Bench {
    keys: Vec<Ipv4Addr>,
    at: usize,
    bursts: usize,
}

impl Bench {
    /// Frames per second that a bridge forwards.
    fn bridge<S: Stage>(&mut self, bridged: &mut Bridged<S>) -> f64 {
        let mut took = Vec::with_capacity(self.bursts);
        for _ in 0..self.bursts {
            let keys = self.next_keys();
            let filled = bridged
                .from
                .transmit(BURST, |number, buffer| frame(buffer, &keys[2 * number..][..2]));
            assert_eq!(filled.expect("a ring"), BURST);
            let started = Instant::now();
            let mut moved = 0;
            while moved < BURST {
                moved += bridged.forwarder.turn(started);
            }
            // The last burst returns to its ring at the next poll.
            bridged.forwarder.turn(started);
            took.push(started.elapsed().as_secs_f64());
            assert_eq!(bridged.to.receive(BURST).expect("a ring").len(), BURST);
            let _ = bridged.to.receive(0);
        }
        BURST as f64 / median(took)
    }

    /// Frames per second at which the bare table looks up both addresses.
    fn bare(&mut self, map: &AddressMap) -> f64 {
        let mut reader = map.reader();
        let mut answers: Vec<Option<Value>> = vec![None; 2 * BURST];
        let mut took = Vec::with_capacity(self.bursts);
        for _ in 0..self.bursts {
            let keys = self.next_keys();
            let started = Instant::now();
            reader.table().v4.lookup(&keys, Prefetch::default(), &mut answers);
            took.push(started.elapsed().as_secs_f64());
            black_box(&answers);
        }
        BURST as f64 / median(took)
    }

    fn next_keys(&mut self) -> Vec<Ipv4Addr> {
        if self.at + 2 * BURST > self.keys.len() {
            self.at = 0;
        }
        self.at += 2 * BURST;
        self.keys[self.at - 2 * BURST..self.at].to_vec()
    }
}

/// Writes a UDP datagram of 64 bytes between two addresses.
fn frame(buffer: &mut [u8], addresses: &[Ipv4Addr]) -> usize {
    buffer[..26].copy_from_slice(&[
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 17, 0, 0,
    ]);
    buffer[26..30].copy_from_slice(&addresses[0].octets());
    buffer[30..34].copy_from_slice(&addresses[1].octets());
    buffer[34..64].fill(0);
    64
}

fn map_of(addresses: &[Ipv4Addr]) -> AddressMap {
    let mut text = String::with_capacity(addresses.len() * 16);
    for address in addresses {
        let _ = writeln!(text, "{address}");
    }
    let read = AddressMap::from_list(
        text.as_bytes(),
        &ListOptions::default(),
        Seed::default(),
        Placement::default(),
    );
    read.expect("a list of addresses").0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
