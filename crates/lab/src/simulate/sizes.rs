//! How flows share the datagrams: `uniform`, `zipf:1.1`, `elephants:4:50%`.

use crate::error::Refusal;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A distribution of flow sizes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Sizes {
    /// All alike.
    Uniform,
    /// The k-th largest flow is in proportion to `k` to the power of minus the exponent.
    Zipf {
        /// From 0, which is uniform, to 10.
        exponent: f64,
    },
    /// Some flows have a share of all datagrams among them, and the others the rest; within both, flows are alike.
    Elephants {
        /// How many flows are elephants.
        flows: usize,
        /// Their share together, above 0 and below 1.
        share: f64,
    },
}

/// A larger exponent leaves all but a few flows without a datagram.
const LARGEST_EXPONENT: f64 = 10.0;

impl Sizes {
    /// Datagrams of each of `flows` flows, the largest first, which together are `datagrams`. A flow's exact share is
    /// rounded so that the running sum is never off by more than a half; a small one may round to nothing.
    ///
    /// # Errors
    /// When there are not more flows than elephants.
    pub fn share_out(self, datagrams: u64, flows: usize) -> Result<Vec<u64>, Refusal> {
        let weights = self.weights(flows)?;
        let total: f64 = weights.iter().sum();
        let (mut sum, mut given) = (0.0, 0);
        let mut share = |weight: &f64| {
            sum += weight;
            let until = ((sum / total * datagrams as f64).round() as u64).min(datagrams);
            let share = until - given;
            given = until;
            share
        };
        Ok(weights.iter().map(&mut share).collect())
    }

    /// What each flow's share is in proportion to, the largest first.
    fn weights(self, flows: usize) -> Result<Vec<f64>, Refusal> {
        let rank = 1..=flows;
        Ok(match self {
            Self::Uniform => vec![1.0; flows],
            Self::Zipf { exponent } => rank.map(|rank| (rank as f64).powf(-exponent)).collect(),
            Self::Elephants {
                flows: elephants,
                share,
            } => {
                let Some(mice) = flows.checked_sub(elephants).filter(|mice| *mice > 0) else {
                    let wrong = format!("{elephants} elephants among {flows} flows");
                    let reason = format!("{wrong}: give more flows, or fewer elephants");
                    return Err(Refusal::new("--sizes", reason));
                };
                let (large, small) = (share / elephants as f64, (1.0 - share) / mice as f64);
                rank.map(|rank| if rank <= elephants { large } else { small })
                    .collect()
            }
        })
    }
}

impl FromStr for Sizes {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
        let sizes = match text.split(':').collect::<Vec<_>>()[..] {
            ["uniform"] => Some(Self::Uniform),
            ["zipf", exponent] => number(exponent)
                .filter(|exponent| (0.0..=LARGEST_EXPONENT).contains(exponent))
                .map(|exponent| Self::Zipf { exponent }),
            ["elephants", flows, percentage] => {
                let flows = flows.parse().ok().filter(|flows| *flows > 0);
                let share = percentage.strip_suffix('%').and_then(number);
                let share = share.filter(|percentage| 0.0 < *percentage && *percentage < 100.0);
                let both = flows.zip(share.map(|percentage| percentage / 100.0));
                both.map(|(flows, share)| Self::Elephants { flows, share })
            }
            _ => None,
        };
        let forms = "write uniform, zipf:1.1 or elephants:4:50%";
        let reason = || format!("'{text}' is no distribution of sizes: {forms}");
        sizes.ok_or_else(|| Refusal::new("--sizes", reason()))
    }
}

impl TryFrom<String> for Sizes {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Self, Refusal> {
        text.parse()
    }
}

impl From<Sizes> for String {
    fn from(sizes: Sizes) -> Self {
        sizes.to_string()
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => out.write_str("uniform"),
            Self::Zipf { exponent } => write!(out, "zipf:{exponent}"),
            Self::Elephants { flows, share } => write!(out, "elephants:{flows}:{}%", share * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for text in [
            "uniform",
            "zipf:1.1",
            "zipf:0",
            "elephants:4:50%",
            "elephants:1:12.5%",
        ] {
            assert_eq!(text.parse::<Sizes>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_distribution_is_named() {
        let wrong = [
            "",
            "zipf",
            "zipf:",
            "zipf:-1",
            "zipf:11",
            "zipf:inf",
            "uniform:1",
            "elephants:4",
            "elephants:0:50%",
            "elephants:4:50",
            "elephants:4:0%",
            "elephants:4:100%",
            "elephants:-1:5%",
            "pareto:1",
        ];
        for text in wrong {
            let refused = text.parse::<Sizes>().unwrap_err().to_string();
            assert!(
                refused.starts_with(&format!("'{text}' is no distribution")),
                "{refused}"
            );
        }
    }

    #[test]
    fn every_datagram_is_given_to_a_flow() {
        for text in ["uniform", "zipf:0.7", "zipf:2", "elephants:3:99%"] {
            for (datagrams, flows) in [(1_000_000_007, 997), (10, 10), (3, 100)] {
                let shares = text
                    .parse::<Sizes>()
                    .unwrap()
                    .share_out(datagrams, flows)
                    .unwrap();
                assert_eq!(
                    (shares.len(), shares.iter().sum::<u64>()),
                    (flows, datagrams),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn the_second_flow_of_zipf_1_has_half_of_the_first() {
        let shares = Sizes::Zipf { exponent: 1.0 }.share_out(1_000_000, 4).unwrap();
        assert_eq!(shares, [480_000, 240_000, 160_000, 120_000]);
    }

    #[test]
    fn elephants_have_their_share_and_the_others_the_rest() {
        let shares = Sizes::Elephants { flows: 2, share: 0.5 }
            .share_out(1000, 12)
            .unwrap();
        assert_eq!(shares, [vec![250; 2], vec![50; 10]].concat());
        let crowded = Sizes::Elephants { flows: 2, share: 0.5 }.share_out(1000, 2);
        let refused = crowded.unwrap_err().to_string();
        assert!(refused.starts_with("2 elephants among 2 flows"), "{refused}");
    }
}
