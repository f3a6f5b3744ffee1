//! `probe`: the payload of the UDP generator, from which lost, duplicated, reordered and corrupted answers are
//! distinguished.
//!
//! In: a length, a sequence number and a send time. Out: the bytes of one datagram. For received answers: parses the
//! bytes into a [`Probe`]; a [`Sequence`] per flow classifies its arrival.
//!
//! Layout in network byte order: 16 bytes, then the fill:
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 4 | check: CRC-32 (IEEE 802.3) over the fill, then over bytes 4 to 15 |
//! | 4 | 4 | sequence number within the flow, from 0, wrapping |
//! | 8 | 8 | intended send time, nanoseconds of the sender's monotonic clock |
//! | 16 | rest | fill: byte *i* of the payload is `i * 197 + 89`, modulo 256 |

use crate::payload;
pub use crate::payload::PayloadError;
use crc32fast::Hasher;
use thiserror::Error;

/// Bytes of the probe header; equals the smallest payload.
pub const HEADER_BYTES: usize = 16;

/// The largest payload of a UDP datagram over IPv4: 65,535 minus 20 bytes of IP and 8 of UDP header (RFC 768, RFC 791).
pub const LARGEST_PAYLOAD_BYTES: usize = 65_507;

/// Invalid payload size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("payload of {0} bytes: a probe takes {HEADER_BYTES} to {LARGEST_PAYLOAD_BYTES}")]
pub struct SizeError(pub usize);

/// Writes probes of one payload size.
#[derive(Debug, Clone)]
pub struct Stamp {
    template: Vec<u8>,
    after_fill: Hasher,
}

impl Stamp {
    /// A writer for payloads of `length` bytes.
    ///
    /// # Errors
    /// If `length` is below [`HEADER_BYTES`] or above [`LARGEST_PAYLOAD_BYTES`].
    pub fn new(length: usize) -> Result<Self, SizeError> {
        if !(HEADER_BYTES..=LARGEST_PAYLOAD_BYTES).contains(&length) {
            return Err(SizeError(length));
        }
        let template = payload::fill(0..length);
        let after_fill = payload::after(&template[HEADER_BYTES..]);
        Ok(Self { template, after_fill })
    }

    /// Bytes per payload.
    #[must_use]
    pub fn length(&self) -> usize {
        self.template.len()
    }

    /// Writes one probe into `payload`, which must be [`length`](Self::length) bytes long.
    ///
    /// # Panics
    /// If `payload` has a different length.
    pub fn write(&self, payload: &mut [u8], sequence: u32, time: u64) {
        payload.copy_from_slice(&self.template);
        payload[4..8].copy_from_slice(&sequence.to_be_bytes());
        payload[8..16].copy_from_slice(&time.to_be_bytes());
        payload::seal(self.after_fill.clone(), &mut payload[..HEADER_BYTES]);
    }
}

/// The contents of an intact probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Sequence number within the flow.
    pub sequence: u32,
    /// Intended send time, nanoseconds of the sender's monotonic clock.
    pub time: u64,
}

impl Probe {
    /// Parses and checks a payload.
    ///
    /// # Errors
    /// [`PayloadError::Short`] below 16 bytes, [`PayloadError::Changed`] if the check fails.
    pub fn read(payload: &[u8]) -> Result<Self, PayloadError> {
        let [_, _, _, _, s0, s1, s2, s3, time @ ..] = *payload::open::<HEADER_BYTES>(payload)?;
        Ok(Self {
            sequence: u32::from_be_bytes([s0, s1, s2, s3]),
            time: u64::from_be_bytes(time),
        })
    }
}

/// Classification of an arriving sequence number within its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Newer than all before it.
    InOrder,
    /// First arrival, after a newer one.
    Reordered,
    /// Arrived before.
    Duplicate,
    /// So far behind the newest that first arrivals and duplicates can no longer be distinguished.
    TooLate,
    /// Never sent: beyond the newest sequence number sent.
    Unsent,
}

/// Number of sequence numbers behind the newest that a [`Sequence`] remembers. It limits how far an answer may be
/// overtaken and still be distinguished from a duplicate; 512 is twice the largest window that the scaling lab uses per
/// flow.
pub const REMEMBERED: u32 = 512;
const WORDS: usize = (REMEMBERED / 64) as usize;

/// The sequence numbers of one flow that have arrived. 72 bytes, so that a generator can keep one per socket.
#[derive(Debug, Clone, Default)]
pub struct Sequence {
    /// One past the newest sequence number that arrived; 0 initially.
    end: u32,
    /// Bit `s % REMEMBERED` is set if `s` has arrived, for the `REMEMBERED` numbers before `end`.
    seen: [u64; WORDS],
}

