//! Sentences that text and page share.

use super::{ScaleReport, Scaling};
use corelane_measure::quantity;
use corelane_measure::scalability::Law;
use corelane_serve::udp::Model;

impl ScaleReport {
    /// What locality can mean in this bed; `None` where a device chose the CPU.
    #[must_use]
    pub fn locality_note(&self) -> Option<&'static str> {
        let simple = ["namespaces", "user_namespace", "loopback"].contains(&self.bed.kind.as_str());
        let by_cpu = self.steps.iter().any(|step| step.model == Model::IncomingCpu);
        match (simple, by_cpu) {
            (false, _) => None,
            (true, false) => Some(
                "Locality here is by placement: on veth and loopback the receive path runs on the sender's CPU, so \
                 aligned clients make it true and crossed clients must make it false.",
            ),
            (true, true) => Some(
                "Locality here is by placement: on veth and loopback the receive path runs on the sender's CPU, so \
                 aligned clients make it true and crossed clients must make it false, except under SO_INCOMING_CPU, \
                 which chooses the worker by the receiving CPU and so the wrong bucket's where clients are crossed.",
            ),
        }
    }

    /// What the scaling law says, or why there is none.
    #[must_use]
    pub fn scaling_sentence(&self) -> Option<String> {
        self.scaling.sentence()
    }

    /// Frames that are missing without a cause, or too many without one, over all steps and gaps.
    #[must_use]
    pub fn unexplained_frames(&self) -> u64 {
        let gaps = self.steps.iter().flat_map(|step| step.unexplained.by_gap());
        gaps.filter_map(|(_, frames)| frames)
            .fold(0, |sum, frames| sum.saturating_add(frames.unsigned_abs()))
    }
}

impl Scaling {
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
