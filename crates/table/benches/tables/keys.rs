//! Keys of tables and queries: random keys, half of them present, and prefixes with the length distribution of the
//! Internet.

use corelane_table::Prefix;
use fastrand::Rng;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Queries, half of which are among the entries.
pub fn queries<K: Copy>(
    random: &mut Rng,
    count: usize,
    entries: &[K],
    other: impl Fn(&mut Rng) -> K,
) -> Vec<K> {
    let mut query = || {
        if random.bool() {
            entries[random.usize(..entries.len())]
        } else {
            other(random)
        }
    };
    (0..count).map(|_| query()).collect()
}

pub fn ipv4(random: &mut Rng) -> Ipv4Addr {
    Ipv4Addr::from_bits(random.u32(..))
}

/// A random address in 2000::/3, the global unicast range.
pub fn ipv6(random: &mut Rng) -> Ipv6Addr {
    Ipv6Addr::from_bits(random.u128(..) >> 3 | 1 << 125)
}

/// The number of prefixes of each length, from /8 on, among a million IPv4 prefixes: the distribution of the full table
/// of early 2025 (bgp.potaroo.net, AS 131072), and one percent longer than /24, as in internal networks.
const LENGTHS: [(u8, usize); 25] = [
    (8, 16),
    (9, 14),
    (10, 40),
    (11, 100),
    (12, 300),
    (13, 600),
    (14, 1_200),
    (15, 2_100),
    (16, 13_600),
    (17, 8_400),
    (18, 14_000),
    (19, 25_000),
    (20, 44_000),
    (21, 52_000),
    (22, 112_000),
    (23, 101_000),
    (24, 615_630),
    (25, 2_000),
    (26, 2_000),
    (27, 1_500),
    (28, 1_000),
    (29, 1_500),
    (30, 1_000),
    (31, 200),
    (32, 800),
];

/// About a million prefixes: slightly fewer, because random duplicates are removed.
pub fn internet(random: &mut Rng) -> Vec<Prefix<Ipv4Addr>> {
    let mut prefixes = Vec::new();
    for (length, count) in LENGTHS {
        // Unicast addresses: 1.0.0.0 to 223.255.255.255.
        let address = |random: &mut Rng| Ipv4Addr::from_bits(random.u32(1 << 24..224 << 24));
        prefixes.extend((0..count).map(|_| Prefix::new(address(random), length).expect("a length of IPv4")));
    }
    random.shuffle(&mut prefixes);
    prefixes
}

/// A random address in a prefix.
pub fn within(random: &mut Rng, prefix: Prefix<Ipv4Addr>) -> Ipv4Addr {
    let (first, last) = (prefix.address().to_bits(), prefix.last_address().to_bits());
    Ipv4Addr::from_bits(random.u32(first..=last))
}
