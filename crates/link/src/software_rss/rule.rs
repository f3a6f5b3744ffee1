//! The rule as `bpf/rss.h` lays it out. Input: a steering document. Output: the bytes of the map.

use corelane_rss::{HashFields, HashInput, IndirectionTable, Steering, Toeplitz};

/// The most entries of the table, and the place of the count of frames without a hash.
const ENTRIES: usize = IndirectionTable::LARGEST;
pub(super) const NOT_HASHED: u32 = ENTRIES as u32;

/// Places of the counts.
pub(super) const COUNTS: u32 = NOT_HASHED + 1;

/// Bits of the flags.
const PORTS: u32 = 1;
const INNER: u32 = 2;

/// Bytes of `struct rss_rule`.
pub(super) const BYTES: usize = (HashInput::LONGEST * 256 + 2 + ENTRIES) * size_of::<u32>();

/// The rule; the document's buckets have CPUs below 65,536.
pub(super) fn bytes(steering: &Steering, inner: bool) -> Vec<u8> {
    let toeplitz = Toeplitz::new(&steering.key);
    let contribution = |place: usize, byte: u8| {
        let mut input = [0; HashInput::LONGEST];
        input[place] = byte;
        toeplitz.hash_input(&input)
    };
    let contributions =
        (0..HashInput::LONGEST).flat_map(|place| (0..=u8::MAX).map(move |byte| (place, byte)));
    let ports = match steering.hash_fields {
        HashFields::TwoTuple => 0,
        HashFields::FourTuple => PORTS,
    };
    let flags = ports | if inner { INNER } else { 0 };
    let entries = steering.table.entries();
    let words = contributions
        .map(|(place, byte)| contribution(place, byte))
        .chain([entries.len() as u32, flags])
        .chain(entries.iter().map(|bucket| {
            let bucket = bucket.index();
            bucket as u32 | steering.cpus[bucket] << 16
        }));
    let mut bytes: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
    bytes.resize(BYTES, 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_these_numbers() {
        let header = include_str!("../../../../bpf/rss.h");
        for (name, number) in [
            ("RSS_INPUT", HashInput::LONGEST),
            ("RSS_ENTRIES", ENTRIES),
            ("RSS_PORTS", PORTS as usize),
            ("RSS_INNER", INNER as usize),
        ] {
            assert!(
                header.contains(&format!("#define {name} {number}\n")),
                "{name} {number}"
            );
        }
    }
}
