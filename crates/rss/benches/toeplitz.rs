//! The speed of every way of hashing on this CPU: nanoseconds per hash, and the ratio of the oracle's time to it, from
//! one run.
//!
//! Throughput: many inputs one after the other, so that no hash waits for the previous one. The ways alternate in every
//! round and each figure is the median of the rounds, so that other programs on the machine affect all ways alike.
//! Arguments are ignored, such as those that `cargo bench` adds.

use corelane_rss::{HashFields, Key, Toeplitz, Tuple, Way, oracle};
use std::hint::black_box;
use std::net::{Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::time::Instant;

/// Inputs hashed in turn: several batches of 64, small enough to stay in the first-level cache.
const INPUTS: usize = 256;
/// Rounds, and passes over the inputs in each round.
const ROUNDS: usize = 41;
const PASSES: usize = 40;

fn main() {
    let mut cases = Vec::new();
    add_cases::<8>(&mut cases, "ipv4-2tuple", HashFields::TwoTuple, tuple_v4);
    add_cases::<12>(&mut cases, "ipv4-4tuple", HashFields::FourTuple, tuple_v4);
    add_cases::<32>(&mut cases, "ipv6-2tuple", HashFields::TwoTuple, tuple_v6);
    add_cases::<36>(&mut cases, "ipv6-4tuple", HashFields::FourTuple, tuple_v6);
    for _ in 0..ROUNDS {
        for case in &mut cases {
            let started = Instant::now();
            for _ in 0..PASSES {
                (case.pass)();
            }
            let nanoseconds = started.elapsed().as_nanos() as f64;
            case.rounds.push(nanoseconds / (PASSES * INPUTS) as f64);
        }
    }
    println!(
        "{:<12} {:<8} {:>8} {:>9} {:>9}",
        "tuple", "way", "batch", "ns/hash", "ratio"
    );
    let mut oracle = f64::NAN;
    for case in &mut cases {
        case.rounds.sort_by(f64::total_cmp);
        let median = case.rounds[ROUNDS / 2];
        if case.way == "oracle" {
            oracle = median;
        }
        println!(
            "{:<12} {:<8} {:>8} {median:>9.2} {:>9.1}",
            case.tuple,
            case.way,
            case.batch,
            oracle / median
        );
    }
}

/// One line of the result.
struct Case {
    tuple: &'static str,
    way: String,
    batch: &'static str,
    pass: Box<dyn FnMut()>,
    /// Nanoseconds per hash in each round.
    rounds: Vec<f64>,
}

/// The oracle, then every way: from bytes one at a time, in batches of 64, and from tuples.
fn add_cases<const N: usize>(
    cases: &mut Vec<Case>,
    tuple: &'static str,
    fields: HashFields,
    make: fn(u64) -> Tuple,
) {
    let tuples: Vec<Tuple> = (0..INPUTS as u64).map(make).collect();
    let input =
        |tuple: &Tuple| <[u8; N]>::try_from(tuple.input(fields).as_bytes()).expect("N is this kind's length");
    let inputs: Vec<[u8; N]> = tuples.iter().map(input).collect();
    let mut add = |way: String, batch, pass| {
        cases.push(Case {
            tuple,
            way,
            batch,
            pass,
            rounds: Vec::with_capacity(ROUNDS),
        });
    };
    let key = Key::VERIFICATION;
    add("oracle".into(), "1", {
        let inputs = inputs.clone();
        Box::new(move || {
            let hashes = black_box(&inputs)
                .iter()
                .map(|input| oracle::toeplitz(&key, input));
            black_box(hashes.fold(0, |sum, hash| sum ^ hash));
        })
    });
    for way in Way::available() {
        let toeplitz = Toeplitz::with_way(&Key::VERIFICATION, way).expect("an available way");
        add(way.to_string(), "1", {
            let (toeplitz, inputs) = (toeplitz.clone(), inputs.clone());
            Box::new(move || {
                let hashes = black_box(&inputs).iter().map(|input| toeplitz.hash_input(input));
                black_box(hashes.fold(0, |sum, hash| sum ^ hash));
            })
        });
        add(way.to_string(), "64", {
            let (toeplitz, inputs) = (toeplitz.clone(), inputs.clone());
            let mut hashes = vec![0; INPUTS];
            Box::new(move || {
                for (inputs, hashes) in black_box(&inputs).chunks(64).zip(hashes.chunks_mut(64)) {
                    toeplitz.hash_inputs(inputs, hashes);
                }
                black_box(&hashes);
            })
        });
        add(way.to_string(), "tuple", {
            let (toeplitz, tuples) = (toeplitz.clone(), tuples.clone());
            Box::new(move || {
                let hashes = black_box(&tuples)
                    .iter()
                    .map(|tuple| toeplitz.hash(tuple, fields));
                black_box(hashes.fold(0, |sum, hash| sum ^ hash));
            })
        });
    }
}

/// Pseudo-random numbers from a counter (the mixing step of SplitMix64).
fn mixed(counter: u64) -> u64 {
    let mut mixed = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn tuple_v4(number: u64) -> Tuple {
    let socket = |drawn: u64| SocketAddrV4::new(((drawn >> 16) as u32).into(), drawn as u16);
    Tuple::V4 {
        source: socket(mixed(2 * number)),
        destination: socket(mixed(2 * number + 1)),
    }
}

fn tuple_v6(number: u64) -> Tuple {
    let socket = |first: u64| {
        let address = u128::from(mixed(first)) << 64 | u128::from(mixed(first + 1));
        SocketAddrV6::new(Ipv6Addr::from(address), mixed(first + 2) as u16, 0, 0)
    };
    Tuple::V6 {
        source: socket(6 * number),
        destination: socket(6 * number + 3),
    }
}
