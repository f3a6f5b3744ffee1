//! Traffic skew among the flows of a generator: names used in documents and flags.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How traffic is shared among flows. Written `none`, `uniform`, `elephant:0.5`, `elephants:4:50%`, `zipf:1.1`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Skew {
    /// Flows take turns, or send as answers arrive.
    #[default]
    None,
    /// Equal shares.
    Uniform,
    /// One flow has the given share of the traffic; the others share the rest equally.
    Elephant {
        /// Above 0 and below 1.
        share: f64,
    },
    /// Some flows have the given share of the traffic; the others share the rest. Within both, flows are equal.
    Elephants {
        /// Number of elephants, at least 1.
        flows: usize,
        /// Their share together, above 0 and below 1.
        share: f64,
    },
    /// The share of the *k*-th largest flow is proportional to *k* to the power of minus the exponent.
    Zipf {
        /// From 0, which is uniform, to [`Skew::LARGEST_EXPONENT`].
        exponent: f64,
    },
}

impl Skew {
    /// The largest accepted exponent: beyond it, all but a few flows get nothing.
    pub const LARGEST_EXPONENT: f64 = 10.0;

    /// The shares of `flows` flows, largest first, which sum to 1; `None` without skew. If there are no more flows than
    /// elephants, all are equal.
    #[must_use]
    pub fn shares(self, flows: usize) -> Option<Vec<f64>> {
        let weight = |rank: usize| match self {
            Self::None | Self::Uniform => 1.0,
            Self::Elephant { share } if rank == 1 => share,
            Self::Elephant { share } => (1.0 - share) / (flows - 1) as f64,
            Self::Elephants { flows: many, share } if rank <= many => share / many as f64,
            Self::Elephants { flows: many, share } => (1.0 - share) / (flows - many) as f64,
            Self::Zipf { exponent } => (rank as f64).powf(-exponent),
        };
        let sum: f64 = (1..=flows).map(weight).sum();
        (self != Self::None).then(|| (1..=flows).map(|rank| weight(rank) / sum).collect())
    }
}

/// Invalid skew.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not a skew: write none, uniform, zipf:1.1 (an exponent from 0 to 10), elephant:0.5 or elephants:4:50% (a \
     share above 0 and below 1)"
)]
pub struct UnknownSkew(String);

impl FromStr for Skew {
    type Err = UnknownSkew;

    fn from_str(text: &str) -> Result<Self, UnknownSkew> {
        let number = |text: &str| text.parse::<f64>().ok();
        let share = |share: f64| (share > 0.0 && share < 1.0).then_some(share);
        let skew = match text.split(':').collect::<Vec<_>>()[..] {
            ["none"] => Some(Self::None),
            ["uniform"] => Some(Self::Uniform),
            ["elephant", part] => number(part).and_then(share).map(|share| Self::Elephant { share }),
            ["elephants", flows, percentage] => {
                let flows = flows.parse().ok().filter(|flows| *flows > 0);
                let percentage = percentage.strip_suffix('%').and_then(number);
                let both = flows.zip(percentage.and_then(|percentage| share(percentage / 100.0)));
                both.map(|(flows, share)| Self::Elephants { flows, share })
            }
            ["zipf", exponent] => number(exponent)
                .filter(|exponent| (0.0..=Self::LARGEST_EXPONENT).contains(exponent))
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
            Self::Uniform => formatter.write_str("uniform"),
            Self::Elephant { share } => write!(formatter, "elephant:{share}"),
            Self::Elephants { flows, share } => write!(formatter, "elephants:{flows}:{}%", share * 100.0),
            Self::Zipf { exponent } => write!(formatter, "zipf:{exponent}"),
        }
    }
}

corelane_measure::texts!(Skew);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skew_is_read_as_it_is_written() {
        for text in [
            "none",
            "uniform",
            "elephant:0.5",
            "elephants:4:50%",
            "elephants:1:12.5%",
            "zipf:1.1",
            "zipf:1",
            "zipf:0",
        ] {
            assert_eq!(text.parse::<Skew>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "elephant",
            "elephant:1",
            "elephant:0",
            "uniform:1",
            "elephants:4",
            "elephants:0:50%",
            "elephants:4:50",
            "elephants:4:0%",
            "elephants:4:100%",
            "elephants:-1:5%",
            "zipf",
            "zipf:",
            "zipf:inf",
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
        for skew in ["uniform", "elephant:0.9", "elephants:3:99%", "zipf:2"] {
            for flows in [1, 2, 100] {
                let shares = skew.parse::<Skew>().unwrap().shares(flows).unwrap();
                assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                assert!(shares.is_sorted_by(|one, next| one >= next), "{skew}: {shares:?}");
            }
        }
    }
}
