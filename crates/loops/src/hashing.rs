//! Throughput of hashing: passes over many inputs, where no input depends on an earlier hash.

use corelane_rss::{Key, Toeplitz, Way, oracle};
use std::hint::black_box;
use std::time::Instant;

/// Inputs hashed in turn: several batches, small enough to stay in the first-level cache.
pub const INPUTS: usize = 256;

/// Hashes of one call: the largest batch that packets arrive in here.
pub const BATCH: usize = 64;

/// One way of hashing one kind of tuple.
pub struct Hashing {
    /// The kind of tuple.
    pub tuple: &'static str,
    /// Hashes of one call.
    pub batch: usize,
    /// Hashes all inputs once.
    pass: Box<dyn FnMut()>,
}

impl Hashing {
    /// A way over every kind of tuple: one at a time, and in batches; `None` is the bit-by-bit oracle, one at a time.
    /// Empty if this CPU lacks the way.
    #[must_use]
    pub fn every(way: Option<Way>, key: &Key, seed: u64) -> Vec<Self> {
        let toeplitz = match way.map(|way| Toeplitz::with_way(key, way)).transpose() {
            Ok(toeplitz) => toeplitz,
            Err(_) => return Vec::new(),
        };
        let (toeplitz, mut all) = (toeplitz.as_ref(), Vec::new());
        add::<8>(&mut all, toeplitz, key, "ipv4-2tuple", seed);
        add::<12>(&mut all, toeplitz, key, "ipv4-4tuple", seed);
        add::<32>(&mut all, toeplitz, key, "ipv6-2tuple", seed);
        add::<36>(&mut all, toeplitz, key, "ipv6-4tuple", seed);
        all
    }

    /// Hashes all inputs this many times; returns nanoseconds per hash.
    pub fn time(&mut self, passes: usize) -> f64 {
        let started = Instant::now();
        (0..passes).for_each(|_| (self.pass)());
        started.elapsed().as_nanos() as f64 / (passes * INPUTS) as f64
    }
}

/// Adds tuples whose input is `N` bytes long; the same seed gives the same inputs.
fn add<const N: usize>(
    all: &mut Vec<Hashing>,
    toeplitz: Option<&Toeplitz>,
    key: &Key,
    tuple: &'static str,
    seed: u64,
) {
    let mut random = fastrand::Rng::with_seed(seed);
    let inputs: Vec<[u8; N]> = (0..INPUTS)
        .map(|_| std::array::from_fn(|_| random.u8(..)))
        .collect();
    let mut add = |batch, pass| all.push(Hashing { tuple, batch, pass });
    match toeplitz.cloned() {
        None => {
            let key = key.clone();
            add(1, single(inputs, move |input| oracle::toeplitz(&key, input)));
        }
        Some(toeplitz) => {
            let alone = toeplitz.clone();
            add(1, single(inputs.clone(), move |input| alone.hash_input(input)));
            add(BATCH, batched(inputs, toeplitz));
        }
    }
}

fn single<const N: usize>(inputs: Vec<[u8; N]>, hash: impl Fn(&[u8]) -> u32 + 'static) -> Box<dyn FnMut()> {
    Box::new(move || {
        let hashes = black_box(&inputs).iter().map(|input| hash(input));
        black_box(hashes.fold(0, |sum, hash| sum ^ hash));
    })
}

fn batched<const N: usize>(inputs: Vec<[u8; N]>, toeplitz: Toeplitz) -> Box<dyn FnMut()> {
    let mut hashes = vec![0; INPUTS];
    Box::new(move || {
        for (inputs, hashes) in black_box(&inputs).chunks(BATCH).zip(hashes.chunks_mut(BATCH)) {
            toeplitz.hash_inputs(inputs, hashes);
        }
        black_box(&hashes);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_hashes_every_kind_of_tuple() {
        let names = |way| {
            let all = Hashing::every(way, &Key::VERIFICATION, 1);
            all.into_iter().map(|mut hashing| {
                assert!(hashing.time(1) > 0.0);
                (hashing.tuple, hashing.batch)
            })
        };
        let tuples = ["ipv4-2tuple", "ipv4-4tuple", "ipv6-2tuple", "ipv6-4tuple"];
        assert!(names(None).eq(tuples.map(|tuple| (tuple, 1))));
        for way in Way::available() {
            assert!(names(Some(way)).eq(tuples.iter().flat_map(|&tuple| [(tuple, 1), (tuple, BATCH)])));
        }
    }
}
