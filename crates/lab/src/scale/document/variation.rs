//! What a step did otherwise than the plain experiment: vocabulary, names as documents and flags spell them.

use corelane_load::udp::Skew;
use corelane_serve::udp::Answers;
use serde::{Deserialize, Serialize};
use std::fmt;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variation_says_what_is_otherwise_and_nothing_else() {
        assert_eq!(Variation::default().to_string(), "");
        let all = Variation {
            skew: Skew::Zipf { exponent: 1.0 },
            answers: Answers::Caller,
            metadata: true,
        };
        assert_eq!(all.to_string(), "zipf:1, answers caller, metadata");
    }
}
