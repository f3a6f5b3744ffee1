//! Which keys are asked for how often.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How requests are distributed over the keys. Written `uniform` or `zipf:1.1`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Popularity {
    /// All keys are asked for equally often.
    Uniform,
    /// The *k*-th most popular key is asked for in proportion to *k* to the power of minus the exponent.
    Zipf {
        /// Above 0, up to [`Popularity::LARGEST_EXPONENT`].
        exponent: f64,
    },
}

impl Popularity {
    /// The largest accepted exponent: beyond it, all but a few keys get nothing. The largest one published for a cache is 2.68
    /// (cluster 1 of Twitter's traces).
    pub const LARGEST_EXPONENT: f64 = 10.0;
}

/// A text that is no distribution.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is no distribution of requests: write uniform or zipf:1.1 (an exponent above 0, up to 10)")]
pub struct PopularityError(String);

impl FromStr for Popularity {
    type Err = PopularityError;

    fn from_str(text: &str) -> Result<Self, PopularityError> {
        let wrong = || PopularityError(text.to_owned());
        if text == "uniform" {
            return Ok(Self::Uniform);
        }
        let exponent = text
            .strip_prefix("zipf:")
            .and_then(|exponent| exponent.parse().ok());
        let exponent =
            exponent.filter(|exponent| (f64::MIN_POSITIVE..=Self::LARGEST_EXPONENT).contains(exponent));
        Ok(Self::Zipf {
            exponent: exponent.ok_or_else(wrong)?,
        })
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => out.write_str("uniform"),
            Self::Zipf { exponent } => write!(out, "zipf:{exponent}"),
        }
    }
}

corelane_measure::texts!(Popularity);

/// Draws numbers below a bound, the smaller ones more often.
///
/// Zipf by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
/// distributions", 1996): no table, and 1.1 draws on average, for any number of keys.
#[derive(Debug, Clone)]
pub struct Draw {
    below: u64,
    zipf: Option<Zipf>,
}

#[derive(Debug, Clone)]
struct Zipf {
    exponent: f64,
    /// The integral of the density at the bound, and before the first number.
    last: f64,
    first: f64,
    /// A number this near to its rank is accepted without a further test.
    near: f64,
}

impl Draw {
    /// Draws from 0 to `below`, which is at least 1.
    #[must_use]
    pub fn new(popularity: Popularity, below: u64) -> Self {
        let zipf = match popularity {
            Popularity::Uniform => None,
            Popularity::Zipf { exponent } => {
                let mut zipf = Zipf {
                    exponent,
                    last: 0.0,
                    first: 0.0,
                    near: 0.0,
                };
                zipf.last = zipf.integral(below as f64 + 0.5);
                zipf.first = zipf.integral(1.5) - 1.0;
                zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
                Some(zipf)
            }
        };
        Self { below, zipf }
    }

    /// One number.
    pub fn next(&self, random: &mut fastrand::Rng) -> u64 {
        match &self.zipf {
            None => random.u64(..self.below),
            Some(zipf) => zipf.rank(self.below, random) - 1,
        }
    }
}

impl Zipf {
    /// A rank from 1 to `ranks`.
    fn rank(&self, ranks: u64, random: &mut fastrand::Rng) -> u64 {
        loop {
            let drawn = self.last + random.f64() * (self.first - self.last);
            let exact = self.inverse(drawn);
            let rank = (exact + 0.5).clamp(1.0, ranks as f64).floor();
            if rank - exact <= self.near || drawn >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64;
            }
        }
    }

    fn density(&self, rank: f64) -> f64 {
        (-self.exponent * rank.ln()).exp()
    }

    /// The integral of the density from 1: `(x^(1-e) - 1) / (1-e)`, continuous at an exponent of 1.
    fn integral(&self, to: f64) -> f64 {
        let log = to.ln();
        expm1_over((1.0 - self.exponent) * log) * log
    }

    fn inverse(&self, integral: f64) -> f64 {
        // Rounding may lead below the pole.
        let scaled = (integral * (1.0 - self.exponent)).max(-1.0);
        (ln1p_over(scaled) * integral).exp()
    }
}

/// Below this, the series is exact to the last bit or nearly so.
const SMALL: f64 = 1e-8;

/// `(e^x - 1) / x`.
fn expm1_over(x: f64) -> f64 {
    match x.abs() > SMALL {
        true => x.exp_m1() / x,
        false => 1.0 + x * 0.5,
    }
}

/// `ln(1 + x) / x`.
fn ln1p_over(x: f64) -> f64 {
    match x.abs() > SMALL {
        true => x.ln_1p() / x,
        false => 1.0 - x * 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of so many numbers is drawn in 200,000 draws.
    fn drawn(text: &str, below: u64) -> Vec<f64> {
        let draw = Draw::new(text.parse().unwrap(), below);
        let (mut random, mut counts) = (fastrand::Rng::with_seed(7), vec![0.0; below as usize]);
        (0..200_000).for_each(|_| counts[draw.next(&mut random) as usize] += 1.0);
        counts
    }

    #[test]
    fn zipf_follows_its_law() {
        for exponent in [0.3, 0.99, 1.0, 1.2, 2.7] {
            let counts = drawn(&format!("zipf:{exponent}"), 100);
            let sum: f64 = (1..=100).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for (rank, count) in (1..).zip(&counts) {
                let expected = 200_000.0 * f64::from(rank).powf(-exponent) / sum;
                let within = 5.0 * expected.sqrt() + 1.0;
                assert!(
                    (count - expected).abs() < within,
                    "{exponent} {rank}: {count}, expected {expected}"
                );
            }
        }
    }

    #[test]
    fn uniform_draws_are_equal_and_one_key_is_always_drawn() {
        let counts = drawn("uniform", 20);
        assert!(
            counts.iter().all(|count| (count - 10_000.0).abs() < 500.0),
            "{counts:?}"
        );
        assert_eq!(drawn("zipf:1.5", 1), [200_000.0]);
    }

    #[test]
    fn texts_are_read_as_they_are_written() {
        for text in ["uniform", "zipf:1.2117"] {
            assert_eq!(text.parse::<Popularity>().unwrap().to_string(), text);
        }
        for text in ["", "zipf", "zipf:", "zipf:0", "zipf:11", "zipf:NaN", "Uniform"] {
            assert!(text.parse::<Popularity>().is_err(), "{text}");
        }
    }
}
