//! Readers with a concurrent writer that makes 100,000 changes per second: lookups per second of CPU time of each
//! reader, alone and together.
//!
//! Time is each reader's own CPU time, so that a shortage of CPUs or other work on the machine does not count as poor
//! scaling, while mutual interference through caches and memory does. The reader of random lines shows how much memory
//! speed two CPUs of this machine cost each other.

use crate::ENTRIES;
use crate::keys;
use crate::rounds::cpu_time;
use corelane_table::limit::RandomLines;
use corelane_table::{ExactMap, Lookup, Placement, Prefetch, Seed, Value};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CHANGES_A_SECOND: u32 = 100_000;
/// Changes that the writer makes before it reads the clock again.
const CHANGES_AT_ONCE: u32 = 100;
const ROUNDS: usize = 15;
/// Passes of each reader over its queries in a round, and the number of queries; every reader has its own.
const PASSES: usize = 4;
const QUERIES: usize = 2_000_000;

pub fn run() {
    let mut random = fastrand::Rng::with_seed(2);
    let entries: Vec<_> = (0..ENTRIES).map(|_| keys::ipv4(&mut random)).collect();
    let most = thread::available_parallelism().map_or(1, usize::from);
    let queries: Vec<Vec<_>> = (0..most)
        .map(|_| keys::queries(&mut random, QUERIES, &entries, keys::ipv4))
        .collect();
    let mut map = ExactMap::with_capacity(ENTRIES, Seed::default(), Placement::default()).expect("memory");
    let members: Vec<_> = entries.iter().map(|key| (*key, Value::MEMBER)).collect();
    map.insert_all(&members).expect("memory");
    let limit = RandomLines::new(map.memory_bytes(), Placement::default()).expect("memory");

    println!(
        "\nreaders beside a writer of {CHANGES_A_SECOND} changes/s; M/s per reader, medians of {ROUNDS} rounds"
    );
    println!(
        "{:>7} {:>9} {:>9} {:>9} {:>9} {:>14}",
        "readers", "table", "ratio", "limit", "ratio", "changes/s"
    );
    let mut rates = vec![(Vec::new(), Vec::new(), Vec::new()); most];
    for _ in 0..ROUNDS {
        for readers in 1..=most {
            let (table, changes) = beside_a_writer(&mut map, &entries, &queries[..readers]);
            let lines = together(&queries[..readers], |queries| {
                std::hint::black_box(limit.read(queries, Prefetch::default()));
            });
            let row = &mut rates[readers - 1];
            row.0.push(table);
            row.1.push(lines);
            row.2.push(changes);
        }
    }
    let median = |rates: &[f64]| {
        let mut rates = rates.to_vec();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    for (index, (table, lines, changes)) in rates.iter().enumerate() {
        println!(
            "{:>7} {:>9.1} {:>9.3} {:>9.1} {:>9.3} {:>14.0}",
            index + 1,
            median(table) / 1e6,
            median(table) / median(&rates[0].0),
            median(lines) / 1e6,
            median(lines) / median(&rates[0].1),
            median(changes)
        );
    }
}

/// The rate of one of several readers while the map changes, and the changes per second.
fn beside_a_writer(
    map: &mut ExactMap<Ipv4Addr>,
    entries: &[Ipv4Addr],
    queries: &[Vec<Ipv4Addr>],
) -> (f64, f64) {
    let reader = map.reader();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| write(map, entries, &done));
        let rate = together(queries, |queries| {
            let mut reader = reader.clone();
            let mut answers = [None; 256];
            for batch in queries.chunks_exact(answers.len()) {
                reader.table().lookup(batch, Prefetch::default(), &mut answers);
                std::hint::black_box(&answers);
            }
        });
        done.store(true, Ordering::Relaxed);
        (rate, writer.join().expect("the writer ends"))
    })
}

/// Removes and adds entries at the given rate until `done` is set.
fn write(map: &mut ExactMap<Ipv4Addr>, entries: &[Ipv4Addr], done: &AtomicBool) -> f64 {
    let mut random = fastrand::Rng::new();
    let (started, mut changes) = (Instant::now(), 0);
    while !done.load(Ordering::Relaxed) {
        for _ in 0..CHANGES_AT_ONCE / 2 {
            let entry = entries[random.usize(..entries.len())];
            map.remove(entry);
            map.insert(entry, Value::MEMBER).expect("memory");
        }
        changes += CHANGES_AT_ONCE;
        let due = Duration::from_secs(1) * changes / CHANGES_A_SECOND;
        thread::sleep(due.saturating_sub(started.elapsed()));
    }
    f64::from(changes) / started.elapsed().as_secs_f64()
}

/// Runs one reader thread for each of the query lists at the same time, and returns the mean of their rates by CPU
/// time.
fn together(queries: &[Vec<Ipv4Addr>], read: impl Fn(&[Ipv4Addr]) + Sync) -> f64 {
    let rate = &|queries: &[Ipv4Addr]| {
        let started = cpu_time();
        for _ in 0..PASSES {
            read(queries);
        }
        (PASSES * queries.len()) as f64 / (cpu_time() - started).as_secs_f64()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = queries
            .iter()
            .map(|queries| scope.spawn(move || rate(queries)))
            .collect();
        let rates = threads
            .into_iter()
            .map(|thread| thread.join().expect("readers end"));
        rates.sum::<f64>() / queries.len() as f64
    })
}
