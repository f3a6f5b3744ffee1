//! Relation between the key that a device uses and the configured key.

use super::fit::Fit;
use super::samples::KindSamples;
use crate::key::Key;
use crate::toeplitz::Toeplitz;
use serde::{Serialize, Serializer};
use std::fmt;

/// How a device uses its configured key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Unchanged.
    Same,
    /// Its bytes in reverse order: older ENA devices.
    BytesReversed,
    /// Preceded by this many zero bytes, its last bytes lost: virtio_net of some kernels, by one.
    ShiftedLater(usize),
    /// This many of its first bytes lost, zeros appended.
    ShiftedEarlier(usize),
    /// The bytes of each 32-bit word in reverse order.
    WordBytesReversed,
    /// Its 32-bit words in reverse order.
    WordsReversed,
    /// The bits of each byte in reverse order.
    BitsReversed,
    /// None of these relations.
    Other,
}

impl Relation {
    /// The key that the device uses under this relation; none for [`Relation::Other`].
    #[must_use]
    pub fn applied(self, given: &Key) -> Option<Key> {
        let bytes = given.as_bytes();
        let zeros = |count: usize| std::iter::repeat_n(0, count);
        let words = bytes.chunks(4);
        let made: Vec<u8> = match self {
            Relation::Same => bytes.to_vec(),
            Relation::BytesReversed => bytes.iter().rev().copied().collect(),
            Relation::ShiftedLater(by) => zeros(by).chain(bytes.iter().copied()).take(bytes.len()).collect(),
            Relation::ShiftedEarlier(by) => bytes.iter().copied().skip(by).chain(zeros(by)).collect(),
            Relation::WordBytesReversed => words.flat_map(|word| word.iter().rev()).copied().collect(),
            Relation::WordsReversed => words.rev().flatten().copied().collect(),
            Relation::BitsReversed => bytes.iter().map(|byte| byte.reverse_bits()).collect(),
            Relation::Other => return None,
        };
        Key::from_bytes(&made).ok()
    }

    /// Every relation that is tried, the likeliest first.
    pub(super) fn tried() -> impl Iterator<Item = Relation> {
        let shifts =
            (1..=MOST_SHIFTED).flat_map(|by| [Relation::ShiftedLater(by), Relation::ShiftedEarlier(by)]);
        let rest = [
            Relation::WordBytesReversed,
            Relation::WordsReversed,
            Relation::BitsReversed,
        ];
        [Relation::Same, Relation::BytesReversed]
            .into_iter()
            .chain(shifts)
            .chain(rest)
    }
}

/// Shifts by more than a word are not known to occur.
const MOST_SHIFTED: usize = 4;

/// Samples of a kind by which a relation is checked: a wrong one passes the first two once in 2^32.
const CHECKED: usize = 1000;

/// The relation between the samples and a configured key: the hashes of the related key differ from those of the
/// samples only by a constant per kind.
pub(super) fn of(given: &Key, kinds: &[(&KindSamples, &Fit)]) -> Option<Relation> {
    if kinds.is_empty() {
        return None;
    }
    let fits = |relation: &Relation| {
        let key = relation.applied(given);
        let toeplitz = key.map(|key| Toeplitz::new(&key));
        toeplitz.is_some_and(|toeplitz| {
            kinds
                .iter()
                .all(|(samples, fit)| is_constant(&toeplitz, samples, fit))
        })
    };
    Some(Relation::tried().find(fits).unwrap_or(Relation::Other))
}

fn is_constant(toeplitz: &Toeplitz, samples: &KindSamples, fit: &Fit) -> bool {
    let checked = samples.observations.iter().take(CHECKED);
    let hash = |input| fit.model.hash(toeplitz, input, samples.kind.family);
    let mut differences = checked.map(|one| (hash(&one.input) ^ one.hash) & samples.known);
    let first = differences.next();
    differences.all(|other| Some(other) == first)
}

impl fmt::Display for Relation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Relation::Same => formatter.write_str("same"),
            Relation::BytesReversed => formatter.write_str("bytes-reversed"),
            Relation::ShiftedLater(by) => write!(formatter, "shifted-later-{by}"),
            Relation::ShiftedEarlier(by) => write!(formatter, "shifted-earlier-{by}"),
            Relation::WordBytesReversed => formatter.write_str("word-bytes-reversed"),
            Relation::WordsReversed => formatter.write_str("words-reversed"),
            Relation::BitsReversed => formatter.write_str("bits-reversed"),
            Relation::Other => formatter.write_str("other"),
        }
    }
}

impl Serialize for Relation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
