//! What a scenario is: cases, each with the figures of one trial, and what follows from them.

use super::document::{Published, Request, Row, Trial};
use crate::experiment::RunningTrial;
use corelane_measure::metric::Metric;

/// A scenario.
pub(super) struct Scenario {
    /// What is sent in each trial.
    pub traffic: fn(&Request) -> String,
    /// What varies from case to case: the headers of the columns that name a row.
    pub labels: &'static [&'static str],
    /// Its figures, in the order of columns. The first one is compared first.
    pub metrics: &'static [&'static Metric<Trial>],
    /// How many of them text has: pages and CSV have all.
    pub in_text: usize,
    /// What the columns mean.
    pub legend: &'static str,
    /// Its cases, in the order of rows.
    pub cases: fn(&Request) -> anyhow::Result<Vec<Case>>,
    /// Sentences that follow from the rows; the first one is the result.
    pub conclude: fn(&[Row]) -> Vec<String>,
}

/// One case.
pub(super) struct Case {
    /// What varies, by the labels of the scenario.
    pub labels: Vec<String>,
    /// What a post says of the same.
    pub published: Option<Published>,
    /// Runs one trial with this seed.
    pub run: Run,
}

pub(super) type Run = Box<dyn Fn(&mut RunningTrial<'_>, u64) -> anyhow::Result<Trial>>;

/// A trial with these figures.
pub(super) fn counted<const N: usize>(figures: [(&str, f64); N]) -> Trial {
    Trial {
        figures: figures.map(|(name, figure)| (name.to_owned(), figure)).into(),
        ..Trial::default()
    }
}

/// Declares a metric: the figure of this name.
macro_rules! figure {
    ($better:ident, $name:literal, $header:literal, $show:expr) => {
        corelane_measure::metric::Metric::$better($name, $header, $show).read(
            |trial: &$crate::path::document::Trial| $crate::trial::number(trial.figures.get($name).copied()),
        )
    };
}
pub(super) use figure;
