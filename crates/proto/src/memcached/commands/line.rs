//! Writes answers.

use crate::memcached::base64;
use crate::memcached::number::Decimal;

/// Where answers go.
pub trait Output {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Appends pieces, one behind the other.
    #[inline]
    fn put_all<const PIECES: usize>(&mut self, pieces: [&[u8]; PIECES]) {
        pieces.iter().for_each(|piece| self.put(piece));
    }
}

impl Output for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Where answers go that are not sent.
pub struct Nowhere;

impl Output for Nowhere {
    fn put(&mut self, _: &[u8]) {}
}

/// Writes a line, unless no answer is wanted.
pub fn put_unless(quiet: bool, line: &str, out: &mut impl Output) {
    if !quiet {
        out.put(line.as_bytes());
    }
}

/// Writes a number.
pub fn put_number(number: u64, out: &mut impl Output) {
    out.put(Decimal::new(number).bytes());
}

/// Writes a returned flag with its number.
pub fn put_flag(flag: &str, number: u64, out: &mut impl Output) {
    out.put(flag.as_bytes());
    put_number(number, out);
}

/// Writes the flag `k` with a key, which is encoded if it is binary.
pub fn put_key(key: &[u8], binary: bool, out: &mut impl Output) {
    out.put(b" k");
    if binary {
        put_base64(key, out);
        out.put(b" b");
    } else {
        out.put(key);
    }
}

/// Writes bytes as base64.
pub fn put_base64(bytes: &[u8], out: &mut impl Output) {
    bytes
        .chunks(3)
        .for_each(|block| out.put(&base64::encode_block(block)));
}
