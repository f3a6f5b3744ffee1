//! Sizes of keys and values. Each key has one, which follows from its number.

use super::mixing::mix;
use corelane_measure::quantity;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How sizes are distributed over the keys, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sizes {
    /// All are equal: `100`, `4KiB`.
    Fixed(u32),
    /// Equally distributed: `64-1024`.
    Range(u32, u32),
    /// Generalised Pareto: `pareto:LOCATION,SCALE,SHAPE`.
    Pareto([f64; 3]),
    /// Generalised extreme values: `gev:LOCATION,SCALE,SHAPE`.
    ExtremeValues([f64; 3]),
    /// The values of Facebook's ETC pool: `etc`.
    Etc,
}

/// The largest value. memcached stores up to a megabyte by default; `-I` raises that.
pub(super) const LARGEST_VALUE: u32 = 64 << 20;

/// The largest size that is drawn from a distribution without an end: memcached stores items of 1 MiB by default, with key
/// and header.
const LARGEST_DRAWN: u32 = (1 << 20) - 512;

/// Shares of the values of 0 to 14 bytes in Facebook's ETC pool (Atikoglu et al., "Workload analysis of a large-scale key-value
/// store", SIGMETRICS 2012, table 5).
const ETC_SHARES: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837, 0.00837,
    0.08989, 0.00092, 0.00326, 0.01980,
];

/// The other values of ETC: generalised Pareto, beginning at 15 bytes (the same paper, section 5).
const ETC_PARETO: [f64; 3] = [15.0, 214.476, 0.348_238];

impl Sizes {
    /// The size that a share of the keys does not exceed.
    fn quantile(self, share: f64) -> f64 {
        match self {
            Self::Fixed(size) => size.into(),
            Self::Range(least, most) => f64::from(least) + (f64::from(most - least + 1) * share).floor(),
            Self::Pareto(parameters) => pareto(parameters, share),
            Self::ExtremeValues([location, scale, shape]) => {
                let log = -(-share.ln()).ln();
                location + scale * over_shape(log, shape)
            }
            Self::Etc => {
                let mut left = share;
                for (size, of_size) in (0..).zip(ETC_SHARES) {
                    if left < of_size {
                        return f64::from(size);
                    }
                    left -= of_size;
                }
                let small: f64 = ETC_SHARES.iter().sum();
                pareto(ETC_PARETO, left / (1.0 - small))
            }
        }
    }
}

fn pareto([location, scale, shape]: [f64; 3], share: f64) -> f64 {
    location + scale * over_shape(-(1.0 - share).ln(), shape)
}

/// `(e^(shape * log) - 1) / shape`, and `log` for a shape of 0.
fn over_shape(log: f64, shape: f64) -> f64 {
    match shape {
        0.0 => log,
        _ => (shape * log).exp_m1() / shape,
    }
}

/// A text that is no distribution of sizes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is no size: write 100, 4KiB, 64-1024 (up to 64 MiB), pareto:LOCATION,SCALE,SHAPE, gev:LOCATION,SCALE,SHAPE or etc (a scale above 0)"
)]
pub struct SizesError(String);

impl FromStr for Sizes {
    type Err = SizesError;

    fn from_str(text: &str) -> Result<Self, SizesError> {
        let wrong = || SizesError(text.to_owned());
        let size = |text: &str| {
            let size = u32::try_from(quantity::parse_size(text).ok()?).ok();
            size.filter(|size| *size <= LARGEST_VALUE)
        };
        let parameters = |text: &str| {
            let numbers = text.split(',').map(|number| number.parse().ok());
            let numbers: Option<Vec<f64>> = numbers.collect();
            let numbers = <[f64; 3]>::try_from(numbers?).ok()?;
            (numbers.iter().all(|number| number.is_finite()) && numbers[1] > 0.0).then_some(numbers)
        };
        let sizes = match (text, text.split_once(':'), text.split_once('-')) {
            ("etc", ..) => Some(Self::Etc),
            (_, Some(("pareto", numbers)), _) => parameters(numbers).map(Self::Pareto),
            (_, Some(("gev", numbers)), _) => parameters(numbers).map(Self::ExtremeValues),
            (_, _, Some((least, most))) => {
                let range = size(least).zip(size(most)).filter(|(least, most)| least <= most);
                range.map(|(least, most)| Self::Range(least, most))
            }
            _ => size(text).map(Self::Fixed),
        };
        sizes.ok_or_else(wrong)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(out, "{size}"),
            Self::Range(least, most) => write!(out, "{least}-{most}"),
            Self::Pareto([location, scale, shape]) => write!(out, "pareto:{location},{scale},{shape}"),
            Self::ExtremeValues([location, scale, shape]) => write!(out, "gev:{location},{scale},{shape}"),
            Self::Etc => out.write_str("etc"),
        }
    }
}

