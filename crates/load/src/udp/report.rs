//! Text report of a UDP run, and its metrics.

use super::document::UdpLoadReport;
use super::protocol::DatagramProtocol;
use crate::report::{BY_GENERATOR, Charted, metrics, page, rates, share, subject, times};
use crate::streams::OwnCounts;
use corelane_measure::counters::Counters;
use corelane_measure::metric::{Metric, Show};
use corelane_measure::quantity;
use corelane_report::measurement::Measurement;
use corelane_report::page::{Page, Section};
use corelane_report::table::{Cell, Rows, Table};

/// Maximum number of source addresses in the report; the JSON document has all.
const SOURCES_SHOWN: usize = 16;

/// Opening that takes longer is worth a line, if it is not short beside the run.
const SLOW_OPENING_S: f64 = 1.0;

impl<P: DatagramProtocol> UdpLoadReport<P> {
    pub(super) fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.sending_s.max(f64::MIN_POSITIVE)
    }

    fn datagrams(&self) -> Table {
        let total = &self.total;
        let others = [
            ("dropped by own sockets", total.dropped_here),
            ("with bad checksum", total.bad_checksum),
            ("duplicated", total.duplicated),
            ("reordered", total.reordered),
            ("corrupted", total.corrupted),
            ("too late", total.too_late),
            ("on schedule, unsent", total.unsent),
        ];
        let others = others.map(|(name, count)| (name.to_owned(), count));
        let causes = total.by_cause().flat_map(|(_, what, causes)| {
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
            others.into_iter().chain(causes).chain(total.own.in_words()),
        )
    }

    fn by_source(&self) -> Table {
        Rows::of(self.sources.iter().take(SOURCES_SHOWN))
            .left("source", |source| source.address.to_string())
            .right("bucket", |source| {
                Cell::number(source.bucket.map(f64::from), Show::Count)
            })
            .count("sockets", |source| source.sockets as u64)
            .count("sent", |source| source.sent)
            .count("returned", |source| source.returned)
            .table()
    }
}

impl<P: DatagramProtocol> Measurement for UdpLoadReport<P> {
    const METRICS: &'static [Metric<Self>] = metrics! { run =>
        #[compared] more PerSecond "rate", "rate": "datagrams sent per second" = run.per_second(run.total.sent);
        #[compared] more PerSecond "return_rate", "returned": "answers per second" = run.per_second(run.total.returned);
        #[compared] less Share "lost", "lost": "share of sent datagrams not answered"
            = share(run.total.lost, run.total.sent);
        #[compared] less Nanoseconds "p99", "p99": "99th percentile round trip"
            = run.round_trip.map(|times| times.p99_ns);
        #[compared] less Nanoseconds "p50", "p50": "median round trip" = run.round_trip.map(|times| times.p50_ns);
        less Nanoseconds "p90", "p90": "90th percentile round trip" = run.round_trip.map(|times| times.p90_ns);
        less Nanoseconds "p95", "p95": "95th percentile round trip" = run.round_trip.and_then(|times| times.p95_ns);
        #[compared] less Nanoseconds "p999", "p99.9": "99.9th percentile round trip"
            = run.round_trip.map(|times| times.p999_ns);
        less Nanoseconds "max", "longest": "maximum round trip" = run.round_trip.map(|times| times.max_ns);
        less Nanoseconds "lag_p99", "lag p99": "99th percentile schedule lag" = run.schedule_lag.map(|lag| lag.p99_ns);
        more Count "sent", "sent": "datagrams accepted by the kernel" = run.total.sent;
        more Count "returned", "returned": "answers, duplicates excluded" = run.total.returned;
        less Count "dropped_here", "dropped here": "datagrams dropped by the generator's own sockets" = run.total.dropped_here;
        less Count "bad_checksum", "bad checksum": "datagrams that came with a bad checksum" = run.total.bad_checksum;
        less Count "duplicated", "duplicated": "duplicate answers" = run.total.duplicated;
        less Count "reordered", "reordered": "answers overtaken by a later one" = run.total.reordered;
        less Count "corrupted", "corrupted": "answers that fail their check" = run.total.corrupted;
        less Count "unsent", "unsent": "datagrams on the schedule that were not sent" = run.total.unsent;
        less Count "refused", "refused": "datagrams refused by the kernel" = <u64 as Counters>::sum(run.total.refused.values());
        more Share "hits", "hits": "share of the keys asked for that a cache had" = hits(&run.total.own);
        less Count "wrong", "wrong": "answers that no correct cache gives" = run.total.own.wrong();
        more Share "landed", "landed": "share of sockets observed on their planned bucket" = run.alignment.share();
        explaining Count "sockets", "sockets": "sockets" = run.sockets as u64;
    };

    fn percentile(&self, percent: f64) -> Option<f64> {
        let time = self.round_trip_histogram.as_ref()?.percentile(percent)?;
        Some(time as f64)
    }

    fn described(&self) -> Page {
        let (sockets, took) = (
            quantity::count(self.sockets as u64),
            quantity::duration(self.sending_s * 1e9),
        );
        let hidden = self.sources.len().saturating_sub(SOURCES_SHOWN);
        let hidden = (hidden > 0).then(|| format!("and {hidden} more sources (--json has them all)"));
        let slow_opening = (self.opening_s > (self.sending_s / 2.0).max(SLOW_OPENING_S)).then(|| {
            let took = quantity::duration(self.opening_s * 1e9);
            format!("opening {sockets} sockets took {took}, before the duration began")
        });
        let section = Section::new("")
            .note(format!(
                "{} from {sockets} sockets in {took}, engine {}",
                self.target, self.engine
            ))
            .notes(self.engine_reason.as_ref().map(|reason| format!("({reason})")))
            .notes(slow_opening)
            .table(self.datagrams())
            .notes(self.total.own.lines())
            .notes(times("round trip", self.round_trip))
            .notes(times("schedule lag", self.schedule_lag))
            .notes(self.alignment.notes())
            .table(self.alignment.table())
            .table(self.by_source())
            .notes(hidden);
        let rate = quantity::rate_of(self.per_second(self.total.sent), "datagrams");
        let headline = format!("{rate} to {}", self.target);
        let charted = Charted {
            rate: ("datagrams per second", 1.0),
            name: "Round trip",
            durations: self.round_trip_histogram.as_ref(),
        };
        let title = (&*subject(&self.schema), headline);
        page(title, Some(charted), section, (&self.outcome, BY_GENERATOR))
    }
}

/// The share of the keys asked for that were found.
fn hits(own: &impl OwnCounts) -> Option<f64> {
    let [found, all] = own.hits()?;
    share(found, all)
}
