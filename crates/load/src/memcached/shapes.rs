//! Published shapes of caches' requests.
//!
//! `etc`: B. Atikoglu, Y. Xu, E. Frachtenberg, S. Jiang, M. Paleczny, "Workload analysis of a large-scale key-value store",
//! SIGMETRICS 2012: sizes of keys and values (section 5, table 5), 30 reads per update (section 3). It gives no exponent of
//! popularity: 0.99 is that of YCSB.
//!
//! `twitter-N`: cluster N of J. Yang, Y. Yue, K. V. Rashmi, "A large scale analysis of hundreds of in-memory cache clusters at Twitter",
//! OSDI 2020, by the table that was published with the traces (github.com/twitter/cache-trace, `stat/2020Mar.md`): mean sizes
//! of keys and values, operations, the exponent, and the most frequent TTL. Distributions of sizes are not in it.

use super::mix::Mix;
use super::popularity::Popularity;
use super::sizes::Sizes;

/// One shape.
#[derive(Debug, PartialEq)]
pub struct Shape {
    /// Sizes of keys.
    pub key_size: Sizes,
    /// Sizes of values.
    pub value_size: Sizes,
    /// How often each key is asked for.
    pub popularity: Popularity,
    mix: &'static str,
    /// Seconds after which values expire.
    pub ttl_s: Option<u32>,
}

impl Shape {
    /// The weights of its operations.
    ///
    /// # Panics
    /// Never: a test reads all of them.
    #[must_use]
    pub fn mix(&self) -> Mix {
        self.mix.parse().expect("the mixes of this file are valid")
    }

    const fn twitter(sizes: [u32; 2], exponent: f64, mix: &'static str, ttl_s: u32) -> Self {
        Self {
            key_size: Sizes::Fixed(sizes[0]),
            value_size: Sizes::Fixed(sizes[1]),
            popularity: Popularity::Zipf { exponent },
            mix,
            ttl_s: Some(ttl_s),
        }
    }
}

const MINUTE: u32 = 60;
const DAY: u32 = 24 * 60 * MINUTE;

/// Facebook's ETC.
pub const ETC: Shape = Shape {
    key_size: Sizes::ExtremeValues([30.7984, 8.20449, 0.078_688]),
    value_size: Sizes::Etc,
    popularity: Popularity::Zipf { exponent: 0.99 },
    mix: "get=30,set=1",
    ttl_s: None,
};

/// Reads of few very popular keys.
pub const TWITTER_1: Shape = Shape::twitter([80, 267], 2.6774, "get=99,set=1", 4 * MINUTE);
/// Four of five requests write, and values expire soon.
pub const TWITTER_12: Shape = Shape::twitter([44, 1_030], 0.3048, "set=80,get=20", 5 * MINUTE);
/// Values are deleted when they change.
pub const TWITTER_14: Shape = Shape::twitter([96, 414], 1.2959, "get=65,delete=22,set=13", DAY);
/// Counters, such as for limits of rates.
pub const TWITTER_23: Shape = Shape::twitter([35, 224], 0.274, "set=31,get=36,incr=30,delete=2", 2 * MINUTE);
/// A cache before a store, with compare and swap.
pub const TWITTER_52: Shape = Shape::twitter([20, 273], 1.2117, "get=91,add=4,cas=2", DAY);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memcached::Operation;

    #[test]
    fn all_mixes_are_valid() {
        for shape in [ETC, TWITTER_1, TWITTER_12, TWITTER_14, TWITTER_23, TWITTER_52] {
            let mix = shape.mix();
            assert!(mix.has(Operation::Get), "{mix}");
        }
    }
}
