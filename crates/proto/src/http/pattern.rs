//! The pattern of generated bodies, which a server of objects sends and its client checks.
//!
//! In: an offset in a body. Out: the byte at that offset, or whether bytes match the pattern. The period is a prime, so
//! that data displaced by any power of two is detected.

use std::sync::LazyLock;

/// The period of the pattern in bytes.
pub const PERIOD: usize = 61;

/// Bytes of the pattern in one piece: a few hundred pieces per gigabyte, small enough for the second-level cache. A
/// multiple of the period.
pub const BLOCK: usize = PERIOD * 4_096;

/// The byte at an offset of a body: a digit or letter.
#[must_use]
pub fn byte(offset: u64) -> u8 {
    const CHARACTERS: &[u8; PERIOD] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXY";
    CHARACTERS[(offset % PERIOD as u64) as usize]
}

/// Whether bytes at an offset of a body match the pattern.
#[must_use]
pub fn matches(mut offset: u64, bytes: &[u8]) -> bool {
    bytes.chunks(BLOCK).all(|part| {
        let phase = (offset % PERIOD as u64) as usize;
        offset += part.len() as u64;
        part == &REPEATED[phase..phase + part.len()]
    })
}

/// Up to `length` bytes of the pattern from an offset on, at most one block.
#[must_use]
pub fn piece(offset: u64, length: u64) -> &'static [u8] {
    let phase = (offset % PERIOD as u64) as usize;
    let length = usize::try_from(length).map_or(BLOCK, |length| length.min(BLOCK));
    let repeated: &'static [u8] = &REPEATED;
    &repeated[phase..phase + length]
}

/// The pattern repeated, so that a block is available at any phase.
static REPEATED: LazyLock<Box<[u8]>> = LazyLock::new(|| (0..(BLOCK + PERIOD) as u64).map(byte).collect());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_matches_where_it_belongs_and_nowhere_else() {
        let body: Vec<u8> = (0..600_000).map(byte).collect();
        assert!(matches(0, &body));
        for shift in [1, 2, 4, 64, 4_096, 65_536] {
            assert!(!matches(shift, &body), "shifted by {shift}");
            assert!(matches(shift, &body[shift as usize..]));
        }
        let mut corrupted = body.clone();
        corrupted[599_999] ^= 1;
        assert!(!matches(0, &corrupted));
    }

    #[test]
    fn pieces_follow_each_other() {
        let mut body = Vec::new();
        while body.len() < 600_000 {
            let offset = body.len() as u64;
            body.extend_from_slice(piece(offset, 600_000 - offset));
        }
        assert!(body.len() == 600_000 && matches(0, &body));
    }
}
