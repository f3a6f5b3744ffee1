//! A table of each series: requests with what they cost and how long they took, or bytes with what they cost and what TCP had
//! to mend.

use crate::documents::streams::{Protocol, Segments, Series, Step, StreamsReport};
use corelane_measure::histogram::Summary;
use corelane_measure::quantity;
use corelane_report::html::markup::{Markup, classed, plain};
use corelane_report::html::tables::{self, Cell, Heading, number, whole};

/// The tables.
pub(super) fn tables(report: &StreamsReport) -> Markup {
    let table = match report.protocol {
        Protocol::Http => requests,
        Protocol::Tcp => bytes,
    };
    let of = |series: Series<'_>| plain("h3", series.shape().title()).with(table(&series));
    let note = "Linearity is the rate at N buckets over N times the rate at one, \u{b1} half the range of the rounds. CPU time is \
                that of all processes of a side, with the receive path that the kernel ran in their name.";
    let tables: Markup = report.series().into_iter().map(of).collect();
    tables.with(classed("p", "note", note))
}

fn two_decimals(value: f64) -> String {
    quantity::fixed(value, 2)
}

fn linearity(step: &Step) -> Cell {
    number(step.linearity, |linearity| {
        let spread = step.linearity_spread;
        spread.map_or_else(|| two_decimals(linearity), |spread| spread.display(2))
    })
}

fn requests(series: &Series<'_>) -> Markup {
    let headings: [Heading; 13] = [
        ("buckets", "active"),
        ("requests", "/s"),
        ("payload", "Gb/s"),
        ("linearity", ""),
        ("server CPU", "\u{b5}s/request"),
        ("client CPU", "\u{b5}s/request"),
        ("idle", ""),
        ("softirq", ""),
        ("median", "latency"),
        ("p99", "latency"),
        ("p99.9", "latency"),
        ("steered right", ""),
        ("trials", ""),
    ];
    let rows = series.steps.iter().map(|step| {
        let latency = |of: fn(&Summary) -> u64| {
            number(
                step.latency.as_ref().map(|latency| of(latency) as f64),
                quantity::duration,
            )
        };
        vec![
            whole(step.shape.buckets_active as u64),
            number(step.requests_per_s, quantity::metric),
            number(step.gbit_s, two_decimals),
            linearity(step),
            number(step.server_cpu_us_per_request, two_decimals),
            number(step.client_cpu_us_per_request, two_decimals),
            number(step.idle_share(), quantity::percent),
            number(step.softirq_share(), quantity::percent),
            latency(|latency| latency.p50_ns),
            latency(|latency| latency.p99_ns),
            latency(|latency| latency.p999_ns),
            number(step.steering_ok, quantity::percent),
            whole(step.trials as u64),
        ]
    });
    tables::table(&headings, 1, rows)
}

fn bytes(series: &Series<'_>) -> Markup {
    let headings: [Heading; 11] = [
        ("buckets", "active"),
        ("payload", "Gb/s"),
        ("linearity", ""),
        ("server", "B/CPU s"),
        ("client", "B/CPU s"),
        ("idle", ""),
        ("softirq", ""),
        ("steered right", ""),
        ("segments", "sent again"),
        ("segments", "out of order"),
        ("stalls", ""),
    ];
    let rows = series.steps.iter().map(|step| {
        let segments = |of: fn(&Segments) -> u64| step.segments.as_ref().and_then(|told| whole(of(told)));
        vec![
            whole(step.shape.buckets_active as u64),
            number(step.gbit_s, two_decimals),
            linearity(step),
            number(step.server_bytes_per_cpu_s, quantity::metric),
            number(step.client_bytes_per_cpu_s, quantity::metric),
            number(step.idle_share(), quantity::percent),
            number(step.softirq_share(), quantity::percent),
            number(step.steering_ok, quantity::percent),
            segments(|segments| segments.sent_again),
            segments(|segments| segments.out_of_order),
            segments(|segments| segments.stalls),
        ]
    });
    tables::table(&headings, 1, rows)
}