corelane_measure::texts!(Sizes);

/// The size that belongs to a number: computed once for each of 16,384 equal shares of the numbers.
#[derive(Debug, Clone)]
pub struct Sizer {
    steps: Box<[u32]>,
}

/// 64 KiB of sizes: the largest is that of one number in 16,384.
const STEPS: usize = 1 << 14;

impl Sizer {
    /// Sizes within these bounds.
    #[must_use]
    pub fn new(sizes: Sizes, least: u32, most: u32) -> Self {
        let steps = match sizes {
            Sizes::Fixed(_) => 1,
            _ => STEPS,
        };
        let share = |step: usize| (step as f64 + 0.5) / steps as f64;
        let most = match sizes {
            Sizes::Fixed(_) | Sizes::Range(..) => most,
            _ => most.min(LARGEST_DRAWN),
        };
        let size = |step| sizes.quantile(share(step)) as u32;
        Self {
            steps: (0..steps).map(|step| size(step).clamp(least, most)).collect(),
        }
    }

    /// The size that belongs to this number.
    #[must_use]
    pub fn of(&self, number: u64) -> usize {
        match &*self.steps {
            [size] => *size as usize,
            steps => steps[(mix(number) % STEPS as u64) as usize] as usize,
        }
    }

    /// The largest.
    pub(super) fn most(&self) -> usize {
        self.steps.iter().max().map_or(0, |most| *most as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and median of the sizes of 100,000 numbers, and the largest.
    fn drawn(text: &str) -> (f64, usize, usize) {
        let sizer = Sizer::new(text.parse().unwrap(), 0, u32::MAX);
        let mut sizes: Vec<usize> = (0..100_000).map(|number| sizer.of(number)).collect();
        sizes.sort_unstable();
        let mean = sizes.iter().sum::<usize>() as f64 / 100_000.0;
        (mean, sizes[50_000], sizer.most())
    }

    #[test]
    fn sizes_have_the_published_means_and_medians() {
        assert_eq!(drawn("4KiB"), (4_096.0, 4_096, 4_096));
        let (mean, median, most) = drawn("10-19");
        assert!(
            (14.3..14.7).contains(&mean) && (14..=15).contains(&median) && most == 19,
            "{mean} {median} {most}"
        );
        // The mean of a generalised Pareto distribution is location + scale / (1 - shape).
        let (mean, ..) = drawn("pareto:0,214.476,0.348238");
        assert!((315.0..340.0).contains(&mean), "{mean}");
        // Keys of ETC: the median of generalised extreme values is location + scale ((ln 2)^-shape - 1) / shape.
        let (_, median, _) = drawn("gev:30.7984,8.20449,0.078688");
        assert_eq!(median, 33);
        // 44.155 % of the values of ETC have less than 15 bytes.
        let sizer = Sizer::new(Sizes::Etc, 0, u32::MAX);
        let small = (0..100_000).filter(|number| sizer.of(*number) < 15).count();
        assert!((43_700..44_600).contains(&small), "{small}");
    }

    #[test]
    fn texts_are_read_as_they_are_written() {
        for text in [
            "100",
            "64-1024",
            "pareto:0,214.476,0.348238",
            "gev:30.7984,8.20449,0.078688",
            "etc",
        ] {
            assert_eq!(text.parse::<Sizes>().unwrap().to_string(), text);
        }
        assert_eq!("1KiB-1MiB".parse(), Ok(Sizes::Range(1_024, 1 << 20)));
        for text in [
            "",
            "-",
            "9-8",
            "pareto:1,2",
            "pareto:1,0,1",
            "gev:a,1,1",
            "zipf:1",
            "65MiB",
        ] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }
}
