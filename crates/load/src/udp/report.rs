//! Text report of a UDP run, and its metrics.

use super::document::UdpLoadReport;
use crate::report::{Charted, Ended, by_generator, columns, page, percentile, rates, subject, time, times};
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_measure::quantity;
use corelane_report::measurement::Measurement;
use corelane_report::page::{Page, Section};
use corelane_report::table::{Cell, Table};

/// Maximum number of source addresses in the report; the JSON document has all.
const SOURCES_SHOWN: usize = 16;

impl UdpLoadReport {
    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.sending_s.max(f64::MIN_POSITIVE)
    }

    fn datagrams(&self) -> Table {
        let total = &self.total;
        let others = [
            ("dropped by own sockets", total.dropped_here),
            ("duplicated", total.duplicated),
            ("reordered", total.reordered),
            ("corrupted", total.corrupted),
            ("too late", total.too_late),
            ("on schedule, unsent", total.unsent),
        ];
        let others = others.map(|(name, count)| (name.to_owned(), count));
        let causes = [
            ("answered", &total.errors),
            ("refused", &total.refused),
            ("answered by ICMP", &total.network_errors),
        ];
        let causes = causes.into_iter().flat_map(|(what, causes)| {
            let causes = causes.iter();
            causes.map(move |(cause, count)| (format!("{what}: {cause}"), *count))
        });
        let always = [
            ("sent", total.sent),
            ("returned", total.returned),
            ("lost", total.lost),
        ];
        rates(
            "datagrams",
            self.sending_s,
            &always,
            others.into_iter().chain(causes),
        )
    }

    fn by_source(&self) -> Table {
        let mut table = columns(["source", "bucket", "sockets", "sent", "returned"]);
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

impl Measurement for UdpLoadReport {
    const METRICS: &'static [Metric<Self>] = &[
        Metric::more("rate", "rate", Show::PerSecond)
            .about("datagrams sent per second")
            .read(|run| Some(Sample::Number(run.per_second(run.total.sent)))),
        Metric::more("return_rate", "returned", Show::PerSecond)
            .about("answers per second")
            .read(|run| Some(Sample::Number(run.per_second(run.total.returned)))),
        Metric::less("lost", "lost", Show::Share)
            .about("share of sent datagrams not answered")
            .read(|run| {
                (run.total.sent > 0).then(|| Sample::Number(run.total.lost as f64 / run.total.sent as f64))
            }),
        time("p99", "p99")
            .about("99th percentile round trip")
            .read(|run| percentile(run.round_trip, |times| times.p99_ns)),
        time("p50", "p50")
            .about("median round trip")
            .read(|run| percentile(run.round_trip, |times| times.p50_ns)),
        time("p90", "p90")
            .about("90th percentile round trip")
            .read(|run| percentile(run.round_trip, |times| times.p90_ns)),
        time("p999", "p99.9")
            .about("99.9th percentile round trip")
            .read(|run| percentile(run.round_trip, |times| times.p999_ns)),
        time("max", "longest")
            .about("maximum round trip")
            .read(|run| percentile(run.round_trip, |times| times.max_ns)),
        time("lag_p99", "lag p99")
            .about("99th percentile schedule lag")
            .read(|run| percentile(run.schedule_lag, |times| times.p99_ns)),
        Metric::more("sent", "sent", Show::Count)
            .about("datagrams accepted by the kernel")
            .read(|run| Sample::count(run.total.sent)),
        Metric::more("returned", "returned", Show::Count)
            .about("answers, duplicates excluded")
            .read(|run| Sample::count(run.total.returned)),
        Metric::less("dropped_here", "dropped here", Show::Count)
            .about("datagrams dropped by the generator's own sockets")
            .read(|run| Sample::count(run.total.dropped_here)),
        Metric::less("duplicated", "duplicated", Show::Count)
            .about("duplicate answers")
            .read(|run| Sample::count(run.total.duplicated)),
        Metric::less("reordered", "reordered", Show::Count)
            .about("answers overtaken by a later one")
            .read(|run| Sample::count(run.total.reordered)),
        Metric::less("corrupted", "corrupted", Show::Count)
            .about("answers that fail their check")
            .read(|run| Sample::count(run.total.corrupted)),
        Metric::less("unsent", "unsent", Show::Count)
            .about("datagrams on the schedule that were not sent")
            .read(|run| Sample::count(run.total.unsent)),
        Metric::less("refused", "refused", Show::Count)
            .about("datagrams refused by the kernel")
            .read(|run| Sample::count(run.total.refused.values().sum())),
        Metric::more("landed", "landed", Show::Share)
            .about("share of sockets observed on their planned bucket")
            .read(|run| run.alignment.share()),
        Metric::explaining("sockets", "sockets", Show::Count)
            .about("sockets")
            .read(|run| Sample::count(run.sockets as u64)),
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
            .notes(times("round trip", self.round_trip))
            .notes(times("schedule lag", self.schedule_lag))
            .notes(self.alignment.notes())
            .table(self.alignment.table())
            .table(self.by_source())
            .notes(hidden);
        let rate = quantity::rate_of(self.per_second(self.total.sent), "datagrams");
        let headline = format!("{rate} to {}", self.target);
        let charted = Charted {
            over_time: &self.over_time,
            rate: ("datagrams per second", 1.0),
            name: "Round trip",
            durations: self.round_trip_histogram.as_ref(),
        };
        let ended = Ended {
            notes: &self.notes,
            interrupted: self.interrupted,
            failed_because: self.failed_because.as_deref(),
            limited: self.limited_by.as_deref().map(by_generator),
        };
        page(&subject(&self.schema), headline, (Some(charted), section), &ended)
    }
}
