//! Keys of tables and queries: random ones, half of them present, and prefixes as the Internet has them.

use corelane_table::Prefix;
use fastrand::Rng;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Queries, of which half are among the entries.
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

/// A random address of 2000::/3, where the Internet's are.
pub fn ipv6(random: &mut Rng) -> Ipv6Addr {
    Ipv6Addr::from_bits(random.u128(..) >> 3 | 1 << 125)
}

/// How many of a million IPv4 prefixes have each length, from /8 on: the shares of the full table of early 2025 (bgp.potaroo.net,
/// AS 131072), and one in a hundred longer than /24, as networks have of their own.
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

/// A million prefixes or a few less, where random ones met.
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

/// A random address of a prefix.
pub fn within(random: &mut Rng, prefix: Prefix<Ipv4Addr>) -> Ipv4Addr {
    let (first, last) = (prefix.address().to_bits(), prefix.last_address().to_bits());
    Ipv4Addr::from_bits(random.u32(first..=last))
}
