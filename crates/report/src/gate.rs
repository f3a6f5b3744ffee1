//! Gates: conditions on a run's figures that make it fail: `p99 > 5ms`, `p99.95 > 8ms`, `failed > 0.1%`, `rate < 10k`.
//!
//! In: text and the named figures of a document. Out: whether the condition holds, in words.

use corelane_measure::metric::{Metric, Show};
use thiserror::Error;

/// A figure available to gates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// Its unit, and how it is shown.
    pub show: Show,
    /// Description for help texts.
    pub about: &'static str,
    /// The largest value that it can have, infinite if there is none. The smallest is 0.
    pub most: f64,
}

impl Figure {
    /// Creates the figure of a metric, with the metric's document name.
    #[must_use]
    pub const fn of<T>(metric: &Metric<T>) -> Self {
        Self {
            name: metric.name,
            show: metric.show,
            about: metric.about,
            most: metric.most,
        }
    }
}

/// The percent in the name of a percentile: 99.95 in `p99.95`. `None` of another name, and of one that is not between 0
/// and 100.
#[must_use]
pub fn percent(name: &str) -> Option<f64> {
    let digits = name.strip_prefix('p')?;
    let percent = digits.parse().ok()?;
    let plain = digits
        .chars()
        .all(|letter| letter.is_ascii_digit() || letter == '.');
    (plain && percent > 0.0 && percent < 100.0).then_some(percent)
}

/// How the figure of this name is shown. Where there is a `p99`, there is every percentile.
///
/// # Errors
/// If there is none.
pub fn figure(name: &str, figures: &[Figure]) -> Result<Figure, GateError> {
    let named = |name: &str| figures.iter().find(|figure| figure.name == name).copied();
    let every = named("p99");
    let percentile = || every.filter(|_| percent(name).is_some());
    named(name).or_else(percentile).ok_or_else(|| {
        let known: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
        let others = every.map_or("", |_| ", or a percentile such as p99.95");
        let known = known.join(", ");
        GateError(format!(
            "there is no figure '{name}': give one of {known}{others}"
        ))
    })
}

/// Whether a value and a bound are related as a gate says.
type Comparison = fn(&f64, &f64) -> bool;

