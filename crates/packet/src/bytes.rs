//! Reads fixed-size fields at an offset of a slice.

/// `None` if the slice is too short.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The number of two bytes in network order at `at`.
#[inline]
pub(crate) fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_be_bytes)
}

/// The number of four bytes in network order at `at`.
#[inline]
pub(crate) fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_be_bytes)
}
