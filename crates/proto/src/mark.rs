//! `mark`: the payload of generated packets, from which a receiver without other information detects loss, duplication,
//! reordering and corruption, and measures latency.
//!
//! In: a stream (one queue of a generator), a sequence number within it, a time. Out: the bytes of one payload; and
//! back. Smaller than a [`probe`](crate::probe) plus stream number, so that it fits an IPv4 frame of 60 bytes, the
//! shortest of Ethernet without frame check sequence.
//!
//! Layout in network byte order: 18 bytes, then the fill:
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 4 | check: CRC-32 (IEEE 802.3) over the fill, then over bytes 4 to 17 |
//! | 4 | 2 | stream |
//! | 6 | 4 | sequence number within the stream, from 0, wrapping |
//! | 10 | 8 | intended send time, nanoseconds of the sender's monotonic clock |
//! | 18 | rest | fill: byte *i* of the payload is `i * 197 + 89`, modulo 256 |

use crate::payload;
pub use crate::payload::PayloadError;
use crc32fast::Hasher;

/// Bytes of a mark; equals the shortest payload.
pub const MARK_BYTES: usize = 18;

/// The contents of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The queue of the generator that sent it.
    pub stream: u16,
    /// Number of the packet within its stream, from 0, wrapping.
    pub sequence: u32,
    /// Intended send time, nanoseconds of the sender's monotonic clock.
    pub time: u64,
}

/// Writes marks into payloads of one length that already contain the fill.
#[derive(Debug, Clone)]
pub struct Marker {
    after_fill: Hasher,
}

impl Marker {
    /// A writer for payloads with this many bytes after the mark.
    #[must_use]
    pub fn new(fill_bytes: usize) -> Marker {
        Marker {
            after_fill: payload::after(&fill(fill_bytes)),
        }
    }

    /// The bytes of a mark.
    #[must_use]
    pub fn write(&self, mark: Mark) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[4..6].copy_from_slice(&mark.stream.to_be_bytes());
        bytes[6..10].copy_from_slice(&mark.sequence.to_be_bytes());
        bytes[10..].copy_from_slice(&mark.time.to_be_bytes());
        payload::seal(self.after_fill.clone(), &mut bytes);
        bytes
    }
}

/// The fill of a payload with this many bytes after the mark.
#[must_use]
pub fn fill(bytes: usize) -> Vec<u8> {
    payload::fill(MARK_BYTES..MARK_BYTES + bytes)
}

impl Mark {
    /// Parses and checks a payload.
    ///
    /// # Errors
    /// [`PayloadError::Short`] below 18 bytes, [`PayloadError::Changed`] if the check fails.
    pub fn read(payload: &[u8]) -> Result<Mark, PayloadError> {
        let [_, _, _, _, m0, m1, s0, s1, s2, s3, time @ ..] = *payload::open::<MARK_BYTES>(payload)?;
        Ok(Mark {
            stream: u16::from_be_bytes([m0, m1]),
            sequence: u32::from_be_bytes([s0, s1, s2, s3]),
            time: u64::from_be_bytes(time),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read_back_and_any_changed_bit_is_noticed(
            fill_bytes in 0usize..600, stream: u16, sequence: u32, time: u64, bit: prop::sample::Index,
        ) {
            let mark = Mark { stream, sequence, time };
            let mut payload = Marker::new(fill_bytes).write(mark).to_vec();
            payload.extend(fill(fill_bytes));
            prop_assert_eq!(Mark::read(&payload), Ok(mark));
            let bit = bit.index(payload.len() * 8);
            payload[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Mark::read(&payload), Err(PayloadError::Changed));
        }
    }

    #[test]
    fn what_is_too_short_is_no_mark() {
        assert_eq!(Mark::read(&[0; 17]), Err(PayloadError::Short(17)));
    }
}
