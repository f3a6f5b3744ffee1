//! The document of `corelane lab path`. Rows follow from the raw trials alone.

use crate::document::{Head, document};
use crate::trial::{TrialHead, trial};
use corelane_measure::metric::{Measured, Metric, Show, Values};
use corelane_measure::words;
use corelane_serve::bridge::Dispatched;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema that this version writes.
pub const SCHEMA: &str = "corelane/path/1";

/// The scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScenarioName {
    /// Datagrams in fragments, and where they are made whole.
    Fragments,
    /// Methods and policies of dispatch, under overload.
    Dispatch,
    /// Software RSS, RPS and no steering.
    SoftwareRss,
    /// Many flows in one tunnel.
    Tunnels,
    /// Segments of interleaved flows, merged.
    Coalesce,
}

words!(ScenarioName);

/// The numbers of one trial, by the names of their metrics.
pub(super) type Figures = BTreeMap<String, f64>;

/// What to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The scenario.
    pub scenario: ScenarioName,
    /// Packets of each trial.
    pub packets: u64,
    /// Buckets, each with a worker of its own.
    pub buckets: u16,
    /// Trials of each case.
    pub rounds: u32,
    /// The seed of all draws.
    pub seed: u64,
}

/// The whole document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathReport {
    /// What all documents begin with.
    #[serde(flatten)]
    pub head: Head,
    /// What was run.
    pub plan: Request,
    /// One per case, in order.
    pub rows: Vec<Row>,
    /// Every trial as it was counted.
    pub trials: Vec<Trial>,
    /// Sentences; the first one is the result.
    pub conclusions: Vec<String>,
}

document!(PathReport, [SCHEMA]);

/// One case, over all rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its step.
    pub step: usize,
    /// What varies from case to case.
    pub labels: BTreeMap<String, String>,
    /// What a post says of the same: other machines, another system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
    /// Its figures: medians.
    #[serde(flatten)]
    pub values: Values,
}

/// A figure that was published elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The figure, as the post has it.
    pub figure: String,
    /// The title of the post.
    pub post: String,
}

impl Row {
    /// What a label says; empty if there is none.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// The first row that has these labels, whatever their names.
    pub(super) fn find<'a, const N: usize>(rows: &'a [Row], labels: [&str; N]) -> Option<&'a Row> {
        let has = |row: &Row, label: &str| row.labels.values().any(|own| own == label);
        rows.iter().find(|row| labels.iter().all(|label| has(row, label)))
    }

    /// The figure of this name.
    pub(super) fn number(&self, name: &'static str) -> Option<f64> {
        Metric::<Trial>::explaining(name, "", Show::Count).of(self)
    }
}

impl Measured for Row {
    fn values(&self) -> &Values {
        &self.values
    }
}

/// One round of one case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The trial's step, round and status.
    #[serde(flatten)]
    pub head: TrialHead,
    /// Its figures, by name.
    #[serde(default)]
    pub figures: Figures,
    /// What a bridge dispatched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Dispatched>,
}

impl From<Figures> for Trial {
    fn from(figures: Figures) -> Trial {
        Trial {
            figures,
            ..Trial::default()
        }
    }
}

trial!(Trial);

#[cfg(test)]
impl Row {
    /// A row with these labels and numbers.
    pub(super) fn of(labels: &[(&str, &str)], numbers: &[(&str, f64)]) -> Row {
        let mut row = Row {
            labels: labels
                .iter()
                .map(|(name, label)| ((*name).to_owned(), (*label).to_owned()))
                .collect(),
            ..Row::default()
        };
        for (name, number) in numbers {
            row.values.set_number(name, Some(*number));
        }
        row
    }
}
