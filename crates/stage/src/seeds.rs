//! Hashes of what others choose, which they cannot predict.

/// Secret numbers, from which hashes are made that cannot be predicted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeds(pub(crate) [u64; 6]);

impl Seeds {
    /// Those that follow from a seed: numbers of splitmix64.
    pub(crate) fn new(seed: u64) -> Seeds {
        Seeds([1, 2, 3, 4, 5, 6].map(|number: u64| {
            let state = seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            state ^ state >> 31
        }))
    }
}

/// Both halves of a product: each depends on all bits of both numbers.
#[inline(always)]
pub(crate) fn mixed(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    (product as u64) ^ (product >> 64) as u64
}
