//! The law of growth, and how it reads.

use corelane_measure::quantity;
use corelane_measure::scalability::{self, Law};
use serde::{Deserialize, Serialize};

/// The law of growth of a rate with CPUs, or why none was fitted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// The fitted law.
    pub law: Option<Law>,
    /// Why there is none.
    pub not_fitted_because: Option<String>,
}

impl Scaling {
    /// Fits the law to rates by the number of CPUs.
    #[must_use]
    pub fn of(points: &[(usize, f64)]) -> Self {
        let fitted = scalability::fit(points);
        Self {
            law: fitted.as_ref().ok().copied(),
            not_fitted_because: fitted.err().map(|reason| reason.to_string()),
        }
    }

    /// What the law says, or why there is none.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        match (&self.law, &self.not_fitted_because) {
            (Some(law), _) => Some(law_sentence(law)),
            (None, Some(reason)) => Some(sentence_case(reason)),
            (None, None) => None,
        }
    }
}

fn law_sentence(law: &Law) -> String {
    let peak = match law.peak_workers() {
        Some(peak) => format!("growth ends at about {peak:.0} CPUs"),
        None => "it has no end of growth".to_owned(),
    };
    format!(
        "Universal Scalability Law: {} on one CPU, contention {}, coherency {} a pair; {peak}; every \
         measurement is within {} of it.",
        quantity::rate(law.lambda_per_second),
        quantity::percent(law.sigma),
        quantity::percent(law.kappa),
        quantity::percent(law.worst_residual),
    )
}

fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!(
            "{}{}.",
            first.to_uppercase(),
            letters.as_str().trim_end_matches('.')
        ),
        None => String::new(),
    }
}