impl Sequence {
    /// One past the newest sequence number that arrived.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.end
    }

    /// Whether `sequence`, one of the [`REMEMBERED`] numbers before the end, has arrived.
    #[must_use]
    pub fn has_arrived(&self, sequence: u32) -> bool {
        self.is_set(sequence)
    }

    /// Records the arrival of `sequence`, when `sent` numbers (from 0) have been sent.
    ///
    /// Numbers are compared as distances, so a flow may wrap past 2^32 datagrams.
    pub fn arrive(&mut self, sequence: u32, sent: u32) -> Arrival {
        let ahead = sequence.wrapping_sub(self.end);
        let unanswered = sent.wrapping_sub(self.end);
        if ahead < unanswered {
            self.forget(ahead);
            self.set(sequence);
            self.end = sequence.wrapping_add(1);
            return Arrival::InOrder;
        }
        let behind = self.end.wrapping_sub(sequence);
        if behind == 0 || behind > u32::MAX / 2 {
            Arrival::Unsent
        } else if behind > REMEMBERED {
            Arrival::TooLate
        } else if self.is_set(sequence) {
            Arrival::Duplicate
        } else {
            self.set(sequence);
            Arrival::Reordered
        }
    }

    /// Clears the bits of the `skipped` numbers from `end` on, and of the one after them.
    fn forget(&mut self, skipped: u32) {
        if skipped >= REMEMBERED {
            self.seen = [0; WORDS];
            return;
        }
        for offset in 0..=skipped {
            let (word, bit) = Self::place(self.end.wrapping_add(offset));
            self.seen[word] &= !bit;
        }
    }

    fn set(&mut self, sequence: u32) {
        let (word, bit) = Self::place(sequence);
        self.seen[word] |= bit;
    }

    fn is_set(&self, sequence: u32) -> bool {
        let (word, bit) = Self::place(sequence);
        self.seen[word] & bit != 0
    }

    fn place(sequence: u32) -> (usize, u64) {
        let index = sequence % REMEMBERED;
        ((index / 64) as usize, 1 << (index % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn sizes_outside_a_datagram_are_refused() {
        assert_eq!(Stamp::new(15).unwrap_err(), SizeError(15));
        assert_eq!(Stamp::new(65_508).unwrap_err(), SizeError(65_508));
        assert!(Stamp::new(16).is_ok() && Stamp::new(65_507).is_ok());
    }

    #[test]
    fn a_short_answer_is_told_from_a_corrupted_one() {
        assert_eq!(Probe::read(&[0; 15]), Err(PayloadError::Short(15)));
        assert_eq!(Probe::read(&[0xff; 16]), Err(PayloadError::Changed));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back(length in 16usize..2000, sequence: u32, time: u64) {
            let stamp = Stamp::new(length).unwrap();
            let mut payload = vec![0; length];
            stamp.write(&mut payload, sequence, time);
            prop_assert_eq!(Probe::read(&payload), Ok(Probe { sequence, time }));
        }

        #[test]
        fn any_changed_bit_is_noticed(length in 16usize..600, bit: prop::sample::Index) {
            let mut payload = vec![0; length];
            Stamp::new(length).unwrap().write(&mut payload, 7, 9);
            let bit = bit.index(length * 8);
            payload[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Probe::read(&payload), Err(PayloadError::Changed));
        }

        #[test]
        fn arrivals_are_classified_as_a_set_would(
            start in prop::sample::select(vec![0u32, 1000, u32::MAX - 300]),
            offsets in prop::collection::vec(0u32..400, 1..600),
        ) {
            let mut flow = Sequence { end: start, ..Sequence::default() };
            let sent = start.wrapping_add(400);
            let mut seen = HashSet::new();
            let mut newest = None;
            for offset in offsets {
                let expected = if !seen.insert(offset) {
                    Arrival::Duplicate
                } else if newest.is_none_or(|newest| offset > newest) {
                    Arrival::InOrder
                } else {
                    Arrival::Reordered
                };
                newest = newest.max(Some(offset));
                prop_assert_eq!(flow.arrive(start.wrapping_add(offset), sent), expected);
            }
        }
    }

    #[test]
    fn what_never_left_and_what_is_long_past_have_names_of_their_own() {
        let mut flow = Sequence::default();
        assert_eq!(flow.arrive(5, 5), Arrival::Unsent);
        assert_eq!(flow.arrive(4999, 5000), Arrival::InOrder);
        assert_eq!(flow.arrive(4999 - REMEMBERED, 5000), Arrival::TooLate);
        assert_eq!(flow.arrive(5000 - REMEMBERED, 5000), Arrival::Reordered);
        assert_eq!(flow.arrive(5000, 5000), Arrival::Unsent);
    }
}
