//! What one step tries. Vocabulary only: names as documents and flags spell them, and words for people.

use crate::scale::Placement;
use crate::steps;
use corelane_load::udp::Skew;
use corelane_serve::udp::{Answers, Mode, Model};
use serde::{Deserialize, Serialize};

/// What one step tries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// How the server's sockets are chosen.
    pub model: Model,
    /// Where clients run.
    pub placement: Placement,
    /// Echo or sink.
    pub mode: Mode,
    /// How the flows share the traffic.
    #[serde(default)]
    pub skew: Skew,
    /// How the server answers.
    #[serde(default)]
    pub answers: Answers,
    /// Whether the application is given hash, hash type and bucket of each datagram.
    #[serde(default)]
    pub metadata: bool,
    /// Buckets that the traffic is aimed at.
    pub buckets_active: usize,
}

impl Shape {
    /// A step of the plain experiment.
    #[must_use]
    pub fn plain((mode, model, placement): (Mode, Model, Placement), buckets_active: usize) -> Self {
        Self {
            model,
            placement,
            mode,
            skew: Skew::None,
            answers: Answers::default(),
            metadata: false,
            buckets_active,
        }
    }

    /// The same step in the plain experiment.
    #[must_use]
    pub fn without_variation(self) -> Self {
        Self::plain((self.mode, self.model, self.placement), self.buckets_active)
    }

    /// What is done otherwise than in the plain experiment, with commas between; nothing where that is nothing.
    #[must_use]
    pub fn variation(&self) -> String {
        let skew = (self.skew != Skew::None).then(|| self.skew.to_string());
        let answers = (self.answers != Answers::default()).then(|| format!("answers {}", self.answers));
        let metadata = self.metadata.then(|| "metadata".to_owned());
        let parts: Vec<String> = skew.into_iter().chain(answers).chain(metadata).collect();
        parts.join(", ")
    }

    /// Where the clients run, and what is done otherwise: `crossed`, `aligned, zipf:1`.
    #[must_use]
    pub fn clients(&self) -> String {
        match self.variation().as_str() {
            "" => self.placement.to_string(),
            variation => format!("{}, {variation}", self.placement),
        }
    }
}

impl steps::Shape for Shape {
    fn active(&self) -> usize {
        self.buckets_active
    }

    fn grows_to(&self, other: &Self) -> bool {
        (self.mode, self.model, self.placement) == (other.mode, other.model, other.placement)
    }

    fn same_load(&self, other: &Self) -> bool {
        self.mode == other.mode
    }

    fn title(&self) -> String {
        format!("{}, {}, {}", self.mode, self.model.words(), self.clients())
    }

    fn who(&self) -> String {
        format!("{}, {}", self.model.words(), self.placement)
    }

    fn class(&self) -> String {
        format!("fill {} {}", self.model, self.placement)
    }

    fn is_exact(&self) -> bool {
        (self.model, self.placement) == (Model::Exact, Placement::Aligned)
    }

    fn is_plain(&self) -> bool {
        *self == self.without_variation()
    }

    fn weight(&self, _first: &Self) -> u64 {
        u64::from(self.mode == Mode::Echo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::Shape as _;

    #[test]
    fn a_variation_says_what_is_otherwise_and_nothing_else() {
        let plain = Shape::plain((Mode::Echo, Model::Exact, Placement::Aligned), 1);
        assert_eq!(plain.variation(), "");
        let all = Shape {
            skew: Skew::Zipf { exponent: 1.0 },
            answers: Answers::Caller,
            metadata: true,
            ..plain
        };
        assert_eq!(all.variation(), "zipf:1, answers caller, metadata");
        assert!(plain.is_plain() && !all.is_plain());
    }
}
