//! What a document has of its cases: rows, which follow from the raw trials alone, and those.

use crate::trial::{TrialHead, trial};
use corelane_measure::metric::{Measured, Metric, Show, Values};
use corelane_serve::bridge::Dispatched;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The numbers of one trial, by the names of their metrics.
pub(crate) type Figures = BTreeMap<String, f64>;

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
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// The first row that has these labels, whatever their names.
    pub(crate) fn find<'a, const N: usize>(rows: &'a [Row], labels: [&str; N]) -> Option<&'a Row> {
        let has = |row: &Row, label: &str| row.labels.values().any(|own| own == label);
        rows.iter().find(|row| labels.iter().all(|label| has(row, label)))
    }

    /// The figure of this name.
    pub(crate) fn number(&self, name: &'static str) -> Option<f64> {
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
    pub(crate) fn of(labels: &[(&str, &str)], numbers: &[(&str, f64)]) -> Row {
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
