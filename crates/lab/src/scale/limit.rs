//! The limit of growth: its cause, a sentence about it, and the measurements of every suspect.

use corelane_measure::quantity::{self, or_missing};
use corelane_measure::scalability::{self, Law};
use corelane_report::text::sentence_case;
use serde::{Deserialize, Serialize};

/// Below this idle share a CPU counts as busy: the kernel accounts in ticks, and the clock and the experiment itself
/// use one or two percent.
pub(crate) const BUSY_IDLE_SHARE: f64 = 0.05;

/// The reason if CPU times are unknown.
const NO_CPU_TIMES: &str = "unknown: CPU times are missing";

/// The limit of growth, in words and with evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The kind of limit.
    pub cause: LimitCause,
    /// One sentence: the last line of the text.
    pub sentence: String,
    /// The supporting measurements, one per line.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// All suspects.
    #[serde(default)]
    pub suspects: Vec<Suspect>,
    /// Why the numbers are doubtful, which the sentence begins with; also the first of the evidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

/// Kinds of limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitCause {
    /// The server had no CPU time left.
    ServerCpu,
    /// The client had no CPU time left; the server could have served more.
    ClientCpu,
    /// The kernel's receive path (softirq) had no CPU time left.
    ReceivePathCpu,
    /// A control group of the server, or of both sides, had used up its CPU quota.
    Quota,
    /// Client and server shared CPUs, which had no time left.
    SharedCpus,
    /// The kernel's receive path had no CPU time left, or dropped frames.
    KernelReceive,
    /// The generator could not send more; the server's limit is unknown.
    Generator,
    /// The generator sent the configured rate.
    OfferedRate,
    /// Socket buffers overflowed, with CPU time left.
    SocketBuffers,
    /// Frames were dropped between the two ends.
    Path,
    /// A listener's queue was full: connections waited or were refused.
    ListenerBacklog,
    /// Memory ran out.
    Memory,
    /// The client had no descriptors or ports for more connections.
    Resources,
    /// Each connection waited for its response, with CPU time left: more connections would increase the rate.
    Connections,
    /// Frames or connections reached the wrong bucket.
    Steering,
    /// No measurement explains the limit.
    #[default]
    Unknown,
}

impl LimitCause {
    /// What completes "limited by" in a headline; `None` if it is unknown.
    const fn words(self) -> Option<&'static str> {
        Some(match self {
            Self::ServerCpu => "the server\u{2019}s CPU time",
            Self::ClientCpu => "the client\u{2019}s CPU time",
            Self::ReceivePathCpu | Self::KernelReceive => "the kernel\u{2019}s receive path",
            Self::Quota => "a CPU quota",
            Self::SharedCpus => "CPU time",
            Self::Generator => "the generator",
            Self::OfferedRate => "the offered rate",
            Self::SocketBuffers => "socket buffers",
            Self::Path => "drops on the path",
            Self::ListenerBacklog => "the listener\u{2019}s backlog",
            Self::Memory => "memory",
            Self::Resources => "the client\u{2019}s descriptors and ports",
            Self::Connections => "the number of connections",
            Self::Steering => "frames on wrong buckets",
            Self::Unknown => return None,
        })
    }
}

/// A suspect and its measurements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    /// The suspect.
    pub name: SuspectName,
    /// Whether it was the limit.
    pub is_limit: bool,
    /// Its measurements.
    pub evidence: String,
}

/// The possible limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspectName {
    /// The generator: its CPUs, descriptors and ports.
    Client,
    /// The server's CPUs.
    Server,
    /// The kernel's receive path: softirq, backlogs, socket buffers.
    KernelReceive,
    /// The listeners' queues.
    ListenerBacklog,
    /// Memory of any kind.
    Memory,
}

corelane_measure::words!(SuspectName);

impl SuspectName {
    /// The name in reports.
    pub(crate) fn words(self) -> String {
        self.to_string().replace('_', " ")
    }
}

/// What separates the result from the limit in a sentence.
const LIMIT_WAS: &str = "; the limit was ";

impl Limit {
    /// A headline that ends in the limit.
    pub(crate) fn headline(&self, result: String) -> String {
        match self.cause.words() {
            Some(cause) => format!("{result}, limited by {cause}"),
            None => result,
        }
    }

    /// The sentence without the result, which the headline has.
    pub(crate) fn lead(&self) -> String {
        match self.sentence.split_once(LIMIT_WAS) {
            Some((_, limit)) if self.doubts.is_empty() => format!("The limit was {limit}"),
            Some((_, limit)) => format!("Doubtful: the limit was {limit}"),
            None => self.sentence.clone(),
        }
    }

