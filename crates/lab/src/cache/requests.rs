//! Requests of a shape, drawn from a seed.

use super::shapes::Shape;
use corelane_load::memcached::{Draw, Popularity, Sizer};
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
/// Bytes of a value, at most.
const LARGEST_VALUE: u32 = 8_000;
/// The most popular keys, one of which is replaced when popularity shifts.
const POPULAR: usize = 100;

/// The first `count` requests of a shape over `keys` keys, apart from those that come once.
pub(super) fn requests(shape: &Shape, keys: u32, count: usize, seed: u64) -> Vec<CacheRequest> {
    let mut random = Rng::with_seed(seed);
    let exponent = shape.alpha;
    let ranks = Draw::new(Popularity::Zipf { exponent }, keys.into());
    let [key_sizes, value_sizes] = shape.sizes.map(|sizes| Sizer::new(sizes, 1, LARGEST_VALUE));
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
            let rank = ranks.next(&mut random) as usize;
            let kind = match dice {
                dice if dice < shape.writes => Kind::Write,
                dice if dice < shape.writes + shape.removals => Kind::Remove,
                _ => Kind::Read,
            };
            (kind, by_rank[rank])
        };
        // The same for each request of the key.
        let drawn = seed ^ u64::from(key);
        let now = 1 + (number / REQUESTS_PER_SECOND) as u32;
        let lifetime = shape.lifetime / 2 + key % shape.lifetime.max(1);
        CacheRequest {
            kind,
            key,
            key_bytes: key_sizes.of(drawn) as u8,
            value_bytes: value_sizes.of(!drawn) as u16,
            expiry: if shape.lifetime == 0 { 0 } else { now + lifetime },
            now,
        }
    };
    (0..count).map(draw).collect()
}
