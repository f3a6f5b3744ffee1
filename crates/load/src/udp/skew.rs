//! Traffic skew among the flows of a generator: names used in documents and flags.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How traffic is shared among flows. Written `none`, `elephant:0.5`, `zipf:1.1`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Skew {
    /// Equal shares.
    #[default]
    None,
    /// One flow has the given share of the traffic; the others share the rest equally.
    Elephant {
        /// Above 0 and below 1.
        share: f64,
    },
    /// The share of the *k*-th largest flow is proportional to *k* to the power of minus the exponent.
    Zipf {
        /// Above 0, at most [`Skew::LARGEST_EXPONENT`].
        exponent: f64,
    },
}

impl Skew {
    /// The largest accepted exponent: beyond it, all but a few flows get nothing.
    pub const LARGEST_EXPONENT: f64 = 10.0;

    /// The shares of `flows` flows, largest first, which sum to 1; `None` for equal shares.
    #[must_use]
    pub fn shares(self, flows: usize) -> Option<Vec<f64>> {
        let weights: Vec<f64> = match self {
            Self::None => return None,
            Self::Elephant { share } => {
                let small = (1.0 - share) / flows.saturating_sub(1).max(1) as f64;
                (0..flows)
                    .map(|rank| if rank == 0 { share } else { small })
                    .collect()
            }
            Self::Zipf { exponent } => (1..=flows).map(|rank| (rank as f64).powf(-exponent)).collect(),
        };
        let sum: f64 = weights.iter().sum();
        Some(weights.into_iter().map(|weight| weight / sum).collect())
    }
}

/// Invalid skew.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not a skew: write none, elephant:0.5 (a share above 0 and below 1) or zipf:1.1 (an exponent above 0, at most 10)"
)]
pub struct UnknownSkew(String);

impl FromStr for Skew {
    type Err = UnknownSkew;

    fn from_str(text: &str) -> Result<Self, UnknownSkew> {
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number > 0.0);
        let skew = match text.split_once(':') {
            None if text == "none" => Some(Self::None),
            Some(("elephant", share)) => number(share)
                .filter(|share| *share < 1.0)
                .map(|share| Self::Elephant { share }),
            Some(("zipf", exponent)) => number(exponent)
                .filter(|exponent| *exponent <= Self::LARGEST_EXPONENT)
                .map(|exponent| Self::Zipf { exponent }),
            _ => None,
        };
        skew.ok_or_else(|| UnknownSkew(text.to_owned()))
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("none"),
            Self::Elephant { share } => write!(formatter, "elephant:{share}"),
            Self::Zipf { exponent } => write!(formatter, "zipf:{exponent}"),
        }
    }
}

impl From<Skew> for String {
    fn from(skew: Skew) -> Self {
        skew.to_string()
    }
}

impl TryFrom<String> for Skew {
    type Error = UnknownSkew;

    fn try_from(text: String) -> Result<Self, UnknownSkew> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skew_is_read_as_it_is_written() {
        for text in ["none", "elephant:0.5", "zipf:1.1", "zipf:1"] {
            assert_eq!(text.parse::<Skew>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "elephant",
            "elephant:1",
            "elephant:0",
            "zipf:-1",
            "zipf:11",
            "zipf:NaN",
            "mouse:1",
        ] {
            assert_eq!(text.parse::<Skew>(), Err(UnknownSkew(text.to_owned())));
        }
    }

    #[test]
    fn shares_are_largest_first_and_together_everything() {
        assert_eq!(Skew::None.shares(4), None);
        let tenths = |shares: Vec<f64>| {
            shares
                .iter()
                .map(|share| (share * 10.0).round() as u32)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            tenths(Skew::Elephant { share: 0.7 }.shares(4).unwrap()),
            [7, 1, 1, 1]
        );
        let zipf = Skew::Zipf { exponent: 1.0 }.shares(3).unwrap();
        assert_eq!(
            zipf.iter()
                .map(|share| (share * 11.0).round() as u32)
                .collect::<Vec<_>>(),
            [6, 3, 2]
        );
        for skew in ["elephant:0.9", "zipf:2"] {
            for flows in [1, 2, 100] {
                let shares = skew.parse::<Skew>().unwrap().shares(flows).unwrap();
                assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                assert!(shares.is_sorted_by(|one, next| one >= next), "{skew}: {shares:?}");
            }
        }
    }
}
