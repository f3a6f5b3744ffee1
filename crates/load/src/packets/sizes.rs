//! Frame sizes: one, a range, or IMIX. Parses text; returns the size of each frame.
//!
//! Sizes count bytes from the destination address on, without the frame check sequence: 60 up to the link's maximum.

use serde::{Deserialize, Serialize};
use std::str::FromStr;
use thiserror::Error;

/// The shortest Ethernet frame, without frame check sequence (IEEE 802.3: 64 bytes with it).
pub const SHORTEST: usize = 60;
/// The longest frame that any link accepts: 64 KiB of packet plus the header.
const LONGEST: usize = 65_549;

/// The sizes of the frames to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// One size.
    One {
        /// Bytes.
        bytes: usize,
    },
    /// Random sizes in a range, all equally likely.
    Range {
        /// Bytes of the shortest.
        first: usize,
        /// Bytes of the longest.
        last: usize,
    },
    /// Seven frames of 60 bytes, four of 590 and one of 1514, in turn: IP packets of 40, 576 and 1500 bytes, the usual
    /// mix according to RFC 6985 (section 5).
    Imix,
}

/// Invalid frame size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not a frame size: use bytes from {SHORTEST} to {LONGEST} (without check sequence), FIRST-LAST, or imix"
)]
pub struct SizesError(String);

impl Sizes {
    /// Bytes of the longest frame.
    #[must_use]
    pub fn longest(self) -> usize {
        match self {
            Sizes::One { bytes } => bytes,
            Sizes::Range { last, .. } => last,
            Sizes::Imix => 1514,
        }
    }

    /// Bytes of frame `number`.
    pub(super) fn of(self, number: u64, draws: &mut fastrand::Rng) -> usize {
        match self {
            Sizes::One { bytes } => bytes,
            Sizes::Range { first, last } => draws.usize(first..=last),
            // Interleaved, so that a short run also has the mix.
            Sizes::Imix => [60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 60, 590][(number % 12) as usize],
        }
    }
}

impl FromStr for Sizes {
    type Err = SizesError;

    fn from_str(text: &str) -> Result<Sizes, SizesError> {
        if text.eq_ignore_ascii_case("imix") {
            return Ok(Sizes::Imix);
        }
        let bytes = |text: &str| {
            text.trim()
                .parse()
                .ok()
                .filter(|bytes| (SHORTEST..=LONGEST).contains(bytes))
        };
        let sizes = match text.split_once('-') {
            None => bytes(text).map(|bytes| Sizes::One { bytes }),
            Some((first, last)) => bytes(first)
                .zip(bytes(last))
                .filter(|(first, last)| first <= last)
                .map(|(first, last)| Sizes::Range { first, last }),
        };
        sizes.ok_or_else(|| SizesError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_written_and_refused_out_of_bounds() {
        for (text, sizes) in [
            ("60", Sizes::One { bytes: 60 }),
            (
                "60-1514",
                Sizes::Range {
                    first: 60,
                    last: 1_514,
                },
            ),
            ("imix", Sizes::Imix),
        ] {
            assert_eq!(text.parse(), Ok(sizes));
        }
        for text in ["59", "1514-60", "65550", "small", "60-", ""] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_mix_is_seven_four_and_one_in_twelve() {
        let mut draws = fastrand::Rng::with_seed(1);
        let mut sizes: Vec<usize> = (0..12).map(|number| Sizes::Imix.of(number, &mut draws)).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [60, 60, 60, 60, 60, 60, 60, 590, 590, 590, 590, 1514]);
    }
}
