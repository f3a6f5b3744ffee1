//! The metrics of a running generator, as far as its workers publish them: counts of each worker, and the live data that
//! its live view shows, too. Each generator declares its own.

use crate::failure::Failures;
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_report::exposition::{Exposed, Exposition, Labels};

const PREFIX: &str = "corelane_load";

static FAILURES: Metric<u64> = Metric::less("failures_by_cause_total", "failed", Show::Count)
    .about("Requests or connections in progress that failed, by cause.")
    .read(|count| Sample::count(*count));

static NOT_OPENED: Metric<u64> = Metric::less("not_opened_by_cause_total", "not opened", Show::Count)
    .about("Failed attempts to open a connection, by cause.")
    .read(|count| Sample::count(*count));

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
    /// Failures, and failed attempts to open a connection, over all workers.
    pub(crate) failures: Option<[Failures; 2]>,
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
        for (metric, failures) in [&FAILURES, &NOT_OPENED]
            .into_iter()
            .zip(self.failures.iter().flatten())
        {
            let occurred: Vec<_> = failures.occurred().collect();
            let causes = occurred.iter().map(|(failure, count)| {
                let cause = failure.name().to_owned();
                (vec![("cause", cause)], count)
            });
            exposition.add(PREFIX, metric, causes);
        }
    }
}

/// The labels of a worker, which stays on its CPU.
fn of_worker(worker: usize, cpu: u32) -> Labels {
    vec![("worker", worker.to_string()), ("cpu", cpu.to_string())]
}
