//! Operations, and their shares of the requests.

use corelane_measure::words;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// What is done with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Reads the value.
    Get,
    /// Reads the value and its cas number.
    Gets,
    /// Reads the value, and sets its expiration.
    Gat,
    /// Stores a value.
    Set,
    /// Stores a value, if there is none.
    Add,
    /// Stores a value, if there is one.
    Replace,
    /// Adds a part behind the value, if there is one.
    Append,
    /// Adds a part before the value, if there is one.
    Prepend,
    /// Reads the value and its cas number, then stores one, if the number is still the same.
    Cas,
    /// Deletes the value.
    Delete,
    /// Adds 1 to a counter, which has a key of its own.
    Incr,
    /// Subtracts 1 from a counter, which has another key of its own.
    Decr,
    /// Sets the expiration.
    Touch,
}

words!(Operation);

impl Operation {
    /// All, in the order of their declaration.
    pub(super) const ALL: [Self; 13] = [
        Self::Get,
        Self::Gets,
        Self::Gat,
        Self::Set,
        Self::Add,
        Self::Replace,
        Self::Append,
        Self::Prepend,
        Self::Cas,
        Self::Delete,
        Self::Incr,
        Self::Decr,
        Self::Touch,
    ];

    /// Whether it reads values, so that one request can have several keys.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self, Self::Get | Self::Gets | Self::Gat)
    }
}

/// The weight of each operation. Written `get=90,set=10`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix(Vec<(Operation, f64)>);

/// Nine of ten requests read.
impl Default for Mix {
    fn default() -> Self {
        Self(vec![(Operation::Get, 90.0), (Operation::Set, 10.0)])
    }
}

/// A text that is no mix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{text}' is no mix of operations: write get=90,set=10{because}")]
pub struct MixError {
    text: String,
    because: String,
}

impl Mix {
    /// Whether parts are added to values.
    pub(super) fn extends(&self) -> bool {
        self.has(Operation::Append) || self.has(Operation::Prepend)
    }

    /// Whether the operation occurs.
    #[must_use]
    pub fn has(&self, operation: Operation) -> bool {
        self.0
            .iter()
            .any(|(other, weight)| *other == operation && *weight > 0.0)
    }
}

impl FromStr for Mix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        let wrong = |because: &str| MixError {
            text: text.to_owned(),
            because: because.to_owned(),
        };
        let mut parts: Vec<(Operation, f64)> = Vec::new();
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').ok_or_else(|| wrong(""))?;
            let unknown = |error: words::UnknownWord| wrong(&format!(" ({error})"));
            let operation: Operation = name.trim().parse().map_err(unknown)?;
            let weight: f64 = weight
                .trim()
                .parse()
                .map_err(|_| wrong(" (a weight is a number)"))?;
            if !(0.0..=f64::from(u32::MAX)).contains(&weight) {
                return Err(wrong(" (a weight is 0 or more)"));
            }
            if parts.iter().any(|(other, _)| *other == operation) {
                return Err(wrong(&format!(" ({operation} is there twice)")));
            }
            parts.push((operation, weight));
        }
        match parts.iter().any(|(_, weight)| *weight > 0.0) {
            true => Ok(Self(parts)),
            false => Err(wrong(" (one weight must be above 0)")),
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (operation, weight)) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(out, "{comma}{operation}={weight}")?;
        }
        Ok(())
    }
}

corelane_measure::texts!(Mix);

/// Draws operations.
#[derive(Debug)]
pub(super) struct Operations {
    /// Each with the share of the draws up to and including it.
    cumulative: Vec<(Operation, u32)>,
}

impl Operations {
    pub(super) fn new(mix: &Mix) -> Self {
        let all: f64 = mix.0.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        let parts = mix.0.iter().filter(|(_, weight)| *weight > 0.0);
        let mut cumulative: Vec<(Operation, u32)> = parts
            .map(|(operation, weight)| {
                sum += weight;
                (*operation, (sum / all * f64::from(u32::MAX)) as u32)
            })
            .collect();
        // Rounding must leave no gap.
        cumulative.last_mut().expect("a mix has an operation").1 = u32::MAX;
        Self { cumulative }
    }

    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> Operation {
        if let [(operation, _)] = self.cumulative[..] {
            return operation;
        }
        let drawn = random.u32(..);
        let chosen = self.cumulative.iter().find(|(_, up_to)| drawn <= *up_to);
        chosen.expect("the last holds all").0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_their_shares() {
        let mix: Mix = "get=90,set=0,incr=9,touch=1".parse().unwrap();
        assert_eq!(mix.to_string(), "get=90,set=0,incr=9,touch=1");
        assert!(mix.has(Operation::Incr) && !mix.has(Operation::Set) && !mix.has(Operation::Add));
        let (operations, mut random) = (Operations::new(&mix), fastrand::Rng::with_seed(3));
        let drawn: Vec<Operation> = (0..100_000).map(|_| operations.draw(&mut random)).collect();
        let count = |operation| drawn.iter().filter(|drawn| **drawn == operation).count();
        assert!((89_500..90_500).contains(&count(Operation::Get)));
        assert!((8_600..9_400).contains(&count(Operation::Incr)));
        assert!((850..1_150).contains(&count(Operation::Touch)));
        assert_eq!(count(Operation::Set), 0);
    }

    #[test]
    fn what_is_no_mix_is_refused_with_the_reason() {
        for (text, because) in [
            ("get", "is no mix"),
            ("get=1,put=1", "'put': give get, gets"),
            ("get=x", "a weight is a number"),
            ("get=-1", "0 or more"),
            ("get=1,get=2", "get is there twice"),
            ("get=0", "above 0"),
        ] {
            let error = text.parse::<Mix>().unwrap_err().to_string();
            assert!(error.contains(because), "{text}: {error}");
        }
    }
}
