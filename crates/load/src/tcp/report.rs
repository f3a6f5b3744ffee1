//! Text report of a TCP run, and its metrics.

use super::document::{TcpCounts, TcpLoadReport};
use crate::report::{Charted, Ended, by_generator, columns, page, percentile, subject, time};
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_measure::quantity;
use corelane_report::measurement::Measurement;
use corelane_report::page::{Page, Section};
use corelane_report::table::{Cell, Table};

/// Maximum number of stalled connections in the report; the JSON document has more.
const STALLS_SHOWN: usize = 8;

fn failed(total: &TcpCounts) -> Option<Sample<'static>> {
    let failed = total.not_opened.total() + total.broken.total();
    (total.asked > 0).then(|| Sample::Number(failed as f64 / total.asked as f64))
}

impl Measurement for TcpLoadReport {
    const METRICS: &'static [Metric<Self>] = &[
        Metric::more("sent_gbit", "sent", Show::Fixed(3))
            .unit("Gbit/s")
            .about("Gbit/s sent")
            .read(|run| Some(Sample::Number(run.sent_gbit_per_second))),
        Metric::more("received_gbit", "received", Show::Fixed(3))
            .unit("Gbit/s")
            .about("Gbit/s received")
            .read(|run| Some(Sample::Number(run.received_gbit_per_second))),
        Metric::less("stalls", "stalls", Show::Count)
            .about("stalls of connections")
            .read(|run| Sample::count(run.total.stalls)),
        Metric::less("failed", "failed", Show::Share)
            .about("share of requested connections not opened or broken")
            .read(|run| failed(&run.total)),
        Metric::more("gbit_per_cpu_s", "per CPU", Show::Fixed(2))
            .about("Gbit per CPU second of this end")
            .read(|run| run.gbit_per_cpu_second.map(Sample::Number)),
        Metric::more("opened", "opened", Show::Count)
            .about("connections opened")
            .read(|run| Sample::count(run.total.opened)),
        Metric::more("landed", "landed", Show::Share)
            .about("share of connections observed on their planned bucket")
            .read(|run| run.alignment.share()),
        Metric::more("open", "open", Show::Count)
            .about("connections open at the end")
            .read(|run| Sample::count(run.total.open_at_end)),
        Metric::less("stalled", "stalled", Show::Count)
            .about("connections stalled at the end")
            .read(|run| Sample::count(run.total.stalled_at_end)),
        Metric::less("undrained", "undrained", Show::Count)
            .about("connections that the server did not close in time")
            .read(|run| Sample::count(run.total.undrained)),
        Metric::less("retransmitted", "sent again", Show::Count)
            .about("segments retransmitted")
            .read(|run| Sample::count(run.total.retransmitted)),
        Metric::less("out_of_order", "disorder", Show::Count)
            .about("segments received out of order")
            .read(|run| Sample::count(run.total.out_of_order)),
        Metric::more("slowest", "slowest", Show::Bytes)
            .about("bytes per second of the slowest connection")
            .read(|run| run.rates.map(|rates| Sample::Number(rates.min))),
        Metric::more("sent", "sent", Show::Bytes)
            .about("bytes accepted by the kernel")
            .read(|run| Sample::count(run.total.sent_bytes)),
        Metric::more("received", "received", Show::Bytes)
            .about("bytes received")
            .read(|run| Sample::count(run.total.received_bytes)),
        time("connect_p99", "opening p99")
            .about("99th percentile time to open a connection")
            .read(|run| percentile(run.connect, |times| times.p99_ns)),
        time("lag_p99", "lag p99")
            .about("99th percentile schedule lag")
            .read(|run| percentile(run.schedule_lag, |times| times.p99_ns)),
    ];

    fn described(&self) -> Page {
        let headline = format!(
            "{} Gbit/s sent, {} Gbit/s received with {}",
            quantity::fixed(self.sent_gbit_per_second, 3),
            quantity::fixed(self.received_gbit_per_second, 3),
            self.plan.target
        );
        let section = Section::new("")
            .notes(self.moved())
            .notes(self.troubles())
            .notes(self.alignment.notes())
            .table(self.alignment.table())
            .table(self.stalls());
        let charted = Charted {
            over_time: &self.over_time,
            rate: ("Gbit/s", 8.0 / 1e9),
            name: "Time to open a connection",
            durations: self.connect_histogram.as_ref(),
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

impl TcpLoadReport {
    /// Number of connections, and bytes moved.
    fn moved(&self) -> Vec<String> {
        let total = &self.total;
        let [opened, asked] = [total.opened, total.asked].map(quantity::count);
        let [opening, running] =
            [self.opening_s, self.running_s].map(|seconds| quantity::duration(seconds * 1e9));
        let [sent, received] = [total.sent_bytes, total.received_bytes].map(quantity::bytes);
        let rates = [self.sent_gbit_per_second, self.received_gbit_per_second];
        let [sending, receiving] = rates.map(|rate| quantity::fixed(rate, 3));
        let cost = quantity::or_missing(self.gbit_per_cpu_second, |gbit| quantity::fixed(gbit, 2));
        let (target, direction, engine) = (self.plan.target, self.plan.transfer.direction, &self.engine);
        let mut lines = vec![format!(
            "{target}: {direction}, {opened} of {asked} connections opened in {opening}, {running}, engine {engine}"
        )];
        lines.extend(self.engine_reason.as_ref().map(|reason| format!("({reason})")));
        lines.push(format!(
            "sent {sent} ({sending} Gbit/s), received {received} ({receiving} Gbit/s), {cost} Gbit per CPU second"
        ));
        lines
    }

    /// Errors and stalls, and the distribution of rates over connections.
    fn troubles(&self) -> Vec<String> {
        let total = &self.total;
        let counts = [
            total.stalls,
            total.stalled_at_end,
            total.retransmitted,
            total.out_of_order,
        ];
        let [stalls, at_end, again, disorder] = counts.map(quantity::count);
        let mut lines = vec![format!(
            "stalls {stalls} ({at_end} at the end), retransmitted segments {again}, out of order {disorder}"
        )];
        if total.undrained > 0 {
            let undrained = quantity::count(total.undrained);
            lines.push(format!("not ended by the server in time: {undrained}"));
        }
        for (what, failures) in [("not opened", &total.not_opened), ("broken", &total.broken)] {
            for (failure, count) in failures.occurred() {
                lines.push(format!("{what}: {} {}", quantity::count(count), failure.words()));
            }
        }
        lines.extend(self.rates.map(|rates| {
            let [slowest, median, fastest] =
                [rates.min, rates.median, rates.max].map(|rate| quantity::bytes(rate as u64));
            format!("bytes/s per connection: slowest {slowest}, median {median}, fastest {fastest}")
        }));
        lines
    }

    fn stalls(&self) -> Table {
        let mut table = columns(["stood still", "since", "for", "bytes"]);
        for stall in self.stalled.iter().take(STALLS_SHOWN) {
            let to_the_end = if stall.ended { "" } else { ", to the end" };
            let [since, lasted] =
                [stall.since_s, stall.for_s].map(|seconds| quantity::duration(seconds * 1e9));
            table.row([
                Cell::from(quantity::or_missing(stall.local, |local| local.to_string())),
                Cell::from(since),
                Cell::from(format!("{lasted}{to_the_end}")),
                Cell::number(Some(stall.bytes as f64), Show::Bytes),
            ]);
        }
        table
    }
}
