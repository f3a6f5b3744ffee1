//! Text report of a UDP run, and its metrics.

use super::loaded::UdpLoaded;
use crate::report::{finish, number, percentile, times};
use corelane_measure::metric::{Better, Metric, Sample, Show};
use corelane_measure::quantity;
use corelane_report::measurement::Measurement;
use corelane_report::page::{Page, Section};
use corelane_report::table::{Cell, Column, Table};

/// Maximum number of source addresses in the report; the JSON document has all.
const SOURCES_SHOWN: usize = 16;

impl UdpLoaded {
    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.sending_s.max(f64::MIN_POSITIVE)
    }

    fn datagrams(&self) -> Table {
        let total = &self.total;
        let mut table = Table::new(vec![
            Column::left("datagrams"),
            Column::right("count"),
            Column::right("a second"),
        ]);
        let mut row = |name: &str, count: u64| {
            let rate = Cell::shown(Some(self.per_second(count)), quantity::rate);
            table.row([Cell::from(name), Cell::count(count), rate]);
        };
        for (name, count, always) in [
            ("sent", total.sent, true),
            ("returned", total.returned, true),
            ("lost", total.lost, true),
            ("duplicated", total.duplicated, false),
            ("reordered", total.reordered, false),
            ("corrupted", total.corrupted, false),
            ("too late", total.too_late, false),
            ("on schedule, unsent", total.unsent, false),
        ] {
            if always || count > 0 {
                row(name, count);
            }
        }
        for (what, causes) in [
            ("answered", &total.errors),
            ("refused", &total.refused),
            ("answered by ICMP", &total.network_errors),
        ] {
            for (cause, count) in causes {
                row(&format!("{what}: {cause}"), *count);
            }
        }
        table
    }

    fn by_source(&self) -> Table {
        let mut table = Table::new(vec![
            Column::left("source"),
            Column::right("bucket"),
            Column::right("sockets"),
            Column::right("sent"),
            Column::right("returned"),
        ]);
        for source in self.sources.iter().take(SOURCES_SHOWN) {
            table.row([
                Cell::from(source.address.to_string()),
                Cell::number(source.bucket.map(f64::from), Show::Count),
                Cell::count(source.sockets as u64),
                Cell::count(source.sent),
                Cell::count(source.returned),
            ]);
        }
        table
    }
}

impl Measurement for UdpLoaded {
    const METRICS: &'static [Metric<Self>] = &[
        Metric::higher(
            "rate",
            "rate",
            Show::PerSecond,
            "datagrams sent per second",
            |run| Some(Sample::Number(run.per_second(run.total.sent))),
        ),
        Metric::higher(
            "return_rate",
            "returned",
            Show::PerSecond,
            "answers per second",
            |run| Some(Sample::Number(run.per_second(run.total.returned))),
        ),
        Metric::lower(
            "lost",
            "lost",
            Show::Share,
            "share of sent datagrams not answered",
            |run| (run.total.sent > 0).then(|| Sample::Number(run.total.lost as f64 / run.total.sent as f64)),
        ),
        Metric::lower(
            "p99",
            "p99",
            Show::Nanoseconds,
            "99th percentile round trip",
            |run| percentile(run.round_trip.as_ref(), |summary| summary.p99_ns),
        ),
        Metric::lower("p50", "p50", Show::Nanoseconds, "median round trip", |run| {
            percentile(run.round_trip.as_ref(), |summary| summary.p50_ns)
        }),
        Metric::lower(
            "p90",
            "p90",
            Show::Nanoseconds,
            "90th percentile round trip",
            |run| percentile(run.round_trip.as_ref(), |summary| summary.p90_ns),
        ),
        Metric::lower(
            "p999",
            "p99.9",
            Show::Nanoseconds,
            "99.9th percentile round trip",
            |run| percentile(run.round_trip.as_ref(), |summary| summary.p999_ns),
        ),
        Metric::lower("max", "longest", Show::Nanoseconds, "maximum round trip", |run| {
            percentile(run.round_trip.as_ref(), |summary| summary.max_ns)
        }),
        Metric::lower(
            "lag_p99",
            "lag p99",
            Show::Nanoseconds,
            "99th percentile schedule lag",
            |run| percentile(run.schedule_lag.as_ref(), |summary| summary.p99_ns),
        ),
        Metric::higher(
            "sent",
            "sent",
            Show::Count,
            "datagrams accepted by the kernel",
            |run| number(run.total.sent),
        ),
        Metric::higher(
            "returned",
            "returned",
            Show::Count,
            "answers, duplicates excluded",
            |run| number(run.total.returned),
        ),
        Metric::lower(
            "duplicated",
            "duplicated",
            Show::Count,
            "duplicate answers",
            |run| number(run.total.duplicated),
        ),
        Metric::lower(
            "reordered",
            "reordered",
            Show::Count,
            "answers overtaken by a later one",
            |run| number(run.total.reordered),
        ),
        Metric::lower(
            "corrupted",
            "corrupted",
            Show::Count,
            "answers that fail their check",
            |run| number(run.total.corrupted),
        ),
        Metric::lower(
            "unsent",
            "unsent",
            Show::Count,
            "datagrams on the schedule that were not sent",
            |run| number(run.total.unsent),
        ),
        Metric::lower(
            "refused",
            "refused",
            Show::Count,
            "datagrams refused by the kernel",
            |run| number(run.total.refused.values().sum()),
        ),
        Metric::new(
            "sockets",
            "sockets",
            Show::Count,
            Better::Neither,
            "sockets",
            |run| number(run.sockets as u64),
        ),
    ];

    fn described(&self) -> Page {
        let (sockets, took) = (
            quantity::count(self.sockets as u64),
            quantity::duration(self.sending_s * 1e9),
        );
        let hidden = self.sources.len().saturating_sub(SOURCES_SHOWN);
        let hidden = (hidden > 0).then(|| format!("and {hidden} more sources (--json has them all)"));
        let section = Section::new("")
            .note(format!(
                "{} from {sockets} sockets in {took}, engine {}",
                self.target, self.engine
            ))
            .notes(self.engine_reason.as_ref().map(|reason| format!("({reason})")))
            .table(self.datagrams())
            .notes(times("round trip", self.round_trip.as_ref()))
            .notes(times("schedule lag", self.schedule_lag.as_ref()))
            .table(self.by_source())
            .notes(hidden);
        let page = Page {
            subject: "UDP load".to_owned(),
            headline: format!(
                "{} datagrams to {}",
                quantity::rate(self.per_second(self.total.sent)),
                self.target
            ),
            ..Page::default()
        };
        let limited = self
            .limited_by
            .as_ref()
            .map(|why| format!("limited by the generator: {why}"));
        finish(page, section, limited)
    }
}