    /// The limit of a run without a valid trial.
    pub(crate) fn unknown() -> Self {
        Self {
            sentence: "No trial gave a result, so the limit is unknown.".to_owned(),
            ..Self::default()
        }
    }

    /// The limit of numbers that are doubtful for these reasons, if any.
    pub(crate) fn doubted(mut self, doubts: Vec<String>) -> Self {
        if !doubts.is_empty() {
            self.sentence = format!("Doubtful: {}", self.sentence);
        }
        self.evidence = doubts.iter().cloned().chain(self.evidence).collect();
        self.doubts = doubts;
        self
    }
}

/// Above this linearity the rate at one bucket is too low: CPUs cannot do more than in proportion, save for caches.
const MOST_LINEARITY: f64 = 1.1;

/// Above this share of CPU time used by other programs, a rate says little about the server.
const MOST_OTHERS_SHARE: f64 = 0.1;

/// Why the numbers of a step are doubtful: its growth, and the CPU time that other programs used.
pub(crate) fn doubts(linearity: Option<f64>, active: usize, others: Option<f64>) -> Vec<String> {
    let others = others.filter(|share| *share > MOST_OTHERS_SHARE).map(|share| {
        let share = quantity::percent(share);
        format!("other programs used at least {share} of the CPUs' time; stop them and repeat")
    });
    let linearity = linearity.filter(|_| active > 1);
    let growth = linearity.and_then(|linearity| {
        let times = format!("linearity {linearity:.2} is");
        if linearity > MOST_LINEARITY {
            Some(format!(
                "{times} above {MOST_LINEARITY}, so the rate at one bucket is too low"
            ))
        } else if linearity * (active as f64) < 1.0 {
            Some(format!(
                "{times} below 1/{active}, so {active} buckets do less than one"
            ))
        } else {
            None
        }
    });
    others.into_iter().chain(growth).collect()
}

/// A cause, and the words that complete "the limit was".
pub(crate) type Found = (LimitCause, String);

/// Returns the steering limit if less than all of `what` reached the right bucket.
pub(crate) fn steering(right: Option<f64>, what: &str) -> Option<Found> {
    let because = format!("steering: {what} reached the wrong bucket, so the rates mean little");
    right
        .filter(|right| *right < 1.0)
        .map(|_| (LimitCause::Steering, because))
}

/// The limit of a step without drops and with `idle` CPU time left: the configured load.
pub(crate) fn asked_for(idle: Option<f64>, cause: LimitCause, what: &str) -> Found {
    match idle {
        Some(idle) => (
            cause,
            format!("{what}: {} of CPU time was left", quantity::percent(idle)),
        ),
        None => (LimitCause::Unknown, NO_CPU_TIMES.to_owned()),
    }
}

/// `bucket` or `buckets`.
pub(crate) const fn buckets(count: usize) -> &'static str {
    if count == 1 { "bucket" } else { "buckets" }
}

/// A share in percent.
pub(crate) fn percent(share: Option<f64>) -> String {
    or_missing(share, quantity::percent)
}

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
    pub(crate) fn sentence(&self) -> Option<String> {
        match (&self.law, &self.not_fitted_because) {
            (Some(law), _) => Some(law_sentence(law)),
            (None, Some(reason)) => Some(format!("{}.", sentence_case(reason.trim_end_matches('.')))),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_that_no_cpu_explains_and_other_programs_come_first_in_the_verdict() {
        for (linearity, active, others, doubt) in [
            (Some(1.0), 2, Some(0.05), None),
            (Some(1.93), 2, None, Some("linearity 1.93 is above 1.1")),
            (Some(0.4), 2, None, Some("linearity 0.40 is below 1/2")),
            (Some(0.5), 2, None, None),
            (
                Some(1.0),
                1,
                Some(0.42),
                Some("at least 42.0 % of the CPUs' time"),
            ),
        ] {
            let limit = Limit {
                sentence: "It did.".to_owned(),
                ..Limit::default()
            };
            let limit = limit.doubted(doubts(linearity, active, others));
            match doubt {
                None => assert_eq!((limit.sentence.as_str(), limit.doubts.len()), ("It did.", 0)),
                Some(doubt) => {
                    assert_eq!(limit.sentence, "Doubtful: It did.");
                    assert!(limit.evidence[0].contains(doubt), "{limit:?}");
                }
            }
        }
    }
}
