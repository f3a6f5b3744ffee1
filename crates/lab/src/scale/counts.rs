//! What experiments over datagrams count at five places, from the clients to the server and back, and its metrics.

use crate::trial::Trial;
use corelane_measure::metric::{Metric, Show};
use serde::{Deserialize, Serialize};

/// The counts of a trial, flattened into its document: frames, or requests, each of one frame. `None` if not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// What the clients sent.
    pub generated: u64,
    /// What the server host's device counted.
    pub received: Option<u64>,
    /// What the server read.
    pub seen: Option<u64>,
    /// What the server answered; a sink does not.
    pub answered: Option<u64>,
    /// Answers that the clients received.
    pub returned: Option<u64>,
}

impl Counts {
    /// The counts in their order.
    #[must_use]
    pub fn places(&self) -> [Option<u64>; 5] {
        let generated = Some(self.generated);
        [generated, self.received, self.seen, self.answered, self.returned]
    }
}

/// A trial that has them.
pub(crate) trait Counted: Trial {
    fn counts(&self) -> &Counts;
}

/// The metrics of the five counts, in their order.
pub(crate) const fn metrics<T: Counted>() -> [Metric<T>; 5] {
    [
        Metric::explaining("generated_pps", "generated", Show::PerSecond)
            .about("Sent by the clients, per second.")
            .read(|trial| trial.head().rate(trial.counts().places()[0])),
        Metric::more("received_pps", "received", Show::PerSecond)
            .about("Counted by the server host's device, per second.")
            .read(|trial| trial.head().rate(trial.counts().places()[1])),
        Metric::more("seen_pps", "seen", Show::PerSecond)
            .about("Read by the server, per second.")
            .read(|trial| trial.head().rate(trial.counts().places()[2])),
        Metric::more("answered_pps", "answered", Show::PerSecond)
            .about("Answered per second: by the server's count, or by its host's kernel's, which counts merged datagrams once.")
            .read(|trial| trial.head().rate(trial.counts().places()[3])),
        Metric::more("returned_pps", "returned", Show::PerSecond)
            .about("Answers that came back to the clients, per second.")
            .read(|trial| trial.head().rate(trial.counts().places()[4])),
    ]
}
