//! Scales and their ticks: map numbers to positions on a drawing.

/// A linear scale from 0 to a round maximum.
pub struct Linear {
    /// The largest tick.
    pub maximum: f64,
    /// The ticks, from 0.
    pub ticks: Vec<f64>,
}

impl Linear {
    /// The scale that holds `largest` with about `wanted` steps of 1, 2 or 5 times a power of ten.
    pub fn to(largest: f64, wanted: usize) -> Self {
        let largest = if largest.is_finite() && largest > 0.0 {
            largest
        } else {
            1.0
        };
        let rough = largest / wanted as f64;
        let magnitude = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * magnitude)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(rough);
        let count = (largest / step - 1e-9).ceil().max(1.0) as usize;
        let ticks: Vec<f64> = (0..=count).map(|tick| tick as f64 * step).collect();
        Self {
            maximum: count as f64 * step,
            ticks,
        }
    }

    /// The position of a value, from 0 to 1; values outside are clamped.
    pub fn place(&self, value: f64) -> f64 {
        (value / self.maximum).clamp(0.0, 1.0)
    }
}

/// A logarithmic scale over whole decades.
pub struct Decades {
    lowest: i32,
    highest: i32,
}

/// Decades up to which 2 and 5 times a power of ten are ticks, too.
const FEW_DECADES: i32 = 1;

impl Decades {
    /// The decades that hold both values, at least one.
    pub fn over(smallest: f64, largest: f64) -> Self {
        let exponent = |value: f64| {
            if value > 0.0 && value.is_finite() {
                value.log10()
            } else {
                0.0
            }
        };
        let lowest = exponent(smallest).floor() as i32;
        let highest = (exponent(largest) - 1e-9).ceil() as i32;
        Self {
            lowest,
            highest: highest.max(lowest + 1),
        }
    }

    /// The powers of ten, from the lowest; over one decade also 2 and 5 times the lowest.
    pub fn ticks(&self) -> Vec<f64> {
        let between: &[f64] = match self.highest - self.lowest {
            span if span <= FEW_DECADES => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let times = |exponent| between.iter().map(move |factor| factor * 10f64.powi(exponent));
        let below = (self.lowest..self.highest).flat_map(times);
        below.chain([10f64.powi(self.highest)]).collect()
    }

    /// The value at a position from 0 to 1.
    pub fn at(&self, place: f64) -> f64 {
        10f64.powf(f64::from(self.lowest) + place * f64::from(self.highest - self.lowest))
    }

    /// The position of a value, from 0 to 1; values outside are clamped.
    pub fn place(&self, value: f64) -> f64 {
        let span = f64::from(self.highest - self.lowest);
        ((value.max(f64::MIN_POSITIVE).log10() - f64::from(self.lowest)) / span).clamp(0.0, 1.0)
    }
}

/// Whole numbers from 1 to `last`, at most `most` of them, in even steps but for the end, which is always `last`.
pub fn whole_ticks(last: usize, most: usize) -> Vec<usize> {
    let step = last.div_ceil(most.max(1)).max(1);
    let mut ticks: Vec<usize> = (1..=last).step_by(step).collect();
    if let Some(end) = ticks.last_mut() {
        *end = last;
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            Linear::to(1_720_000.0, 4).ticks,
            [0.0, 500_000.0, 1_000_000.0, 1_500_000.0, 2_000_000.0]
        );
        assert_eq!(Linear::to(1.0, 4).ticks, [0.0, 0.5, 1.0]);
        assert_eq!(Linear::to(f64::NAN, 4).ticks, [0.0, 0.5, 1.0]);
        assert_eq!(Decades::over(20_000.0, 3_000_000.0).ticks(), [1e4, 1e5, 1e6, 1e7]);
        assert_eq!(Decades::over(10.0, 10.0).ticks(), [10.0, 20.0, 50.0, 100.0]);
        assert_eq!(whole_ticks(8, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(whole_ticks(64, 8), [1, 9, 17, 25, 33, 41, 49, 64]);
        assert_eq!(whole_ticks(1, 8), [1]);
        assert_eq!(whole_ticks(0, 8), Vec::<usize>::new());
    }

    proptest! {
        #[test]
        fn a_scale_holds_its_values(largest in 1e-9f64..1e18, wanted in 1usize..10) {
            let scale = Linear::to(largest, wanted);
            prop_assert!(scale.maximum >= largest * 0.999_999);
            prop_assert!(scale.ticks.len() <= wanted + 2, "{:?}", scale.ticks);
            prop_assert!(scale.place(largest) <= 1.0);
        }
    }
}
