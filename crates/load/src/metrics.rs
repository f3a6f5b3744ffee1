//! The metrics of a running generator: counts of each worker, durations and failures. Each generator declares its own;
//! timelines, the exposition and the live view follow from the declarations.

use crate::live::LiveWorkers;
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_report::exposition::{Exposed, Exposition, Labels};
use std::collections::BTreeMap;

const PREFIX: &str = "corelane_load";

/// Declares what failed by cause, to be completed with what that is.
pub(crate) const fn failures() -> Metric<u64> {
    Metric::less("failures_by_cause_total", "failed", Show::Count).read(|count| Sample::count(*count))
}

/// Declares what a worker counts while it runs. Each line has the metric of a count: which way is better, form, constant,
/// field, name, header, unit and description.
macro_rules! live_counts {
    (
        $(#[$about_all:meta])*
        pub struct $live:ident {
            $( $better:ident $show:ident $metric:ident $field:ident: $name:literal, $header:literal, $unit:literal, $about:literal; )+
        }
    ) => {
        $(#[$about_all])*
        #[derive(Debug, Default)]
        pub struct $live {
            $( pub(crate) $field: corelane_worker::Counter, )+
        }

        impl $live {
            $(
                #[doc = $about]
                pub const $metric: Metric<Self> = Metric::$better($name, $header, Show::$show)
                    .unit($unit)
                    .about($about)
                    .read(|live| Sample::count(live.$field.get()));
            )+

            #[allow(dead_code, reason = "some generators publish a part of their counts")]
            pub(crate) const ALL: &'static [Metric<Self>] = &[$(Self::$metric),+];
        }
    };
}
pub(crate) use live_counts;

/// A running generator at one moment.
#[derive(Debug)]
pub struct Running<C: 'static> {
    pub(crate) kind: &'static str,
    pub(crate) counted: &'static [Metric<C>],
    pub(crate) live: LiveWorkers<C>,
    /// Durations over all workers.
    pub(crate) times: Option<(&'static Metric<Histogram>, Histogram)>,
    /// Failures by cause over all workers.
    pub(crate) failed: Vec<(&'static Metric<u64>, BTreeMap<String, u64>)>,
}

impl<C> Exposed for Running<C> {
    fn expose(&self, exposition: &mut Exposition) {
        let about = "The generator: its kind and version.";
        exposition.info(PREFIX, about, self.kind, Labels::new());
        for metric in self.counted {
            let workers = self.live.iter().enumerate();
            let labelled = workers.map(|(worker, live)| (of_worker(worker, live.cpu), &live.counts));
            exposition.add(PREFIX, metric, labelled);
        }
        if let Some((metric, times)) = &self.times {
            exposition.add(PREFIX, metric, [(Labels::new(), times)]);
        }
        for (metric, failed) in &self.failed {
            let causes = failed
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
