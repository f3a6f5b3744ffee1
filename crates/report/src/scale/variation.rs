//! What a step did otherwise than the plain experiment: vocabulary, names as documents and flags spell them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// What a step did otherwise. The default is the plain experiment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Variation {
    /// How the flows shared the traffic.
    pub skew: Skew,
    /// How the server answered.
    pub answers: Answers,
    /// Whether the application was given hash, hash type and bucket of each datagram.
    pub metadata: bool,
}

impl Variation {
    /// Whether nothing was done otherwise.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Variation {
    /// What is otherwise, with commas between; nothing for the plain experiment.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skew = (self.skew != Skew::None).then(|| self.skew.to_string());
        let answers = (self.answers != Answers::default()).then(|| format!("answers {}", self.answers));
        let metadata = self.metadata.then(|| "metadata".to_owned());
        let parts: Vec<String> = skew.into_iter().chain(answers).chain(metadata).collect();
        formatter.write_str(&parts.join(", "))
    }
}

/// How a server answers: by which hash the queue is chosen that an answer leaves on. The four ways of "Application awareness
/// of receive side scaling (RSS) on FreeBSD", as far as stock Linux has them: it takes no hash from an application, so what
/// an application knows about a flow shows in who sends and on which socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// The kernel hashes each answer and chooses the queue by that.
    #[default]
    PerSend,
    /// The received hash is used again: it chose the worker, and the worker's CPU has the bucket's queue (XPS).
    Received,
    /// The worker hashes the flow itself and answers on the socket of the bucket that the hash names; queues as for
    /// `received`.
    Caller,
    /// A connected socket a flow: the kernel keeps route and hash in it.
    Connected,
}

impl Answers {
    /// Every way, the default first.
    pub const ALL: [Self; 4] = [Self::PerSend, Self::Received, Self::Caller, Self::Connected];

    /// Whether each transmit queue belongs to the CPU of its bucket.
    #[must_use]
    pub const fn queues_by_cpu(self) -> bool {
        matches!(self, Self::Received | Self::Caller)
    }
}

/// Text that is no way to answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is no way to answer: write per_send, received, caller or connected")]
pub struct UnknownAnswers(String);

impl FromStr for Answers {
    type Err = UnknownAnswers;

    fn from_str(text: &str) -> Result<Self, UnknownAnswers> {
        let named = Self::ALL.into_iter().find(|answers| answers.to_string() == text);
        named.ok_or_else(|| UnknownAnswers(text.to_owned()))
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::PerSend => "per_send",
            Self::Received => "received",
            Self::Caller => "caller",
            Self::Connected => "connected",
        })
    }
}

/// How the flows of a step share its traffic. Written `none`, `elephant:0.5`, `zipf:1.1`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Skew {
    /// All alike.
    #[default]
    None,
    /// One flow has a share of everything; the others have the rest, and are alike.
    Elephant {
        /// Above 0 and below 1.
        share: f64,
    },
    /// The *k*-th largest flow is in proportion to *k* to the power of minus the exponent.
    Zipf {
        /// Above 0, at most [`Skew::LARGEST_EXPONENT`].
        exponent: f64,
    },
}

impl Skew {
    /// The largest exponent taken: beyond it all flows but a few get nothing.
    pub const LARGEST_EXPONENT: f64 = 10.0;

    /// The shares of `flows` flows, largest first, which together are 1; `None` where all flows are alike.
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

/// Text that is no skew.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is no skew: write none, elephant:0.5 (a share above 0 and below 1) or zipf:1.1 (an exponent above 0, at most 10)"
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
    fn a_variation_says_what_is_otherwise_and_nothing_else() {
        assert_eq!(Variation::default().to_string(), "");
        let all = Variation {
            skew: Skew::Zipf { exponent: 1.0 },
            answers: Answers::Caller,
            metadata: true,
        };
        assert_eq!(all.to_string(), "zipf:1, answers caller, metadata");
        for answers in Answers::ALL {
            assert_eq!(answers.to_string().parse(), Ok(answers));
            assert_eq!(serde_json::to_value(answers).unwrap(), answers.to_string());
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
