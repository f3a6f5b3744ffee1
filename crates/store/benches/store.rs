//! The time of an operation, in batches as a server has them, with prefetching at several distances and without.
//!
//! `cargo bench -p corelane-store --bench store [-- MILLIONS...]`, and at the end the time of storing values of several sizes. Keys of 32 bytes and values of 100 bytes, chosen evenly, which is
//! the worst case for the caches of the CPU. Rounds of the distances alternate; each figure is the median of its rounds. The time of
//! making and hashing the keys, which is the first column, is in the others, too, and so is copying the value.

use corelane_store::{Attributes, Hash, Memory, Partition, Placement, Settings, hash};
use std::hint::black_box;
use std::time::Instant;

const KEY: usize = 32;
const VALUE: usize = 100;
/// Operations that a server has at once.
const BATCH: usize = 64;
/// Batches of a round.
const BATCHES: usize = 2_000;
const ROUNDS: usize = 9;
const NOW: u32 = 1;
/// How many operations ahead the index line is prefetched, and the item; none is no prefetching.
const DISTANCES: [Option<(usize, usize)>; 6] = [
    None,
    Some((4, 2)),
    Some((8, 4)),
    Some((16, 8)),
    Some((32, 16)),
    Some((48, 24)),
];
const OPERATIONS: [(&str, Operation); 5] = [
    ("keys, hashes", Operation::Hash),
    ("hit", Operation::Hit),
    ("miss", Operation::Miss),
    ("overwrite", Operation::Overwrite),
    ("new, evicting", Operation::New),
];

#[derive(Clone, Copy)]
enum Operation {
    Hash,
    Hit,
    Miss,
    Overwrite,
    New,
}

fn main() {
    let chosen: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let chosen = if chosen.is_empty() { vec![1, 10] } else { chosen };
    for millions in chosen {
        measure(millions * 1_000_000);
    }
    SIZES.iter().for_each(|size| measure_size(*size));
}

/// Bytes of the values of which the store has some MiB, so that the time is that of the copies.
const SIZES: [usize; 4] = [100, 4 << 10, 32 << 10, 1 << 20];
const SIZED_BYTES: usize = 4 << 20;

/// Prints the time of storing a value of so many bytes: the median of rounds.
fn measure_size(size: usize) {
    let memory = Memory::zeroed(8 * SIZED_BYTES, Placement::default()).expect("memory");
    let mut store = Partition::new(memory, &Settings::default()).expect("a store");
    let value = vec![7; size];
    let items = (SIZED_BYTES / size) as u64;
    let mut times = Vec::new();
    for _ in 0..ROUNDS * 4 {
        let start = Instant::now();
        for number in 0..items {
            let key = key(number);
            let stored = store.set(hash(&key, 0), &key, &value, Attributes::default(), NOW);
            stored.expect("room");
        }
        times.push(start.elapsed().as_nanos() as f64 / items as f64);
    }
    times.sort_by(f64::total_cmp);
    println!("{size:8} bytes stored: {:10.1} ns", times[times.len() / 2]);
}

fn measure(items: u64) {
    let mut store = filled(items);
    println!(
        "{items} items, {:.1} bytes each beyond key and value; ns per operation",
        overhead(&store)
    );
    print!("{:24}", "prefetched ahead");
    OPERATIONS.iter().for_each(|(name, _)| print!("{name:>14}"));
    println!();
    let mut times = [[(); OPERATIONS.len()]; DISTANCES.len()].map(|row| row.map(|()| Vec::new()));
    let (mut random, mut next) = (fastrand::Rng::with_seed(1), 2 * items);
    for operation in 0..OPERATIONS.len() {
        for _ in 0..ROUNDS {
            for (times, distance) in times.iter_mut().zip(DISTANCES) {
                let what = OPERATIONS[operation].1;
                times[operation].push(round(&mut store, what, distance, items, &mut random, &mut next));
            }
        }
    }
    for (times, distance) in times.iter_mut().zip(DISTANCES) {
        match distance {
            None => print!("{:24}", "none"),
            Some((index, item)) => print!("{:24}", format!("index {index}, item {item}")),
        }
        for times in times {
            times.sort_by(f64::total_cmp);
            print!("{:14.1}", times[ROUNDS / 2]);
        }
        println!();
    }
}

