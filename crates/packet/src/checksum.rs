//! Internet checksums: computing one over bytes, and updating one after an edit without reading the rest of the packet.

/// The checksum of `bytes`: the complement of the ones' complement sum of their 16-bit words in network order, an odd
/// byte padded with zero (RFC 1071).
#[must_use]
#[inline]
pub fn internet(bytes: &[u8]) -> u16 {
    finished(sum(bytes))
}

/// `checksum` updated for the replacement of the bytes `old` by `new` at an even offset of the covered data: `HC' =
/// ~(~HC + ~m + m')` (RFC 1624, equation 3). Both must have the same length; an odd last byte counts as the first byte
/// of a word.
///
/// A wrong checksum stays wrong by the same difference, so the update does not hide damage.
#[must_use]
pub fn updated(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    let removed = u64::from(finished(sum(old)));
    finished(u64::from(!checksum) + removed + sum(new))
}

/// The CRC32c of an SCTP packet whose checksum field is zero (RFC 9260, appendix A), to be written as little-endian.
#[must_use]
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |rest, byte| {
        CRC32C[usize::from(rest as u8 ^ byte)] ^ (rest >> 8)
    })
}

/// The CRC32c of an SCTP packet of `length` bytes when its first four, `old`, become `new` (RFC 9260, appendix A). A
/// CRC is linear, so only the difference is processed, with zeros for the rest of the packet. `checksum` is the field
/// on the wire read as little-endian.
#[must_use]
pub(crate) fn sctp_updated(checksum: u32, old: [u8; 4], new: [u8; 4], length: usize) -> u32 {
    let difference = u32::from_le_bytes(old) ^ u32::from_le_bytes(new);
    let ran = (0..length).fold(difference, |rest, _| {
        CRC32C[usize::from(rest as u8)] ^ (rest >> 8)
    });
    ran ^ checksum
}

/// The sum of 16-bit words in network order, an odd last byte padded with zero, not yet [`finished`]. Sums of parts of
/// even length can be added.
///
/// Eight bytes a step, in two sums of 32-bit words: the order of bytes and the width of words do not change a ones'
/// complement sum (RFC 1071, section 2). 64 bits hold the sum of 2^32 such words, far more than a frame has.
#[must_use]
#[inline(always)]
pub fn sum(bytes: &[u8]) -> u64 {
    let (steps, rest) = bytes.as_chunks();
    let (mut even, mut odd) = (0, 0);
    for step in steps {
        let words = u64::from_ne_bytes(*step);
        even += words & 0xffff_ffff;
        odd += words >> 32;
    }
    let (words, last) = rest.as_chunks();
    let last = last.first().map(|byte| [*byte, 0]);
    let rest = words.iter().copied().chain(last);
    let rest: u64 = rest.map(|word| u64::from(u16::from_ne_bytes(word))).sum();
    let sum = even + odd + rest;
    u64::from(folded(sum).to_be())
}

/// The checksum of a sum: folds the carries in, and complements.
#[must_use]
#[inline(always)]
pub fn finished(sum: u64) -> u16 {
    !folded(sum)
}

#[inline(always)]
fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Contribution of each lowest byte when CRC32c advances by one byte: the reflected polynomial 0x82f63b78 (RFC 9260,
/// appendix A).
const CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut value = 0;
    while value < 256 {
        let mut rest = value as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest & 1 == 1 {
                rest >> 1 ^ 0x82f6_3b78
            } else {
                rest >> 1
            };
            bit += 1;
        }
        table[value] = rest;
        value += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn published_sums_come_out() {
        // RFC 1071, section 3: the sum of these bytes is ddf2.
        assert_eq!(
            internet(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
        // RFC 1624, section 4: replacing 5555 with 3285 changes dd2f to 0000.
        assert_eq!(updated(0xdd2f, &[0x55, 0x55], &[0x32, 0x85]), 0x0000);
        // RFC 3720, section B.4: CRC32c of 32 zeros, 32 ones.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    /// RFC 1071, section 4.1: a word a step, in network order.
    fn sum_by_words(bytes: &[u8]) -> u64 {
        let word = |word: &[u8]| u64::from(word[0]) << 8 | word.get(1).copied().map_or(0, u64::from);
        bytes.chunks(2).map(word).sum()
    }

    #[test]
    fn the_longest_carries_are_counted() {
        for length in [0, 1, 2, 7, 8, 9, 16, 65_535, 1 << 20] {
            let bytes = vec![0xff; length];
            let expected = finished(sum_by_words(&bytes));
            assert_eq!(internet(&bytes), expected, "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn a_sum_of_wide_words_is_that_of_words(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            more in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            prop_assert_eq!(internet(&bytes), finished(sum_by_words(&bytes)));
            let even = &bytes[..bytes.len() & !1];
            let both = [even, &more[..]].concat();
            prop_assert_eq!(finished(sum(even) + sum(&more)), finished(sum_by_words(&both)));
        }

        #[test]
        fn an_updated_checksum_is_the_one_computed_anew(
            mut bytes in proptest::collection::vec(any::<u8>(), 22..100),
            new in any::<[u8; 16]>(),
            at in 0_usize..3,
        ) {
            let before = internet(&bytes);
            let old: Vec<u8> = bytes.splice(2 * at..2 * at + 16, new).collect();
            let after = internet(&bytes);
            let followed = updated(before, &old, &new);
            // Zero has two representations; only an input of zero bytes yields the other one.
            prop_assert!(followed == after || (followed | after == 0xffff && followed & after == 0));
        }

        #[test]
        fn an_updated_crc_is_the_one_computed_anew(
            mut bytes in proptest::collection::vec(any::<u8>(), 4..100),
            new in any::<[u8; 4]>(),
        ) {
            let before = crc32c(&bytes);
            let old: [u8; 4] = bytes[..4].try_into().unwrap();
            bytes[..4].copy_from_slice(&new);
            prop_assert_eq!(sctp_updated(before, old, new, bytes.len()), crc32c(&bytes));
        }
    }
}
