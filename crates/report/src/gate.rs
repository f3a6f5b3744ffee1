//! Gates: conditions on a run's figures that make it fail: `p99 > 5ms`, `failed > 0.1%`, `rate < 10k`.
//!
//! In: text and the named figures of a document. Out: whether the condition holds, in words.

use corelane_measure::metric::{Metric, Show};
use thiserror::Error;

/// A figure available to gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// Its unit, and how it is shown.
    pub show: Show,
    /// Description for help texts.
    pub about: &'static str,
}

impl Figure {
    /// Creates the figure of a metric, with the metric's document name.
    #[must_use]
    pub const fn of<T>(metric: &Metric<T>) -> Self {
        Self {
            name: metric.name,
            show: metric.show,
            about: metric.about,
        }
    }
}

/// Whether a value and a bound are related as a gate says.
type Comparison = fn(&f64, &f64) -> bool;

/// A condition that must not hold.
#[derive(Debug, Clone)]
pub struct Gate {
    figure: Figure,
    holds: Comparison,
    bound: f64,
    text: String,
}

/// Comparisons as they are written; those of two characters come first, as the others begin them.
const COMPARISONS: [(&str, Comparison); 6] = [
    (">=", f64::ge),
    ("<=", f64::le),
    ("==", f64::eq),
    ("!=", f64::ne),
    (">", f64::gt),
    ("<", f64::lt),
];

/// A parse error of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GateError {
    /// The text has no comparison.
    #[error("'{0}' compares nothing: write 'p99 > 5ms'")]
    NoComparison(String),
    /// No figure has this name. With the names of the figures.
    #[error("there is no figure '{0}': give one of {1}")]
    UnknownFigure(String, String),
    /// The bound is not of the figure's unit.
    #[error("'{bound}' is no bound for {name}: write {example}")]
    Bound {
        /// The bound.
        bound: String,
        /// The figure.
        name: &'static str,
        /// A bound of its unit.
        example: &'static str,
    },
}

impl Gate {
    /// Parses a condition on one of these figures.
    ///
    /// # Errors
    /// If the text is not a valid condition.
    pub fn parse(text: &str, figures: &[Figure]) -> Result<Self, GateError> {
        let found = COMPARISONS
            .iter()
            .find_map(|(sign, holds)| Some((text.split_once(sign)?, *holds)));
        let ((name, bound), holds) = found.ok_or_else(|| GateError::NoComparison(text.to_owned()))?;
        let (name, bound) = (name.trim(), bound.trim());
        let figure = figures.iter().find(|figure| figure.name == name).copied();
        let figure = figure.ok_or_else(|| {
            let known: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
            GateError::UnknownFigure(name.to_owned(), known.join(", "))
        })?;
        let value = figure.show.parse(bound).ok_or_else(|| GateError::Bound {
            bound: bound.to_owned(),
            name: figure.name,
            example: figure.show.example(),
        })?;
        Ok(Self {
            figure,
            holds,
            bound: value,
            text: text.trim().to_owned(),
        })
    }

    /// Describes the violation if the condition holds for the figure's value; `None` otherwise. A figure without a
    /// value fails every gate.
    #[must_use]
    pub fn failed(&self, value: impl FnOnce(&str) -> Option<f64>) -> Option<String> {
        let Some(value) = value(self.figure.name) else {
            return Some(format!("'{}': there is no {}", self.text, self.figure.name));
        };
        let shown = self.figure.show.words(value);
        (self.holds)(&value, &self.bound).then(|| format!("'{}': {} is {shown}", self.text, self.figure.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: [Figure; 3] = [
        Figure {
            name: "p99",
            show: Show::Nanoseconds,
            about: "",
        },
        Figure {
            name: "rate",
            show: Show::Prefixed,
            about: "",
        },
        Figure {
            name: "failed",
            show: Show::Share,
            about: "",
        },
    ];

    fn failed(gate: &str, value: f64) -> Option<String> {
        Gate::parse(gate, &FIGURES).unwrap().failed(|_| Some(value))
    }

    #[test]
    fn a_condition_that_holds_is_told_with_its_value() {
        assert_eq!(
            failed("p99 > 5ms", 6e6).as_deref(),
            Some("'p99 > 5ms': p99 is 6 ms")
        );
        assert_eq!(failed("p99>5ms", 5e6), None);
        assert!(failed("p99 >= 5ms", 5e6).is_some());
        assert!(failed("rate < 10k", 9_999.0).is_some());
        assert_eq!(failed("failed > 0.1%", 0.001), None);
        assert!(failed("failed != 0", 0.5).is_some());
    }

    #[test]
    fn what_was_not_measured_fails() {
        let gate = Gate::parse("p99 > 5ms", &FIGURES).unwrap();
        assert!(gate.failed(|_| None).is_some());
    }

    #[test]
    fn what_is_no_gate_is_refused_with_what_would_be_one() {
        for (text, reason) in [
            ("p99", "compares nothing"),
            ("p98 > 1ms", "give one of p99, rate, failed"),
            ("p99 > fast", "a time such as 5ms"),
            ("failed > many", "a share such as 0.1%"),
        ] {
            let error = Gate::parse(text, &FIGURES).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
