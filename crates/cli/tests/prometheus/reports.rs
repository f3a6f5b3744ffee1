//! What the expressions of the dashboard are to give, by the reports of the runs.

use super::scraper::Prometheus;
use super::wanted::Expected::{self, AtMost, Increase};
use super::wanted::Wanted;
use serde_json::Value;
use std::collections::BTreeMap;

/// The reports of generators by instance.
pub type Loads = BTreeMap<&'static str, Value>;

fn each(report: &Value, field: &str) -> Vec<f64> {
    let buckets = report["buckets"].as_array().unwrap().iter();
    buckets.map(|bucket| number(&bucket[field])).collect()
}

/// The sum of a field over the buckets of a report.
fn sum(report: &Value, field: &str) -> f64 {
    each(report, field).iter().sum()
}

pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Mean over greatest.
fn balance(loads: &[f64]) -> Expected {
    let most = loads.iter().fold(0.0, |most, load| load.max(most));
    Expected::Value(loads.iter().sum::<f64>() / loads.len() as f64 / most, 1e-9)
}

/// Counts by name in fields of the buckets of a report, summed over the buckets, by their labels.
fn named(report: &Value, fields: &[&str], labels: impl Fn(&str) -> String) -> BTreeMap<String, f64> {
    let mut counts = BTreeMap::<String, f64>::new();
    for bucket in report["buckets"].as_array().unwrap() {
        let counted = fields.iter().filter_map(|field| bucket[field].as_object());
        for (name, count) in counted.flatten() {
            *counts.entry(labels(name)).or_default() += number(count);
        }
    }
    counts
}

/// The rates of a server's buckets, and their sum; `metric` counts what `field` does.
fn add_loads(wanted: &mut Wanted, server: &str, metric: &str, report: &Value, field: &str) {
    wanted.rate("instance", metric, server, Increase(sum(report, field)));
    for (bucket, count) in each(report, field).into_iter().enumerate() {
        let labels = format!("{bucket} {server}");
        wanted.rate("instance, bucket", metric, &labels, Increase(count));
    }
    wanted.add(
        "corelane_serve_balance_ratio",
        server,
        balance(&each(report, field)),
    );
}

/// Steering of a server, and locality of its buckets.
fn add_steering(wanted: &mut Wanted, server: &str, report: &Value) {
    let [right, samples] = ["right", "samples"].map(|part| sum(report, &format!("steering_{part}")));
    let rate = |part: &str| format!("sum by (instance) (rate(corelane_serve_steering_{part}_total))");
    let steering = Expected::Value(right / samples, 0.1);
    wanted.add(&format!("{} / {}", rate("ok"), rate("checked")), server, steering);
    for bucket in report["buckets"].as_array().unwrap() {
        let [right, samples] = ["locality_right", "locality_samples"].map(|field| number(&bucket[field]));
        let labels = format!("{} {} {server}", bucket["bucket"], bucket["cpu"]);
        // Without permission to watch the device, datagrams have no samples.
        if samples > 0.0 {
            let locality = Expected::Value(right / samples, 1e-9);
            wanted.add("corelane_serve_locality_ratio", &labels, locality);
        }
    }
}

/// What servers of connections have in common.
fn add_connections(wanted: &mut Wanted, server: &str, report: &Value) {
    let accepted = Increase(sum(report, "accepted"));
    wanted.rate("instance", "serve_accepted_connections_total", server, accepted);
    for direction in ["received", "sent"] {
        let count = Increase(sum(report, &format!("bytes_{direction}")));
        let metric = format!("serve_{direction}_bytes_total");
        wanted.rate("instance", &metric, server, count);
    }
    add_steering(wanted, server, report);
    let causes = ["errors", "broken", "accept_failed"];
    let errors = named(report, &causes, |cause| format!("{cause} {server}"));
    wanted.by_name("cause", "serve_errors_by_cause_total", &errors, AtMost);
    let open = Expected::Value(sum(report, "open"), 0.0);
    let expression = "sum by (instance) (corelane_serve_open_connections)";
    wanted.add(expression, server, open);
}

pub fn add_udp_server(wanted: &mut Wanted, report: &Value) {
    add_loads(wanted, "udp", "serve_received_datagrams_total", report, "seen");
    for (metric, field) in [
        ("answered_datagrams", "answered"),
        ("received_bytes", "seen_bytes"),
    ] {
        let count = Increase(sum(report, field));
        wanted.rate("instance", &format!("serve_{metric}_total"), "udp", count);
    }
    add_steering(wanted, "udp", report);
    let rate = "by (instance) (rate(corelane_serve_received_datagrams_total))";
    let Expected::Value(even, _) = balance(&each(report, "seen")) else {
        panic!("a value");
    };
    wanted.add(
        &format!("avg {rate} / max {rate}"),
        "udp",
        Expected::Value(even, 0.1),
    );
    let moved = number(&report["rebalanced"]["moved"]);
    assert!(moved > 0.0, "{report}");
    let expression = "corelane_serve_rebalance_moved_entries_total";
    wanted.add(expression, "udp", Expected::Value(moved, 0.0));
    let dropped = named(report, &["dropped"], |cause| format!("{cause} udp"));
    wanted.by_name("cause", "serve_dropped_by_cause_total", &dropped, AtMost);
}

pub fn add_http_server(wanted: &mut Wanted, report: &Value) {
    add_loads(wanted, "http", "serve_requests_total", report, "requests");
    add_connections(wanted, "http", report);
    let responses = named(report, &["answers"], |status| format!("http {status}"));
    // The first of a status, here of the invalid request, is no increase.
    let increase = |count| {
        if count < 100.0 {
            AtMost(count)
        } else {
            Increase(count)
        }
    };
    wanted.by_name("status", "serve_responses_total", &responses, increase);
}

