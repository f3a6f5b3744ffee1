//! Text report of a TCP run, and its metrics.

use super::document::TcpLoadReport;
use crate::report::{BY_GENERATOR, Charted, metrics, page, share, subject};
use crate::streams::TlsCounts;
use corelane_measure::metric::{Metric, Show};
use corelane_measure::quantity;
use corelane_report::measurement::Measurement;
use corelane_report::page::{Caveat, Page, Section};
use corelane_report::table::{Cell, Rows, Table};

/// Maximum number of stalled connections in the report; the JSON document has more.
const STALLS_SHOWN: usize = 8;

impl Measurement for TcpLoadReport {
    const METRICS: &'static [Metric<Self>] = metrics! { run =>
        #[compared] more Fixed(3) "sent_gbit", "sent" ["Gbit/s"]: "Gbit/s sent" = run.sent_gbit_per_second;
        #[compared] more Fixed(3) "received_gbit", "received" ["Gbit/s"]: "Gbit/s received"
            = run.received_gbit_per_second;
        #[compared] less Count "stalls", "stalls": "stalls of connections" = run.total.stalls;
        #[compared] less Share "failed", "failed": "share of requested connections not opened or broken"
            = share(run.total.not_opened.total() + run.total.broken.total(), run.total.asked);
        #[compared] more Fixed(2) "gbit_per_cpu_s", "per CPU" ["Gbit/CPU s"]: "Gbit per CPU second of this end"
            = run.gbit_per_cpu_second;
        more Count "opened", "opened": "connections opened" = run.total.opened;
        more Share "landed", "landed": "share of connections observed on their planned bucket" = run.alignment.share();
        more Count "open", "open": "connections open at the end" = run.total.open_at_end;
        less Count "stalled", "stalled": "connections stalled at the end" = run.total.stalled_at_end;
        less Count "undrained", "undrained": "connections that the server did not close in time" = run.total.undrained;
        less Count "retransmitted", "sent again": "segments retransmitted" = run.total.retransmitted;
        less Count "out_of_order", "disorder": "segments received out of order" = run.total.out_of_order;
        more Bytes "slowest", "slowest": "bytes per second of the slowest connection" = run.rates.map(|rates| rates.min);
        more Bytes "sent", "sent": "bytes accepted by the kernel" = run.total.sent_bytes;
        more Bytes "received", "received": "bytes received" = run.total.received_bytes;
        less Nanoseconds "connect_p99", "opening p99": "99th percentile time to open a connection"
            = run.connect.map(|times| times.p99_ns);
        less Nanoseconds "lag_p99", "lag p99": "99th percentile schedule lag" = run.schedule_lag.map(|lag| lag.p99_ns);
    };

    fn described(&self) -> Page {
        let headline = format!(
            "{} Gbit/s sent, {} Gbit/s received with {}",
            quantity::fixed(self.sent_gbit_per_second, 3),
            quantity::fixed(self.received_gbit_per_second, 3),
            self.plan.server()
        );
        let section = Section::new("")
            .notes(self.moved())
            .notes(self.troubles())
            .notes(self.tls.iter().flat_map(TlsCounts::notes))
            .notes(self.alignment.notes())
            .table(self.alignment.table())
            .table(self.stalls());
        let charted = Charted {
            rate: ("Gbit/s", 8.0 / 1e9),
            name: "Time to open a connection",
            durations: self.connect_histogram.as_ref(),
        };
        let title = (&*subject(&self.schema), headline);
        let mut page = page(title, Some(charted), section, (&self.outcome, BY_GENERATOR));
        let unverified = self.tls.iter().filter_map(TlsCounts::caveat);
        page.caveats.extend(unverified.map(Caveat::from));
        page
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
        let (server, direction, engine) = (self.plan.server(), self.plan.transfer.direction, &self.engine);
        let mut lines = vec![format!(
            "{server}: {direction}, {opened} of {asked} connections opened in {opening}, {running}, engine {engine}"
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
        let time = |seconds: f64| quantity::duration(seconds * 1e9);
        Rows::of(self.stalled.iter().take(STALLS_SHOWN))
            .left("stood still", |stall| {
                quantity::or_missing(stall.local, |local| local.to_string())
            })
            .right("since", |stall| time(stall.since_s))
            .right("for", |stall| match stall.ended {
                true => time(stall.for_s),
                false => format!("{}, to the end", time(stall.for_s)),
            })
            .right("bytes", |stall| {
                Cell::number(Some(stall.bytes as f64), Show::Bytes)
            })
            .table()
    }
}
