//! What is appended and prepended to values: parts that name who wrote them, and what is known about those of a key.
//!
//! A part has 16 bytes: its run, its version, and a word that depends on them, on the key and on the side. Versions are those of writes
//! (`ledger`). A part that was begun when no write of its key was in flight, and was stored, must be in every value that is read
//! afterwards, unless the value was written later.

use super::mixing::mix;
use super::value::{HEAD, Origin};
use corelane_proto::memcached::client::Content;

/// Where a part is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Before the value.
    Front,
    /// Behind it.
    Back,
}

/// A part to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) origin: Origin,
    pub(super) side: Side,
}

const BYTES: usize = 16;

/// Parts that are added to a value, at most; instead of one more, the value is stored anew. Requests that are in flight at the same
/// time can leave more.
const MOST: u32 = 8;

impl Part {
    fn bytes(self) -> u128 {
        let Origin { run, version, .. } = self.origin;
        let check = mix(self.origin.seed() ^ self.side as u64);
        u128::from(run) | (u128::from(version) << 32) | (u128::from(check) << 64)
    }

    /// The part that these bytes are, of a key with this number.
    fn read(bytes: [u8; BYTES], (number, side): (u64, Side)) -> Option<Self> {
        let bytes = u128::from_le_bytes(bytes);
        let (run, version) = (bytes as u32, (bytes >> 32) as u32);
        let origin = Origin { number, run, version };
        let part = Self { origin, side };
        (part.bytes() == bytes).then_some(part)
    }
}

impl Content for Part {
    fn length(&self) -> usize {
        BYTES
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes().to_le_bytes());
    }
}

/// A value as it was stored, between the parts that were added.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parted<'a> {
    front: &'a [u8],
    pub(super) stored: &'a [u8],
    back: &'a [u8],
}

impl<'a> Parted<'a> {
    /// A value without parts.
    pub(super) fn whole(stored: &'a [u8]) -> Self {
        Self {
            front: &[],
            stored,
            back: &[],
        }
    }

    /// Takes the parts off a value of this key.
    pub(super) fn of(number: u64, value: &'a [u8]) -> Self {
        let is_part = |bytes: &[u8; BYTES], side| Part::read(*bytes, (number, side)).is_some();
        let mut stored = value;
        while let Some((part, rest)) = stored.split_first_chunk()
            && is_part(part, Side::Front)
        {
            stored = rest;
        }
        let front = &value[..value.len() - stored.len()];
        while let Some((rest, part)) = stored.split_last_chunk()
            && is_part(part, Side::Back)
        {
            stored = rest;
        }
        Self {
            front,
            stored,
            back: &value[front.len() + stored.len()..],
        }
    }

    /// Run and version of each part.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u32, u32)> {
        let (front, back) = (self.front.as_chunks().0, self.back.as_chunks().0);
        front.iter().chain(back).map(|part: &[u8; BYTES]| {
            let bytes = u128::from_le_bytes(*part);
            (bytes as u32, (bytes >> 32) as u32)
        })
    }

    /// Whether the value as it was stored names who wrote it.
    pub(super) fn is_named(&self) -> bool {
        self.stored.len() >= HEAD
    }
}

/// A set of versions: of the last 64, whether each is in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Versions {
    newest: u32,
    bits: u64,
}

impl Versions {
    /// None, up to the newest version.
    pub(super) fn up_to(newest: u32) -> Self {
        Self { newest, bits: 0 }
    }

    /// Adds a version that is not newer; returns whether it was new here. Older ones than 64 always are.
    pub(super) fn insert(&mut self, version: u32) -> bool {
        let bit = 1u64.checked_shl(self.newest - version).unwrap_or(0);
        let is_new = self.bits & bit == 0;
        self.bits |= bit;
        is_new
    }

    /// Those above one version, up to another.
    fn between(self, above: u32, up_to: u32) -> u64 {
        let newer_than = |version: u32| {
            let places = self.newest.saturating_sub(version);
            1u64.checked_shl(places).map_or(u64::MAX, |bit| bit - 1)
        };
        newer_than(above) & !newer_than(up_to)
    }
}

