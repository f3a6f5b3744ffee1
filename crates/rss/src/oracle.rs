//! The reference that every faster way is held to: key and bytes enter, the Toeplitz hash leaves.

use crate::key::Key;

/// The Toeplitz hash of `input`, bit by bit: a window of 32 key bits slides along the input, and each input bit that is
/// set XORs the window into the hash (Microsoft, "RSS Hashing Functions").
///
/// Input bits are taken most significant first. Key bits past the key's end count as zero, so an input of any length has
/// a hash; every tuple fits the shortest key.
#[must_use]
pub fn toeplitz(key: &Key, input: &[u8]) -> u32 {
    let mut upcoming = key.as_bytes().iter().copied().chain(std::iter::repeat(0));
    let mut next_byte = || u64::from(upcoming.next().unwrap_or(0));
    // The upper half is the window over the current input bit, the lower half the key bits that will slide into it.
    let mut window = (0..8).fold(0, |bits, _| bits << 8 | next_byte());
    let mut hash = 0;
    for &byte in input {
        for bit in (0..8).rev() {
            if byte >> bit & 1 == 1 {
                hash ^= (window >> 32) as u32;
            }
            window <<= 1;
        }
        window |= next_byte();
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
