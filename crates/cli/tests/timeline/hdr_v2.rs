//! Reads the V2 form of HdrHistogram from its description alone, so that the crate that writes it does not judge itself.
//!
//! All numbers are big-endian. Deflated: a cookie, the length of what follows, and a zlib stream of the plain form. Plain:
//! 40 bytes of header (cookie, length of the counts in bytes, index offset, significant digits, lowest and highest value,
//! ratio), and the counts as ZigZag LEB128 numbers, of which a negative one is a run of zeros.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read as _;

/// Of version 2, with counts of up to nine bytes each.
const DEFLATED: u32 = 0x1c84_9314;
const PLAIN: u32 = 0x1c84_9313;

/// Counts by the largest value that is recorded as the same.
#[derive(Debug, Default, PartialEq)]
pub struct Decoded(BTreeMap<u64, u64>);

impl Decoded {
    /// The histogram of a line or a document.
    pub fn of(histogram: &Value) -> Self {
        let text = histogram["hdr_v2_base64"].as_str().expect("base64");
        let bytes = BASE64.decode(text).unwrap();
        let (header, body) = bytes.split_at(8);
        assert_eq!(
            (be(&header[..4]), be(&header[4..])),
            (u64::from(DEFLATED), body.len() as u64)
        );
        let mut plain = Vec::new();
        ZlibDecoder::new(body).read_to_end(&mut plain).unwrap();
        Self::plain(&plain)
    }

    fn plain(bytes: &[u8]) -> Self {
        let (header, mut counts) = bytes.split_at(40);
        let word = |at: usize| be(&header[at..at + 4]);
        let long = |at: usize| be(&header[at..at + 8]);
        assert_eq!((word(0), word(4)), (u64::from(PLAIN), counts.len() as u64));
        let (offset, ratio) = (word(8), f64::from_bits(long(32)));
        assert_eq!((offset, ratio), (0, 1.0));
        // So many cells of one unit make the digits significant: a power of two.
        let unit_cells = (2 * 10u64.pow(word(12) as u32)).next_power_of_two();
        let unit = long(16).ilog2();
        let mut decoded = Self::default();
        let mut index = 0;
        while !counts.is_empty() {
            match zigzag(&mut counts) {
                zeros @ ..0 => index += zeros.unsigned_abs(),
                count => {
                    if count > 0 {
                        let value = largest(index, unit_cells, unit);
                        decoded.0.insert(value, count as u64);
                    }
                    index += 1;
                }
            }
        }
        decoded
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// The value that this share of all values does not exceed; 0 without any.
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = (percent / 100.0 * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reaches = |(_, count): &(&u64, &u64)| {
            seen += **count;
            seen >= rank
        };
        self.0.iter().find(reaches).map_or(0, |(value, _)| *value)
    }

    pub fn add(&mut self, other: &Self) {
        for (value, count) in &other.0 {
            *self.0.entry(*value).or_default() += count;
        }
    }
}

fn be(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The next number: seven bits per byte from the lowest, eight in a ninth; a set top bit says that another follows.
fn zigzag(bytes: &mut &[u8]) -> i64 {
    let mut number = 0;
    for place in 0..9 {
        let (byte, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        let bits = if place == 8 { *byte } else { byte & 0x7f };
        number |= u64::from(bits) << (7 * place);
        if byte & 0x80 == 0 {
            break;
        }
    }
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// The largest value of a cell: the first `unit_cells` cells are one unit wide, and each further half as many cells are
/// twice as wide as those before.
fn largest(index: u64, unit_cells: u64, unit: u32) -> u64 {
    let half = unit_cells / 2;
    let doubled = (index / half).saturating_sub(1);
    let width = 1 << (unit + doubled as u32);
    (index - doubled * half + 1) * width - 1
}

#[test]
fn numbers_and_cells_are_those_of_the_description() {
    let mut bytes: &[u8] = &[0x00, 0x01, 0x02, 0x7e, 0x80, 0x01, 0xff, 0x01];
    let numbers: Vec<i64> = std::iter::from_fn(|| (!bytes.is_empty()).then(|| zigzag(&mut bytes))).collect();
    assert_eq!(numbers, [0, -1, 1, 63, 64, -128]);
    let mut longest: &[u8] = &[0xff; 9];
    assert_eq!(zigzag(&mut longest), i64::MIN);
    let cells = [0, 2047, 2048, 3071, 3072].map(|index| largest(index, 2048, 0));
    assert_eq!(cells, [0, 2047, 2049, 4095, 4099]);
}
