//! Medians and spreads of repeated trials.
//!
//! In: the same quantity from several trials. Out: the median and the range. No distribution is assumed or fitted,
//! because there are only a few trials.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A median and the range around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle value; the mean of the two middle values when their number is even.
    pub median: f64,
    /// The smallest value.
    pub minimum: f64,
    /// The largest value.
    pub maximum: f64,
    /// `(maximum - minimum) / median`; 0 where the median is 0.
    pub relative: f64,
    /// How many values there were.
    pub count: usize,
}

impl Spread {
    /// The spread of the finite values among `values`; `None` when there is none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (minimum, maximum) = (*sorted.first()?, *sorted.last()?);
        let median = middle(&sorted);
        let relative = if median == 0.0 {
            0.0
        } else {
            (maximum - minimum) / median.abs()
        };
        Some(Self {
            median,
            minimum,
            maximum,
            relative,
            count: sorted.len(),
        })
    }

    /// Half the distance from the smallest to the largest value: what is written after `±`.
    #[must_use]
    pub fn half_range(&self) -> f64 {
        (self.maximum - self.minimum) / 2.0
    }

    /// Whether the ranges of two spreads share a value, so that their medians do not distinguish them.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.minimum <= other.maximum && other.minimum <= self.maximum
    }

    /// `0.98±0.02`, with `decimals` digits after the point; without the range when there was one value.
    #[must_use]
    pub fn display(&self, decimals: usize) -> String {
        if self.count < 2 {
            format!("{:.decimals$}", self.median)
        } else {
            format!("{:.decimals$}\u{b1}{:.decimals$}", self.median, self.half_range())
        }
    }
}

/// The median of the finite values among `values`.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

/// `numerator / denominator`; `None` if it is not finite.
#[must_use]
pub fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    let quotient = numerator / denominator;
    quotient.is_finite().then_some(quotient)
}

/// The quotients of two quantities, both given as round and value. A quotient is taken within a round, because the two
/// were then measured next to each other and drift of the machine cancels.
#[must_use]
pub fn within_rounds(
    numerators: impl IntoIterator<Item = (usize, f64)>,
    denominators: impl IntoIterator<Item = (usize, f64)>,
) -> Option<Spread> {
    let denominators: BTreeMap<usize, f64> = denominators.into_iter().collect();
    let quotient = |(round, value): (usize, f64)| Some(value / denominators.get(&round)?);
    let quotients = numerators.into_iter().filter_map(quotient);
    Spread::of(&quotients.collect::<Vec<_>>())
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[half]
    } else {
        // Halved before they are added, so that two large values do not overflow.
        sorted[half - 1] / 2.0 + sorted[half] / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_spread_tells_the_middle_and_the_range() {
        let spread = Spread::of(&[512.0, 500.0, 520.0]).unwrap();
        assert_eq!(
            (spread.median, spread.minimum, spread.maximum),
            (512.0, 500.0, 520.0)
        );
        assert_eq!(spread.relative, 20.0 / 512.0);
        assert_eq!(spread.display(1), "512.0\u{b1}10.0");
        assert_eq!(Spread::of(&[1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Spread::of(&[7.0]).unwrap().display(0), "7");
    }

    #[test]
    fn no_value_has_no_spread() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[f64::NAN]), None);
    }

    #[test]
    fn quotients_are_taken_within_a_round() {
        // "More RSS UDP tests - this time on a Dell R720": 215,000 on one CPU, 8 times that on eight.
        let one = [(0, 8.0 * 215_000.0), (1, 8.0 * 300_000.0), (3, 1.0)];
        let linearity = within_rounds([(1, 2_400_000.0), (0, 1_720_000.0), (2, 1.0)], one).unwrap();
        assert_eq!(
            (linearity.median, linearity.relative, linearity.count),
            (1.0, 0.0, 2)
        );
    }

    #[test]
    fn nothing_has_no_quotient() {
        assert_eq!(within_rounds([(0, 100.0)], [(0, 0.0)]), None);
    }

    proptest! {
        #[test]
        fn a_median_lies_within_its_range(values in proptest::collection::vec(-1e300f64..1e300, 1..20)) {
            let spread = Spread::of(&values).unwrap();
            prop_assert!(spread.minimum <= spread.median && spread.median <= spread.maximum);
            prop_assert!(spread.overlaps(&spread));
        }
    }
}