pub fn add_tcp_server(wanted: &mut Wanted, report: &Value) {
    add_connections(wanted, "tcp", report);
    let loads: Vec<f64> = each(report, "bytes_received");
    wanted.add("corelane_serve_balance_ratio", "tcp", balance(&loads));
}

/// A receiver of packets, and what its queues have received as of the last scrape.
pub fn add_packet_server(wanted: &mut Wanted, report: &Value, queues: &BTreeMap<String, f64>) {
    for (metric, field) in [("received", "received"), ("dropped", "receive_dropped")] {
        let count = Increase(number(&report[field]));
        wanted.rate(
            "instance",
            &format!("serve_{metric}_frames_total"),
            "packets",
            count,
        );
    }
    let counted = report["queues"].as_array().unwrap().iter();
    let counted = counted.map(|queue| (format!("packets {}", queue["queue"]), number(&queue["received"])));
    assert_eq!(*queues, counted.collect());
}

pub fn add_bridge(wanted: &mut Wanted, report: &Value) {
    for link in report["links"].as_array().unwrap() {
        let labels = format!("bridge {}", link["link"].as_str().unwrap());
        for direction in ["received", "sent"] {
            let metric = format!("bridge_frames_{direction}_total");
            wanted.rate(
                "instance, link",
                &metric,
                &labels,
                Increase(number(&link[direction])),
            );
        }
    }
    for (reason, count) in report["dropped"].as_object().unwrap() {
        let labels = format!("bridge {reason}");
        wanted.rate(
            "instance, reason",
            "bridge_frames_dropped_total",
            &labels,
            Increase(number(count)),
        );
    }
}

pub fn add_generators(wanted: &mut Wanted, loads: &Loads, prometheus: &Prometheus) {
    add_datagram_generator(wanted, &loads["load-udp"]);
    add_request_generators(wanted, &loads["load-http"], &loads["load-failing"]);
    for (cause, count) in loads["load-packets"]["dropped"].as_object().unwrap() {
        let labels = format!("{cause} load-packets");
        let count = AtMost(number(count));
        wanted.rate("instance, cause", "load_failures_by_cause_total", &labels, count);
    }
    add_traffic(wanted, loads, prometheus);
}

fn add_datagram_generator(wanted: &mut Wanted, report: &Value) {
    let total = &report["total"];
    let returned = Increase(number(&total["returned"]));
    wanted.rate("instance", "load_returned_datagrams_total", "load-udp", returned);
    for cause in ["corrupted", "duplicated", "too_late"] {
        let labels = format!("{cause} load-udp");
        let count = AtMost(number(&total[cause]));
        wanted.rate("instance, cause", "load_failures_by_cause_total", &labels, count);
    }
    add_quantile(
        wanted,
        "load-udp",
        "round_trip",
        "0.99",
        &report["round_trip"]["p99_ns"],
    );
}

/// A generator of requests that all succeed, and one of requests that all fail.
fn add_request_generators(wanted: &mut Wanted, http: &Value, failing: &Value) {
    for (instance, ok) in [
        ("load-http", Increase(number(&http["requests"]["ok"]))),
        ("load-failing", Increase(0.0)),
    ] {
        wanted.rate("instance", "load_ok_requests_total", instance, ok);
    }
    for (cause, not_opened) in failing["connections"]["failed"].as_object().unwrap() {
        let failed = number(&failing["requests"][cause]);
        for (metric, count) in [("failures", failed), ("not_opened", number(not_opened))] {
            let metric = format!("load_{metric}_by_cause_total");
            let labels = format!("{cause} load-failing");
            wanted.rate("instance, cause", &metric, &labels, AtMost(count));
        }
    }
    for (share, field) in [("0.5", "p50_ns"), ("0.99", "p99_ns")] {
        add_quantile(wanted, "load-http", "latency", share, &http["latency"][field]);
    }
}

/// A quantile of a histogram, in nanoseconds in the report.
fn add_quantile(wanted: &mut Wanted, instance: &str, metric: &str, share: &str, reported: &Value) {
    let rate = format!("sum by (instance, le) (rate(corelane_load_{metric}_seconds_bucket))");
    // Within its bucket, whose bounds differ by up to 2.5.
    let time = Expected::Value(number(reported) / 1e9, 1.5);
    wanted.add(&format!("histogram_quantile({share}, {rate})"), instance, time);
}

/// Frames and bytes of every generator that counts them.
fn add_traffic(wanted: &mut Wanted, loads: &Loads, prometheus: &Prometheus) {
    // What was sent before the first scrape is no increase.
    let mut sent = |metric: &str, instance: &str, sent: &Value| {
        let first = prometheus.first(&format!("corelane_{metric}{{instance=\"{instance}\"}}"));
        wanted.rate("instance", metric, instance, Increase(number(sent) - first));
    };
    let packets = &loads["load-packets"];
    sent("load_sent_frames_total", "load-packets", &packets["sent"]);
    for (instance, bytes) in [
        ("load-packets", &packets["sent_bytes"]),
        ("load-tcp", &loads["load-tcp"]["total"]["sent_bytes"]),
        ("load-http", &loads["load-http"]["bytes"]["sent"]),
        ("load-failing", &loads["load-failing"]["bytes"]["sent"]),
    ] {
        sent("load_sent_bytes_total", instance, bytes);
    }
    let received = Increase(number(&loads["load-http"]["bytes"]["received"]));
    for (instance, received) in [
        ("load-http", received),
        ("load-failing", Increase(0.0)),
        ("load-tcp", Increase(0.0)),
    ] {
        wanted.rate("instance", "load_received_bytes_total", instance, received);
    }
}