/// What is known about the parts of a key's value.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Added {
    /// The last version that was added, alone.
    pub(super) last: u32,
    /// Which of it and the 31 versions before were; the lowest bit is the last.
    history: u32,
    /// How many more may be added: none before the first write of a run, so that runs do not add to each other's.
    left: u32,
}

impl Added {
    /// The value is to be stored anew.
    pub(super) fn reset(&mut self) {
        self.left = MOST;
    }

    /// Whether a part may be added.
    pub(super) fn has_room(&self) -> bool {
        self.left > 0
    }

    /// A part is to be added.
    pub(super) fn begin(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// A part was added that was begun when no write was in flight.
    pub(super) fn added_alone(&mut self, version: u32) {
        let older = self.history.checked_shl(version - self.last).unwrap_or(0);
        (self.last, self.history) = (version, older | 1);
    }

    /// Whether all parts are there that must be in a value of version `stored`, which was read when `last` was the last of them.
    pub(super) fn are_in(&self, found: Versions, stored: u32, last: u32) -> bool {
        let newer = found.newest - self.last;
        let known = u64::from(self.history).checked_shl(newer).unwrap_or(0);
        known & found.between(stored, last) & !found.bits == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: u64 = 77;

    fn added(value: &[u8], version: u32, side: Side) -> Vec<u8> {
        let origin = Origin {
            number: NUMBER,
            run: 5,
            version,
        };
        let mut part = Vec::new();
        Part { origin, side }.write(&mut part);
        match side {
            Side::Front => [&part, value].concat(),
            Side::Back => [value, &part].concat(),
        }
    }

    #[test]
    fn parts_are_taken_off_on_their_side_alone_and_only_of_their_key() {
        for stored in [&b""[..], b"short", b"a value of more than sixteen bytes"] {
            let mut value = stored.to_vec();
            for (version, side) in [
                (3, Side::Back),
                (4, Side::Front),
                (5, Side::Front),
                (6, Side::Back),
            ] {
                value = added(&value, version, side);
            }
            let parted = Parted::of(NUMBER, &value);
            assert_eq!(parted.stored, stored);
            let parts = parted.parts().collect::<Vec<_>>();
            assert_eq!(parts, [(5, 5), (5, 4), (5, 3), (5, 6)]);
            assert_eq!(Parted::of(NUMBER + 1, &value).stored, value);
            for place in (0..32).chain(value.len() - 32..value.len()) {
                value[place] ^= 1;
                assert_ne!(Parted::of(NUMBER, &value).stored, stored, "byte {place}");
                value[place] ^= 1;
            }
        }
        let wrong_side = added(&added(b"value", 3, Side::Back)[5..], 4, Side::Back);
        assert_eq!(Parted::of(NUMBER, &wrong_side).parts().count(), 2);
        assert_eq!(
            Parted::of(NUMBER, &[&wrong_side[..], b"value"].concat())
                .parts()
                .count(),
            0
        );
    }

    #[test]
    fn a_part_must_be_there_unless_the_value_is_newer_or_it_was_added_later() {
        let mut known = Added::default();
        for version in [3, 4, 7] {
            known.added_alone(version);
        }
        let are_in = |parts: &[u32], stored, last| {
            let mut found = Versions::up_to(9);
            assert!(parts.iter().all(|part| found.insert(*part)));
            known.are_in(found, stored, last)
        };
        assert!(are_in(&[3, 4, 7], 2, 7) && are_in(&[3, 4, 5, 7], 2, 7));
        assert!(!are_in(&[3, 4], 2, 7) && !are_in(&[4, 7], 2, 7) && !are_in(&[], 6, 7));
        assert!(
            are_in(&[], 7, 7) && are_in(&[7], 4, 7) && are_in(&[], 8, 7),
            "stored later"
        );
        assert!(are_in(&[3, 4], 2, 4) && !are_in(&[3], 2, 4), "added later");
        assert!(are_in(&[], 0, 0));
        let mut found = Versions::up_to(100);
        assert!(known.are_in(found, 0, 7), "too long ago to be known");
        assert!(found.insert(99) && !found.insert(99) && found.insert(3) && found.insert(3));
    }
}
