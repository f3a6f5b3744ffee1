//! Requests of a shape, drawn from a seed.

use super::shapes::{Shape, Sizes};
use fastrand::Rng;

/// What is done with a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is read, and stored if it is not there.
    Read,
    Write,
    Remove,
}

/// One request.
#[derive(Clone, Copy)]
pub(super) struct CacheRequest {
    pub kind: Kind,
    pub key: u32,
    pub key_bytes: u8,
    pub value_bytes: u16,
    /// The second in which the item expires; 0 for never.
    pub expiry: u32,
    /// The second.
    pub now: u32,
}

/// Requests per second of the clock of lifetimes.
const REQUESTS_PER_SECOND: usize = 1_000;
/// Every so many requests a scan begins, over so many keys.
const SCAN_EVERY: usize = 50_000;
const SCAN_KEYS: u32 = 20_000;
/// The most popular keys, one of which is replaced when popularity shifts.
const POPULAR: usize = 100;

/// The first `count` requests of a shape over `keys` keys, apart from those that come once.
pub(super) fn requests(shape: &Shape, keys: u32, count: usize, seed: u64) -> Vec<CacheRequest> {
    let mut random = Rng::with_seed(seed);
    let mut sum = 0.0;
    let shares: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += f64::from(rank).powf(-shape.alpha);
            sum
        })
        .collect();
    let mut by_rank: Vec<u32> = (0..keys).collect();
    random.shuffle(&mut by_rank);
    let (mut fresh, mut scanned) = (keys, 0);
    let draw = |number: usize| {
        if shape.scans && number % SCAN_EVERY == SCAN_EVERY - 1 {
            scanned = SCAN_KEYS;
        }
        if shape.shift > 0 && number.is_multiple_of(shape.shift as usize) {
            let popular = random.usize(..POPULAR.min(by_rank.len()));
            let other = random.usize(..by_rank.len());
            by_rank.swap(popular, other);
        }
        let dice = random.u32(..1_000);
        let (kind, key) = if (scanned > 0 && dice < 500) || dice >= 1_000 - shape.once {
            scanned = scanned.saturating_sub(u32::from(scanned > 0));
            fresh += 1;
            (Kind::Read, fresh - 1)
        } else {
            let drawn = random.f64() * sum;
            let rank = shares.partition_point(|share| *share < drawn);
            let kind = match dice {
                dice if dice < shape.writes => Kind::Write,
                dice if dice < shape.writes + shape.removals => Kind::Remove,
                _ => Kind::Read,
            };
            (kind, by_rank[rank.min(by_rank.len() - 1)])
        };
        let (key_bytes, value_bytes) = sizes(shape.sizes, key, seed);
        let now = 1 + (number / REQUESTS_PER_SECOND) as u32;
        let lifetime = shape.lifetime / 2 + key % shape.lifetime.max(1);
        CacheRequest {
            kind,
            key,
            key_bytes,
            value_bytes,
            expiry: if shape.lifetime == 0 { 0 } else { now + lifetime },
            now,
        }
    };
    (0..count).map(draw).collect()
}

/// The bytes of a key and its value, the same for each request of the key.
fn sizes(sizes: Sizes, key: u32, seed: u64) -> (u8, u16) {
    let mut random = Rng::with_seed(seed ^ u64::from(key) << 20);
    random.u64(..);
    let (first, second) = (random.f64(), random.f64());
    // ETC, appendix of the paper: keys by a generalised extreme value distribution, values by a generalised Pareto one.
    let extreme = 30.7984 + 8.20449 * ((-first.max(1e-9).ln()).powf(-0.078688) - 1.0) / 0.078688;
    let pareto = |scale: f64, shape: f64, most: f64| {
        (scale * ((1.0 - second).max(1e-9).powf(-shape) - 1.0) / shape).min(most) as u16
    };
    let drawn_key = extreme.clamp(8.0, 250.0) as u8;
    match sizes {
        Sizes::Etc => (drawn_key, 1 + pareto(214.476, 0.348238, 8_000.0)),
        // The paper: two sizes of keys, one of values.
        Sizes::Usr => (if first < 0.5 { 16 } else { 21 }, 2),
        Sizes::App => (drawn_key, 200 + (second * 140.0) as u16),
        Sizes::Var => (32, 10 + pareto(30.0, 0.2, 2_000.0)),
        // Median value of clusters 230 bytes, key 38 (the paper's section 4.4).
        Sizes::Small => (38, 10 + pareto(230.0, 0.3, 8_000.0)),
    }
}
