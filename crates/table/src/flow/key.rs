//! Flow keys: a fixed number of bytes, stored as words.

/// The key of a flow: `WORDS` words of eight bytes, compared as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey<const WORDS: usize>(pub(crate) [u64; WORDS]);

impl<const WORDS: usize> FlowKey<WORDS> {
    /// The key of these bytes, for example addresses, ports and protocol as in a packet. It is padded with zeros, so
    /// all keys of a table must have the same length. Too many bytes do not compile:
    ///
    /// ```compile_fail
    /// corelane_table::FlowKey::<1>::of_bytes(&[0; 9]);
    /// ```
    #[must_use]
    pub fn of_bytes<const BYTES: usize>(bytes: &[u8; BYTES]) -> FlowKey<WORDS> {
        const { assert!(BYTES <= 8 * WORDS, "these bytes fill more words") }
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
            let mut filled = [0; 8];
            filled[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(filled);
        }
        FlowKey(words)
    }
}

impl<const WORDS: usize> From<[u64; WORDS]> for FlowKey<WORDS> {
    fn from(words: [u64; WORDS]) -> FlowKey<WORDS> {
        FlowKey(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_key_counts() {
        let bytes: [u8; 13] = std::array::from_fn(|byte| byte as u8);
        let key = FlowKey::<2>::of_bytes(&bytes);
        for byte in 0..bytes.len() {
            let mut other = bytes;
            other[byte] ^= 0x80;
            assert_ne!(FlowKey::of_bytes(&other), key, "byte {byte}");
        }
        assert_eq!(FlowKey::<1>::of_bytes(&[1, 2]), FlowKey::from([0x0201]));
    }
}
