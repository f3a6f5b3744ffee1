//! Common parts of the generators' payloads: the fill, and the check over fill and header.
//!
//! The check covers the fill first because the fill is constant: its CRC state is computed once per payload size, and
//! writing a payload only hashes its header.

use crc32fast::Hasher;
use thiserror::Error;

/// Bytes of the check, at the start of each header.
const CHECK_BYTES: usize = 4;

/// Why bytes are not an intact payload of corelane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PayloadError {
    /// Shorter than the header.
    #[error("{0} bytes are too few for the header")]
    Short(usize),
    /// The check does not match: the payload was modified, or has another origin.
    #[error("the check does not match: the payload was changed, or is not the generator's")]
    Changed,
}

/// A range of the fill: byte *i* of the payload is `i * 197 + 89`, modulo 256.
pub(crate) fn fill(range: std::ops::Range<usize>) -> Vec<u8> {
    range
        .map(|index| (index as u8).wrapping_mul(197).wrapping_add(89))
        .collect()
}

/// The CRC state after this fill.
pub(crate) fn after(fill: &[u8]) -> Hasher {
    let mut hasher = Hasher::new();
    hasher.update(fill);
    hasher
}

/// Writes the check into a header that is otherwise complete.
pub(crate) fn seal(mut after_fill: Hasher, header: &mut [u8]) {
    let (check, rest) = header.split_at_mut(CHECK_BYTES);
    after_fill.update(rest);
    check.copy_from_slice(&after_fill.finalize().to_be_bytes());
}

/// The header of a payload, if its check matches.
pub(crate) fn open<const HEADER: usize>(payload: &[u8]) -> Result<&[u8; HEADER], PayloadError> {
    let (header, fill) = payload
        .split_first_chunk::<HEADER>()
        .ok_or(PayloadError::Short(payload.len()))?;
    let (check, rest) = header.split_at(CHECK_BYTES);
    let mut hasher = after(fill);
    hasher.update(rest);
    if hasher.finalize().to_be_bytes() == check {
        Ok(header)
    } else {
        Err(PayloadError::Changed)
    }
}