/// A condition that must not hold.
#[derive(Debug, Clone)]
pub struct Gate {
    name: String,
    show: Show,
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

/// Whether no value from 0 to `most` is related to the bound in this way.
fn is_impossible(sign: &str, bound: f64, most: f64) -> bool {
    match sign {
        ">" => bound >= most,
        "<" => bound <= 0.0,
        "<=" => bound < 0.0,
        ">=" => bound > most,
        "==" => !(0.0..=most).contains(&bound),
        _ => false,
    }
}

/// Why a text is no gate: what is wrong, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct GateError(String);

impl Gate {
    /// Parses a condition on one of these figures.
    ///
    /// # Errors
    /// If the text is not a valid condition.
    pub fn parse(text: &str, figures: &[Figure]) -> Result<Self, GateError> {
        let found = COMPARISONS
            .iter()
            .find_map(|(sign, holds)| Some((text.split_once(sign)?, (*sign, *holds))));
        let Some(((name, bound), (sign, holds))) = found else {
            return Err(GateError(format!("'{text}' compares nothing: write 'p99 > 5ms'")));
        };
        let (name, bound, text) = (name.trim(), bound.trim(), text.trim());
        let Figure { show, most, .. } = figure(name, figures)?;
        let Some(value) = show.parse(bound).filter(|value| value.is_finite()) else {
            let example = show.example();
            return Err(GateError(format!(
                "'{bound}' is no bound for {name}: write {example}"
            )));
        };
        if is_impossible(sign, value, most) {
            let limit = match value > 0.0 {
                true => format!("more than {}", show.words(most)),
                false => format!("less than {}", show.words(0.0)),
            };
            return Err(GateError(format!(
                "'{text}' can never hold: {name} is never {limit}"
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            show,
            holds,
            bound: value,
            text: text.to_owned(),
        })
    }

    /// Describes the violation if the condition holds for the figure's value; `None` otherwise. A figure without a
    /// value fails every gate.
    #[must_use]
    pub fn failed(&self, value: impl FnOnce(&str) -> Option<f64>) -> Option<String> {
        let (text, name) = (&self.text, &self.name);
        let Some(value) = value(name) else {
            return Some(format!("'{text}': there is no {name}"));
        };
        let shown = self.show.words(value);
        (self.holds)(&value, &self.bound).then(|| format!("'{text}': {name} is {shown}"))
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
            most: 60e9,
        },
        Figure {
            name: "rate",
            show: Show::Prefixed,
            about: "",
            most: f64::INFINITY,
        },
        Figure {
            name: "failed",
            show: Show::Share,
            about: "",
            most: 1.0,
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
    fn where_there_is_a_p99_there_is_every_percentile() {
        let gate = Gate::parse("p99.95 > 5ms", &FIGURES).unwrap();
        let of = |name: &str| percent(name).map(|percent| percent * 1e6);
        assert_eq!(
            gate.failed(of).as_deref(),
            Some("'p99.95 > 5ms': p99.95 is 100 ms")
        );
        for (name, known) in [
            ("p0.1", Some(0.1)),
            ("p95", Some(95.0)),
            ("p99.999", Some(99.999)),
        ] {
            assert_eq!(percent(name), known);
        }
        for name in [
            "p", "p.", "p0", "p100", "p101", "p999", "p-1", "p+5", "p1e1", "pnan", "95",
        ] {
            assert_eq!(percent(name), None, "{name}");
            assert!(Gate::parse(&format!("{name} > 1ms"), &FIGURES).is_err(), "{name}");
        }
        let error = Gate::parse("p95 > 1ms", &FIGURES[1..]).unwrap_err().to_string();
        assert!(error.ends_with("give one of rate, failed"), "{error}");
    }

    #[test]
    fn a_condition_that_can_never_hold_is_refused() {
        let never = |gate: &str, limit: &str| {
            let error = Gate::parse(gate, &FIGURES).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("'{gate}' can never hold: ")),
                "{error}"
            );
            assert!(error.ends_with(limit), "{error}");
        };
        for gate in ["failed > 100%", "failed > 5", "failed >= 101%", "failed == 2"] {
            never(gate, "failed is never more than 100 %");
        }
        for gate in ["failed < 0", "failed < -1%", "failed <= -1%", "failed == -1"] {
            never(gate, "failed is never less than 0 %");
        }
        never("rate < 0", "rate is never less than 0");
        never("p99 < 0ms", "p99 is never less than 0 ns");
        never("p99.95 > 60s", "p99.95 is never more than 60 s");
        never("p99 >= 61s", "p99 is never more than 60 s");
        for gate in [
            "failed >= 100%",
            "failed <= 0",
            "failed == 0",
            "failed == 100%",
            "failed != 2",
            "p99 > 59s",
            "p99 >= 60s",
            "rate > 1000G",
            "rate <= 0",
        ] {
            assert!(Gate::parse(gate, &FIGURES).is_ok(), "{gate}");
        }
        for gate in ["failed > nan", "failed < inf", "rate != nan"] {
            let error = Gate::parse(gate, &FIGURES).unwrap_err().to_string();
            assert!(error.contains("is no bound for"), "{error}");
        }
    }

    #[test]
    fn what_is_no_gate_is_refused_with_what_would_be_one() {
        for (text, reason) in [
            ("p99", "compares nothing"),
            (
                "late > 1",
                "give one of p99, rate, failed, or a percentile such as p99.95",
            ),
            ("p99 > fast", "a time such as 5ms"),
            ("failed > many", "a share such as 0.1%"),
        ] {
            let error = Gate::parse(text, &FIGURES).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
