//! The Universal Scalability Law, fitted by least squares.
//!
//! In: rates at several numbers of workers. Out: how fast one worker is alone, the share of the work that is serial
//! (contention), the cost of keeping workers in agreement (coherency), and where growth ends; or why nothing was
//! fitted.
//!
//! The law (Gunther, *Guerrilla Capacity Planning*, 2007, chapters 4 to 6, with the rate of one worker as third
//! parameter) says that N workers reach
//!
//! ```text
//! X(N) = lambda * N / (1 + sigma * (N - 1) + kappa * N * (N - 1))
//! ```
//!
//! Turned round, `N / X(N)` is linear in `1/lambda`, `sigma/lambda` and `kappa/lambda`, so the fit is one linear least
//! squares problem and needs no starting guess. Each residual is taken relative to its own measurement, because trials
//! at many workers are as exact in percent as those at one. Sigma and kappa are kept at 0 or above, since less than no
//! contention means nothing: growth above proportion fits as sigma = kappa = 0 and shows in the residual.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use thiserror::Error;

/// Three parameters need at least four different worker counts, or the curve passes through noise exactly.
pub const FEWEST_WORKER_COUNTS: usize = 4;

/// A fitted law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Law {
    /// Rate of one worker alone, per second.
    pub lambda_per_second: f64,
    /// Contention: the share of the work that only one worker can do at a time, 0 or more.
    pub sigma: f64,
    /// Coherency: the cost of each pair of workers agreeing, as a share of one worker's work, 0 or more.
    pub kappa: f64,
    /// The largest distance between a measurement and the law, as a share of the measurement.
    pub worst_residual: f64,
}

/// Why no law was fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotFitted {
    /// Too few different worker counts.
    #[error(
        "no scaling law was fitted: it takes {FEWEST_WORKER_COUNTS} or more different CPU counts, and there were {0}"
    )]
    TooFewWorkerCounts(usize),
    /// The measurements determine no law with a positive rate.
    #[error("no scaling law was fitted: the rates fit none with a positive rate of one worker")]
    NoSolution,
}

/// Fits the law to (workers, rate per second) pairs; several pairs for one number of workers are all used.
///
/// Pairs without workers, or whose rate is not a positive number, are ignored.
///
/// # Errors
/// When fewer than [`FEWEST_WORKER_COUNTS`] different numbers of workers are left, or the numbers determine no law.
pub fn fit(points: &[(usize, f64)]) -> Result<Law, NotFitted> {
    let mut usable = points.to_vec();
    usable.retain(|(workers, rate)| *workers > 0 && rate.is_finite() && *rate > 0.0);
    let counts: BTreeSet<usize> = usable.iter().map(|(workers, _)| *workers).collect();
    if counts.len() < FEWEST_WORKER_COUNTS {
        return Err(NotFitted::TooFewWorkerCounts(counts.len()));
    }
    // Whether sigma and kappa may differ from 0. The best fit with both at or above 0 is the best of these four
    // unconstrained ones that happens to obey: with two bounds, that is the whole search.
    let free = [(false, false), (true, false), (false, true), (true, true)];
    free.into_iter()
        .filter_map(|(sigma, kappa)| least_squares(&usable, [true, sigma, kappa]))
        .filter(|(law, _)| law.lambda_per_second > 0.0 && law.sigma >= 0.0 && law.kappa >= 0.0)
        .min_by(|(_, one), (_, other)| one.total_cmp(other))
        .map(|(law, _)| law.with_residual(&usable))
        .ok_or(NotFitted::NoSolution)
}

impl Law {
    /// The rate that the law predicts for a number of workers.
    #[must_use]
    pub fn rate(&self, workers: usize) -> f64 {
        let workers = workers as f64;
        let others = workers - 1.0;
        self.lambda_per_second * workers / (1.0 + self.sigma * others + self.kappa * workers * others)
    }

    /// The number of workers beyond which the rate falls, `sqrt((1 - sigma) / kappa)`; `None` when it never does.
    #[must_use]
    pub fn peak_workers(&self) -> Option<f64> {
        let square = (1.0 - self.sigma) / self.kappa;
        (square.is_finite() && square >= 0.0).then(|| square.sqrt())
    }

    fn with_residual(self, points: &[(usize, f64)]) -> Self {
        let residuals = points
            .iter()
            .map(|(workers, rate)| (self.rate(*workers) - rate).abs() / rate);
        let worst_residual = residuals.fold(0.0, f64::max);
        Self {
            worst_residual,
            ..self
        }
    }
}

/// `[1, N - 1, N (N - 1)] * X / N`: the sum of these times the coefficients should be 1, so a residual is relative.
fn terms((workers, rate): (usize, f64)) -> [f64; 3] {
    let count = workers as f64;
    [1.0, count - 1.0, count * (count - 1.0)].map(|term| term * rate / count)
}