/// Nanoseconds per operation.
fn round(
    store: &mut Partition,
    operation: Operation,
    distance: Option<(usize, usize)>,
    items: u64,
    random: &mut fastrand::Rng,
    next: &mut u64,
) -> f64 {
    let start = Instant::now();
    for _ in 0..BATCHES {
        let numbers: [u64; BATCH] = std::array::from_fn(|_| match operation {
            Operation::New => {
                *next += 1;
                *next
            }
            Operation::Miss => random.u64(..items) + items,
            _ => random.u64(..items),
        });
        match operation {
            Operation::Hash => {
                black_box(numbers.map(|number| hash(&key(number), 0)));
            }
            Operation::Hit => batch(store, &numbers, distance, |store, hash, key| {
                let item = store.read(hash, key, NOW).expect("it is there").into_item();
                let mut output = [0; VALUE];
                output.copy_from_slice(item.value.whole().expect("it is in one part"));
                black_box(&output);
            }),
            Operation::Miss => batch(store, &numbers, distance, |store, hash, key| {
                assert!(store.read(hash, key, NOW).is_none());
            }),
            Operation::Overwrite | Operation::New => batch(store, &numbers, distance, |store, hash, key| {
                let stored = store.set(hash, key, &[8; VALUE], Attributes::default(), NOW);
                stored.expect("room");
            }),
        }
    }
    start.elapsed().as_nanos() as f64 / (BATCHES * BATCH) as f64
}

/// A key: the bytes of four mixed words (SplitMix64).
#[inline(always)]
fn key(number: u64) -> [u8; KEY] {
    let mut key = [0; KEY];
    for (part, bytes) in key.chunks_exact_mut(8).enumerate() {
        let word = (number * 4 + part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes.copy_from_slice(&(word ^ word >> 29).to_le_bytes());
    }
    key
}

/// A store that has room for these items and not for more.
fn filled(items: u64) -> Partition {
    let memory = Memory::zeroed(items as usize * 177, Placement::default()).expect("memory");
    let mut store = Partition::new(memory, &Settings::default()).expect("a store");
    for number in 0..items {
        let key = key(number);
        let stored = store.set(hash(&key, 0), &key, &[7; VALUE], Attributes::default(), NOW);
        stored.expect("room");
    }
    assert_eq!(store.counts().items, items, "nothing was evicted");
    store
}

fn overhead(store: &Partition) -> f64 {
    let counts = store.counts();
    let used = (counts.segments - counts.free_segments) * counts.segment_bytes;
    (used - counts.payload_bytes) as f64 / counts.items as f64
}

/// Performs a batch: `operation` on each key, while later ones are prefetched.
#[inline(always)]
fn batch(
    store: &mut Partition,
    numbers: &[u64; BATCH],
    distance: Option<(usize, usize)>,
    mut operation: impl FnMut(&mut Partition, Hash, &[u8; KEY]),
) {
    let keys = numbers.map(key);
    let hashes = keys.map(|key| hash(&key, 0));
    let (index, item) = distance.unwrap_or((BATCH, BATCH));
    if distance.is_some() {
        hashes[..index].iter().for_each(|hash| store.prefetch(*hash));
        hashes[..item].iter().for_each(|hash| store.prefetch_item(*hash));
    }
    for place in 0..BATCH {
        if let Some(hash) = hashes.get(place + index) {
            store.prefetch(*hash);
        }
        if let Some(hash) = hashes.get(place + item) {
            store.prefetch_item(*hash);
        }
        operation(store, hashes[place], &keys[place]);
    }
}
