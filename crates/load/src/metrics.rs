//! The metrics of a running generator, as far as its workers publish them: counts of each worker, and the live data that
//! its live view shows, too. Each generator declares its own.

use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_report::exposition::{Exposed, Exposition, Labels};
use std::collections::BTreeMap;

const PREFIX: &str = "corelane_load";

/// Declares what failed by cause, to be completed with what that is.
pub(crate) const fn failures() -> Metric<u64> {
    Metric::less("failures_by_cause_total", "failed", Show::Count).read(|count| Sample::count(*count))
}

/// A running generator at one moment.
#[derive(Debug)]
pub struct Running<W: 'static> {
    /// `udp`, `http`, `tcp` or `packets`.
    pub(crate) kind: &'static str,
    /// What is known of each worker.
    pub(crate) metrics: &'static [Metric<W>],
    /// CPU and counts of each worker.
    pub(crate) workers: Vec<(u32, W)>,
    /// Durations over all workers.
    pub(crate) times: Option<(&'static Metric<Histogram>, Histogram)>,
    /// Failures by cause over all workers.
    pub(crate) failures: Vec<(&'static Metric<u64>, BTreeMap<String, u64>)>,
}

impl<W> Exposed for Running<W> {
    fn expose(&self, exposition: &mut Exposition) {
        let about = "The generator: its kind and version.";
        exposition.info(PREFIX, about, self.kind, Labels::new());
        for metric in self.metrics {
            let workers = self.workers.iter().enumerate();
            let labelled = workers.map(|(worker, (cpu, counts))| (of_worker(worker, *cpu), counts));
            exposition.add(PREFIX, metric, labelled);
        }
        if let Some((metric, times)) = &self.times {
            exposition.add(PREFIX, metric, [(Labels::new(), times)]);
        }
        for (metric, failures) in &self.failures {
            let causes = failures
                .iter()
                .map(|(cause, count)| (vec![("cause", cause.clone())], count));
            exposition.add(PREFIX, metric, causes);
        }
    }
}

/// The labels of a worker, which stays on its CPU.
fn of_worker(worker: usize, cpu: u32) -> Labels {
    vec![("worker", worker.to_string()), ("cpu", cpu.to_string())]
}
