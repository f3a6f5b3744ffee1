//! Text report of a TCP run, and its metrics.

use super::loaded::{TcpCounts, TcpLoaded};
use crate::report::{by_generator, columns, fewer, more, number, page, percentile, time};
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

impl Measurement for TcpLoaded {
    const METRICS: &'static [Metric<Self>] = &[
        Metric::<Self>::higher("sent_gbit", "sent", Show::Fixed(3), "Gbit/s sent", |run| {
            Some(Sample::Number(run.sent_gbit_per_second))
        })
        .unit("Gbit/s"),
        Metric::<Self>::higher(
            "received_gbit",
            "received",
            Show::Fixed(3),
            "Gbit/s received",
            |run| Some(Sample::Number(run.received_gbit_per_second)),
        )
        .unit("Gbit/s"),
        fewer("stalls", "stalls", "stalls of connections", |run| {
            number(run.total.stalls)
        }),
        Metric::lower(
            "failed",
            "failed",
            Show::Share,
            "share of requested connections not opened or broken",
            |run| failed(&run.total),
        ),
        Metric::higher(
            "gbit_per_cpu_s",
            "per CPU",
            Show::Fixed(2),
            "Gbit per CPU second of this end",
            |run| run.gbit_per_cpu_second.map(Sample::Number),
        ),
        more("opened", "opened", "connections opened", |run| {
            number(run.total.opened)
        }),
        more("open", "open", "connections open at the end", |run| {
            number(run.total.open_at_end)
        }),
        fewer("stalled", "stalled", "connections stalled at the end", |run| {
            number(run.total.stalled_at_end)
        }),
        fewer(
            "undrained",
            "undrained",
            "connections that the server did not close in time",
            |run| number(run.total.undrained),
        ),
        fewer("retransmitted", "sent again", "segments retransmitted", |run| {
            number(run.total.retransmitted)
        }),
        fewer(
            "out_of_order",
            "disorder",
            "segments received out of order",
            |run| number(run.total.out_of_order),
        ),
        Metric::higher(
            "slowest",
            "slowest",
            Show::Bytes,
            "bytes per second of the slowest connection",
            |run| run.rates.map(|rates| Sample::Number(rates.min)),
        ),
        Metric::higher(
            "sent",
            "sent",
            Show::Bytes,
            "bytes accepted by the kernel",
            |run| number(run.total.sent_bytes),
        ),
        Metric::higher("received", "received", Show::Bytes, "bytes received", |run| {
            number(run.total.received_bytes)
        }),
        time(
            "connect_p99",
            "opening p99",
            "99th percentile time to open a connection",
            |run| percentile(run.connect, |times| times.p99_ns),
        ),
        time("lag_p99", "lag p99", "99th percentile schedule lag", |run| {
            percentile(run.schedule_lag, |times| times.p99_ns)
        }),
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
            .table(self.stalls());
        let limited = self.limited_by.as_deref().map(by_generator);
        page("TCP load", headline, section, limited)
    }
}

impl TcpLoaded {
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
