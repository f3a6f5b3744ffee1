//! Size distributions, approximated by a few equally likely classes: the quantile at the middle of each class.

use corelane_measure::quantity::read;
use serde::Deserialize;

/// The shape of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// All sizes from `min` to `max` are equally likely.
    Uniform,
    /// Exponential distribution with `mean`.
    Exponential,
    /// Many small sizes and few very large ones, as on the web: Pareto from `min` on, with tail exponent 1.2
    /// ("Self-similarity in World Wide Web traffic", Crovella and Bestavros, 1997, found 1.0 to 1.3).
    Pareto,
}

/// A size distribution.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// The shape.
    pub distribution: Distribution,
    /// The smallest; 1 by default.
    #[serde(default, deserialize_with = "read::bytes")]
    pub min: Option<u64>,
    /// The largest; larger sizes are clamped to it.
    #[serde(default, deserialize_with = "read::bytes")]
    pub max: Option<u64>,
    /// The mean, of an exponential distribution.
    #[serde(default, deserialize_with = "read::bytes")]
    pub mean: Option<u64>,
    /// Number of sizes that approximate the distribution; 16 by default.
    pub classes: Option<u16>,
}

/// The error of sizes without a place in the path, and the reverse.
pub(in crate::http) const WITHOUT_PATH: &str = "sizes and {size} in the path go together";

/// The exponent of the tail.
const PARETO_EXPONENT: f64 = 1.2;

/// Default number of sizes: enough to show the shape of the distribution.
const DEFAULT_CLASSES: u16 = 16;

/// Default largest size of a heavy tail.
const LARGEST: u64 = 1 << 30;

impl Sizes {
    /// The sizes in ascending order, all equally likely.
    ///
    /// # Errors
    /// The missing or invalid setting, as text.
    pub fn classes(&self) -> Result<Vec<u64>, String> {
        let count = self.classes.unwrap_or(DEFAULT_CLASSES);
        if !(1..=1_000).contains(&count) {
            return Err("classes are 1 to 1000".to_owned());
        }
        let min = self.min.unwrap_or(1) as f64;
        let max = self.max.unwrap_or(LARGEST) as f64;
        if min > max {
            return Err("min is more than max".to_owned());
        }
        let quantile = |share: f64| match self.distribution {
            Distribution::Uniform if self.max.is_none() => Err("a uniform distribution needs max".to_owned()),
            Distribution::Uniform => Ok(min + (max - min) * share),
            Distribution::Exponential => {
                let mean = self
                    .mean
                    .ok_or_else(|| "an exponential distribution needs mean".to_owned())?;
                Ok(-(1.0 - share).ln() * mean as f64)
            }
            Distribution::Pareto => Ok(min / (1.0 - share).powf(1.0 / PARETO_EXPONENT)),
        };
        let middle = |class: u16| (f64::from(class) + 0.5) / f64::from(count);
        let size = |class| quantile(middle(class)).map(|size| size.clamp(min, max).round() as u64);
        (0..count).map(size).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Result<Vec<u64>, String> {
        toml::from_str::<Sizes>(text).unwrap().classes()
    }

    #[test]
    fn classes_stand_for_their_distribution() {
        assert_eq!(
            sizes("distribution = 'uniform'\nmin = 1\nmax = 101\nclasses = 4"),
            Ok(vec![14, 39, 64, 89])
        );
        let exponential = sizes("distribution = 'exponential'\nmean = '10kB'\nclasses = 500").unwrap();
        let mean = exponential.iter().sum::<u64>() as f64 / 500.0;
        assert!((9_800.0..10_200.0).contains(&mean), "{mean}");
        let pareto = sizes("distribution = 'pareto'\nmin = '1KiB'\nmax = '1MiB'\nclasses = 100").unwrap();
        assert!(
            pareto[0] < 1_100 && pareto[50] < 2_000 && pareto[99] > 50_000,
            "{pareto:?}"
        );
    }

    #[test]
    fn what_a_distribution_needs_is_told() {
        for (text, reason) in [
            ("distribution = 'uniform'", "needs max"),
            ("distribution = 'exponential'", "needs mean"),
            ("distribution = 'uniform'\nmin = 9\nmax = 3", "min is more"),
            ("distribution = 'uniform'\nmax = 3\nclasses = 0", "1 to 1000"),
        ] {
            assert!(sizes(text).unwrap_err().contains(reason), "{text}");
        }
    }
}
