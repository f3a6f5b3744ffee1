//! What a scenario is: cases, each with the figures of one trial, and what follows from them.

use super::row::{Published, Row, Trial};
use crate::experiment::RunningTrial;
use corelane_measure::metric::Metric;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What to run, and what one such experiment has of its own.
pub trait Asked: Clone + Serialize + DeserializeOwned + 'static {
    /// The schema that this version writes.
    const SCHEMA: &'static str;

    /// The subject of the page.
    fn subject(&self) -> String;

    /// What the table has.
    fn title(&self) -> String;

    /// Trials of each case, and the seed of all draws.
    fn turns(&self) -> (u32, u64);

    /// What is run.
    fn scenario(&self) -> &'static Scenario<Self>;

    /// The figure that is always compared.
    fn main(&self) -> &'static Metric<Trial> {
        self.scenario().metrics[0]
    }

    /// The row whose figures are those of the whole.
    fn of_whole<'a>(&self, rows: &'a [Row]) -> Option<&'a Row> {
        rows.last()
    }
}

/// A scenario of requests `R`.
pub struct Scenario<R: 'static> {
    /// What is sent in each trial.
    pub traffic: fn(&R) -> String,
    /// What varies from case to case: the headers of the columns that name a row, each with the unit if it is a number.
    pub labels: &'static [(&'static str, &'static str)],
    /// Its figures, in the order of columns.
    pub metrics: &'static [&'static Metric<Trial>],
    /// How many of them text has: pages and CSV have all.
    pub in_text: usize,
    /// What the columns mean.
    pub legend: &'static str,
    /// Its cases, in the order of rows.
    pub cases: fn(&R) -> anyhow::Result<Vec<Case>>,
    /// Sentences that follow from the rows; the first one is the result.
    pub conclude: fn(&[Row]) -> Vec<String>,
}

/// One case.
pub struct Case {
    /// What varies, by the labels of the scenario.
    pub labels: Vec<String>,
    /// What a post says of the same.
    pub published: Option<Published>,
    /// Runs one trial with this seed.
    pub run: Run,
}

/// Runs one trial of a case.
pub type Run = Box<dyn Fn(&mut RunningTrial<'_>, u64) -> anyhow::Result<Trial>>;

/// A trial with these figures.
pub(crate) fn counted<const N: usize>(figures: [(&str, f64); N]) -> Trial {
    Trial {
        figures: figures.map(|(name, figure)| (name.to_owned(), figure)).into(),
        ..Trial::default()
    }
}

/// Declares a metric: the figure of this name.
macro_rules! figure {
    ($better:ident, $name:literal, $header:literal, $show:expr) => {
        corelane_measure::metric::Metric::$better($name, $header, $show)
            .read(|trial: &$crate::cases::Trial| $crate::trial::number(trial.figures.get($name).copied()))
    };
}
pub(crate) use figure;
