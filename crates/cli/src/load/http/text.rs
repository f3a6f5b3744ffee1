//! What `corelane load http` tells people: a line a second while it runs, and a summary.

use corelane_load::http::{ConnectionCounts, HttpLoaded, HttpProgress, RequestCounts};
use corelane_report::histogram::Summary;
use corelane_report::quantity;
use corelane_report::table::{Column, Table};
use std::time::Duration;

/// Progress since the last line.
pub fn line(last: HttpProgress, now: HttpProgress, passed: Duration) -> String {
    let rate = |now: u64, last: u64| quantity::rate((now - last) as f64 / passed.as_secs_f64());
    if now.opening {
        return format!(
            "opening: {:>11} connections open, {:>10}",
            quantity::count(now.open),
            rate(now.open, last.open.min(now.open))
        );
    }
    format!(
        "ok {:>10}  failed {:>10}  received {:>12}  open {:>11}  in all {:>13} ok, {} failed",
        rate(now.ok, last.ok),
        rate(now.failed, last.failed),
        bits(now.received_bytes - last.received_bytes, passed.as_secs_f64()),
        quantity::count(now.open),
        quantity::count(now.ok),
        quantity::count(now.failed),
    )
}

/// The whole run.
pub fn summary(loaded: &HttpLoaded) -> String {
    let mut text = format!(
        "{}: {} loop, {} of {} connections opened in {}, requests for {}, engine {}\n",
        loaded
            .plan
            .pools
            .first()
            .map_or_else(String::new, |pool| pool.target.to_string()),
        loaded.model,
        quantity::count(loaded.connections.opened - loaded.connections.opened_again),
        quantity::count(loaded.connections.asked),
        quantity::duration(loaded.opening_s * 1e9),
        quantity::duration(loaded.running_s * 1e9),
        loaded.engine,
    );
    if let Some(reason) = &loaded.engine_reason {
        text.push_str(&format!("({reason})\n"));
    }
    text.push_str(&requests(&loaded.requests, loaded.running_s));
    text.push_str(&connections(&loaded.connections));
    text.push_str(&times("latency", loaded.latency.as_ref()));
    text.push_str(&times("connect", loaded.connect.as_ref()));
    text.push_str(&times("schedule lag", loaded.schedule_lag.as_ref()));
    text.push_str(&format!(
        "received {} ({}), sent {}\n",
        quantity::bytes(loaded.bytes.received),
        bits(loaded.bytes.received, loaded.running_s),
        quantity::bytes(loaded.bytes.sent),
    ));
    text.push_str(&cost(loaded));
    for note in &loaded.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    if let Some(limit) = &loaded.limited_by {
        text.push_str(&format!("limited by the generator: {limit}\n"));
    }
    text
}

fn requests(counts: &RequestCounts, seconds: f64) -> String {
    let per_second = |count: u64| quantity::rate(count as f64 / seconds.max(f64::MIN_POSITIVE));
    let mut table = Table::new(vec![
        Column::left("requests"),
        Column::right("count"),
        Column::right("a second"),
    ]);
    let mut row = |name: &str, count: u64| table.row([name, &quantity::count(count), &per_second(count)]);
    row("ok", counts.ok);
    row("failed", counts.failed);
    for (failure, count) in counts.by_cause.occurred() {
        row(&format!("  {}", failure.name().replace('_', " ")), count);
    }
    for (name, count) in [
        ("aborted", counts.aborted),
        ("unfinished", counts.unfinished),
        ("on schedule, unsent", counts.unsent),
        ("waited for a connection", counts.waited_for_connection),
    ] {
        if count > 0 {
            row(name, count);
        }
    }
    table.render(100)
}

fn connections(counts: &ConnectionCounts) -> String {
    let mut text = format!(
        "connections: {} open at the end, {} opened again, {} closed by the server, {} reset by it\n",
        quantity::count(counts.open_at_end),
        quantity::count(counts.opened_again),
        quantity::count(counts.closed_by_server),
        quantity::count(counts.reset_by_server),
    );
    let failed: Vec<String> = (counts.failed.occurred())
        .map(|(failure, count)| format!("{} {}", quantity::count(count), failure.name().replace('_', " ")))
        .collect();
    if !failed.is_empty() {
        text.push_str(&format!("not opened: {}\n", failed.join(", ")));
    }
    text
}

fn times(what: &str, summary: Option<&Summary>) -> String {
    let Some(summary) = summary else {
        return String::new();
    };
    let show = |nanoseconds: u64| quantity::duration(nanoseconds as f64);
    format!(
        "{what}: median {}, p90 {}, p99 {}, p99.9 {}, longest {}\n",
        show(summary.p50_ns),
        show(summary.p90_ns),
        show(summary.p99_ns),
        show(summary.p999_ns),
        show(summary.max_ns),
    )
}

fn cost(loaded: &HttpLoaded) -> String {
    let client = &loaded.client;
    let mut text = format!(
        "client: {} CPU seconds (user {}, system {}), {} requests a CPU second\n",
        quantity::fixed(client.cpu_s, 2),
        quantity::fixed(client.user_s, 2),
        quantity::fixed(client.system_s, 2),
        quantity::or_missing(client.requests_per_cpu_second, quantity::metric),
    );
    if let (Some(resident), Some(each)) = (client.resident_open_bytes, client.bytes_a_connection) {
        text.push_str(&format!(
            "client memory: {} resident with the connections open, {} a connection\n",
            quantity::bytes(resident),
            quantity::bytes(each as u64),
        ));
    }
    text
}

/// Bits a second.
fn bits(bytes: u64, seconds: f64) -> String {
    format!(
        "{}bit/s",
        with_space(&quantity::metric(
            bytes as f64 * 8.0 / seconds.max(f64::MIN_POSITIVE)
        ))
    )
}

/// `1.5 G` as it is, `15` with the space that a prefix brings.
fn with_space(number: &str) -> String {
    if number.contains(' ') {
        number.to_owned()
    } else {
        format!("{number} ")
    }
}
