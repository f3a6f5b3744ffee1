//! The order in which segments are merged: by type of the hash, hash, and arrival, in one number.

use corelane_rss::{Hash, HashType};

/// Bits of a place.
const PLACE: u32 = 31;

/// The number of a frame at a place, with a hash over addresses and ports of TCP.
#[inline(always)]
pub fn of(hash: Hash, place: usize) -> u64 {
    let is_v6 = hash.hash_type == HashType::TCP_IPV6;
    u64::from(is_v6) << 63 | u64::from(hash.value) << PLACE | place as u64
}

/// Type and hash.
#[inline(always)]
pub fn flow(key: u64) -> u64 {
    key >> PLACE
}

#[inline(always)]
pub fn place(key: u64) -> usize {
    (key & ((1 << PLACE) - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_are_in_the_order_of_type_hash_and_arrival(
            flows in proptest::collection::vec((any::<bool>(), prop_oneof![any::<u32>(), 0..4_u32]), 0..300),
        ) {
            let key = |(place, (is_v6, value)): (usize, &(bool, u32))| {
                let hash_type = if *is_v6 { HashType::TCP_IPV6 } else { HashType::TCP_IPV4 };
                let value = *value;
                of(Hash { value, hash_type }, place)
            };
            let mut keys: Vec<u64> = flows.iter().enumerate().map(key).collect();
            keys.sort_unstable();
            let mut expected: Vec<usize> = (0..flows.len()).collect();
            expected.sort_by_key(|place| flows[*place]);
            let places: Vec<usize> = keys.iter().map(|key| place(*key)).collect();
            prop_assert_eq!(places, expected);
            prop_assert!(keys.iter().all(|key| flow(*key) == key >> PLACE));
        }
    }
}