/// The unconstrained least squares solution with the coefficients (`1/lambda`, `sigma/lambda`, `kappa/lambda`) that are
/// free, and the sum of its squares.
fn least_squares(points: &[(usize, f64)], free: [bool; 3]) -> Option<(Law, f64)> {
    // The rates' scale is taken out first, so that the normal equations stay well conditioned.
    let scale = points.iter().map(|point| terms(*point)[0]).fold(0.0, f64::max);
    let mut equations = [[0.0; 4]; 3];
    for point in points {
        let [one, sigma, kappa] = terms(*point).map(|term| term / scale);
        for (equation, left) in equations.iter_mut().zip([one, sigma, kappa]) {
            for (factor, right) in equation.iter_mut().zip([one, sigma, kappa, 1.0]) {
                *factor += left * right;
            }
        }
    }
    for term in (0..3).filter(|term| !free[*term]) {
        equations.iter_mut().for_each(|equation| equation[term] = 0.0);
        equations[term] = [0.0; 4];
        equations[term][term] = 1.0;
    }
    let coefficients = eliminate(equations)?.map(|solved| solved / scale);
    let residual = |point: &(usize, f64)| {
        let products = terms(*point).into_iter().zip(coefficients);
        1.0 - products.map(|(term, factor)| term * factor).sum::<f64>()
    };
    let law = Law {
        lambda_per_second: 1.0 / coefficients[0],
        sigma: coefficients[1] / coefficients[0],
        kappa: coefficients[2] / coefficients[0],
        worst_residual: 0.0,
    };
    Some((law, points.iter().map(|point| residual(point).powi(2)).sum()))
}

/// Gaussian elimination with partial pivoting of three equations, each its factors and the right-hand side; `None` when
/// they determine no single solution.
fn eliminate(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for pivot in 0..3 {
        let best = (pivot..3).max_by(|&a, &b| rows[a][pivot].abs().total_cmp(&rows[b][pivot].abs()))?;
        rows.swap(pivot, best);
        let pivot_row = rows[pivot];
        if pivot_row[pivot].abs() < f64::EPSILON {
            return None;
        }
        for row in (0..3).filter(|row| *row != pivot) {
            let factor = rows[row][pivot] / pivot_row[pivot];
            for (value, pivot_value) in rows[row].iter_mut().zip(pivot_row) {
                *value -= factor * pivot_value;
            }
        }
    }
    Some(std::array::from_fn(|index| rows[index][3] / rows[index][index]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn law(lambda_per_second: f64, sigma: f64, kappa: f64) -> Law {
        Law {
            lambda_per_second,
            sigma,
            kappa,
            worst_residual: 0.0,
        }
    }

    #[test]
    fn fewer_than_four_cpu_counts_fit_no_law() {
        let points = [(1, 100.0), (2, 190.0), (2, 191.0), (3, 270.0)];
        let refused = fit(&points).unwrap_err();
        assert_eq!(refused, NotFitted::TooFewWorkerCounts(3));
        assert_eq!(
            refused.to_string(),
            "no scaling law was fitted: it takes 4 or more different CPU counts, and there were 3"
        );
    }

    #[test]
    fn the_posts_echo_figures_show_no_contention() {
        // "Receive side scaling: testing UDP throughput", revised results: slightly more than proportional.
        let fitted = fit(&[(1, 266_000.0), (2, 512_000.0), (3, 810_000.0), (4, 1_120_000.0)]).unwrap();
        assert_eq!((fitted.sigma, fitted.kappa), (0.0, 0.0));
        assert!(
            (fitted.lambda_per_second - 268_000.0).abs() < 4_000.0,
            "{fitted:?}"
        );
        assert!(fitted.worst_residual < 0.06, "{fitted:?}");
        assert_eq!(fitted.peak_workers(), None);
    }

    #[test]
    fn the_posts_spoilt_round_shows_where_growth_ends() {
        // The same post's first round, with turbo boost and flow control left on.
        let fitted = fit(&[(1, 283_000.0), (2, 592_000.0), (3, 636_000.0), (4, 255_000.0)]).unwrap();
        assert!(fitted.kappa > 0.0, "{fitted:?}");
        assert!(fitted.peak_workers().unwrap() < 4.0, "{fitted:?}");
    }

    #[test]
    fn measurements_that_are_not_numbers_are_left_out() {
        let points = [(1, 1.0), (2, f64::NAN), (0, 5.0), (3, 0.0), (4, 4.0)];
        assert_eq!(fit(&points), Err(NotFitted::TooFewWorkerCounts(2)));
    }

    proptest! {
        #[test]
        fn a_law_is_recovered_from_its_own_rates(
            lambda in 1e3f64..1e7, sigma in 0.0f64..0.5, kappa in 0.0f64..0.05, most in 4usize..64,
        ) {
            let truth = law(lambda, sigma, kappa);
            let points: Vec<(usize, f64)> = (1..=most).map(|workers| (workers, truth.rate(workers))).collect();
            let fitted = fit(&points).unwrap();
            prop_assert!((fitted.lambda_per_second / lambda - 1.0).abs() < 1e-6, "{fitted:?}");
            prop_assert!((fitted.sigma - sigma).abs() < 1e-6, "{fitted:?}");
            prop_assert!((fitted.kappa - kappa).abs() < 1e-6, "{fitted:?}");
            prop_assert!(fitted.worst_residual < 1e-6);
        }

        #[test]
        fn a_fit_of_noisy_rates_stays_within_the_noise(
            lambda in 1e3f64..1e7, sigma in 0.0f64..0.3, kappa in 0.0f64..0.02,
            noise in proptest::collection::vec(-0.02f64..0.02, 16),
        ) {
            let truth = law(lambda, sigma, kappa);
            let noisy = |(index, noise): (usize, &f64)| (index + 1, truth.rate(index + 1) * (1.0 + noise));
            let points: Vec<(usize, f64)> = noise.iter().enumerate().map(noisy).collect();
            let fitted = fit(&points).unwrap();
            prop_assert!(fitted.sigma >= 0.0 && fitted.kappa >= 0.0);
            // The truth itself is within 2 % of every point, so the least squares fit cannot be far worse.
            prop_assert!(fitted.worst_residual < 0.09, "{fitted:?}");
        }
    }
}
