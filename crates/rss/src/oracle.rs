//! Reference implementation of the Toeplitz hash, with which tests compare every faster one.

use crate::key::Key;

/// The Toeplitz hash of `input`, bit by bit, as FreeBSD's `toeplitz_hash` (`sys/net/toeplitz.c`) computes it: a window
/// of 32 key bits slides along the input, and each input bit that is set XORs the window into the hash (Microsoft, "RSS
/// Hashing Functions").
///
/// Bits are processed most significant first. Key bits past the key's end count as zero, so an input of any length has
/// a hash; every tuple fits the shortest key.
#[must_use]
pub fn toeplitz(key: &Key, input: &[u8]) -> u32 {
    let (first, upcoming) = key.as_bytes().split_at(4);
    let mut upcoming = upcoming.iter().copied().chain(std::iter::repeat(0));
    let mut window = first
        .iter()
        .fold(0, |window, byte| window << 8 | u32::from(*byte));
    let mut hash = 0;
    for byte in input {
        let next = upcoming.next().unwrap_or(0);
        for bit in (0..8).rev() {
            if byte >> bit & 1 == 1 {
                hash ^= window;
            }
            window = window << 1 | u32::from(next >> bit & 1);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_input_bit_picks_the_key_window_at_its_position() {
        for bit in 0..288 {
            let mut input = [0; 36];
            input[bit / 8] = 0x80 >> (bit % 8);
            assert_eq!(
                toeplitz(&Key::VERIFICATION, &input),
                Key::VERIFICATION.window(bit),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn input_past_the_key_adds_nothing() {
        let mut input = vec![0; 40];
        input.extend([0xff; 60]);
        assert_eq!(toeplitz(&Key::VERIFICATION, &input), 0);
    }
}
