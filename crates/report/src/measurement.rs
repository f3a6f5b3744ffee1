//! Single runs whose metrics are declared: tiles, the table of all metrics, CSV and gates follow from the declarations.

use crate::gate::{Figure, percent};
use crate::page::{Page, Rendered, Section};
use crate::table::{Cell, Column, Rows, Table};
use corelane_measure::metric::Metric;

/// Number of metrics shown as key numbers of the page.
const TILES: usize = 4;

/// The result of a single run.
pub trait Measurement: Sized + 'static {
    /// All metrics for gates and CSV, the key numbers first.
    const METRICS: &'static [Metric<Self>];

    /// The report without the parts derived from [`Self::METRICS`].
    fn described(&self) -> Page;

    /// The percentile of the durations whose 99th the metric `p99` has, in nanoseconds. `None` without durations.
    fn percentile(&self, _percent: f64) -> Option<f64> {
        None
    }

    /// The metrics available to gates.
    #[must_use]
    fn gated() -> Vec<Figure> {
        Self::METRICS.iter().map(Figure::of).collect()
    }
}

impl<M: Measurement> Rendered for M {
    fn page(&self) -> Page {
        let mut page = self.described();
        let known = |metric: &'static Metric<M>| Some((metric, metric.words_of(self)?));
        let mut all = Table::new(["metric", "value", "what it is"].map(Column::left).to_vec());
        for (index, (metric, words)) in M::METRICS.iter().filter_map(known).enumerate() {
            all.row([metric.name, &words, metric.about]);
            if index < TILES {
                let about = Some(metric.about.to_owned()).filter(|about| about != metric.label);
                page.tiles.push((metric.label, words, about));
            }
        }
        page.section(Section::new("All metrics").page_table(all));
        page
    }

    fn table(&self) -> Table {
        let column = |metric: &Metric<M>| Column::right(metric.header).unit(metric.unit).key(metric.name);
        let metrics = M::METRICS.iter();
        let table = metrics.fold(Rows::of([self]), |table, metric| {
            table.column(column(metric), |run| {
                Cell::number(metric.of_trial(run), metric.show)
            })
        });
        table.table()
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        let figure = |metric: &Metric<M>| (Figure::of(metric), metric.of_trial(self));
        M::METRICS.iter().map(figure).collect()
    }

    fn figure(&self, name: &str) -> Option<f64> {
        match M::METRICS.iter().find(|metric| metric.name == name) {
            Some(metric) => metric.of_trial(self),
            None => self.percentile(percent(name)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Gate;
    use corelane_measure::metric::{Sample, Show};

    struct Run {
        sent: u64,
        seconds: f64,
    }

    impl Measurement for Run {
        const METRICS: &'static [Metric<Self>] = &[
            Metric::more("rate", "rate", Show::PerSecond)
                .about("frames per second")
                .read(|run: &Self| {
                    let rate = Sample::Number(run.sent as f64 / run.seconds);
                    (run.seconds > 0.0).then_some(rate)
                }),
            Metric::more("sent", "sent", Show::Count)
                .about("frames")
                .read(|run: &Self| Some(Sample::Number(run.sent as f64))),
        ];

        fn described(&self) -> Page {
            let mut page = Page::default();
            page.section(Section::new("").note(format!("{} frames", self.sent)));
            page
        }
    }

    #[test]
    fn every_form_follows_from_the_declarations() {
        let run = Run {
            sent: 3_000,
            seconds: 2.0,
        };
        assert_eq!(run.page().to_text(), "3000 frames\n");
        assert_eq!(run.table().to_csv(), "rate,sent\r\n1500,3000\r\n");
        let html = run.page().to_html();
        for expected in ["1.50 k/s", "3,000", "frames per second"] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
    }

    #[test]
    fn what_a_run_does_not_have_is_empty_and_fails_its_gate() {
        let run = Run {
            sent: 1,
            seconds: 0.0,
        };
        assert_eq!(run.table().to_csv(), "rate,sent\r\n,1\r\n");
        let gate = Gate::parse("rate < 1", &Run::gated()).unwrap();
        assert!(gate.failed(|name| run.figure(name)).is_some());
    }
}
