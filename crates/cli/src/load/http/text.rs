//! What `corelane load http` tells people at its end.

use crate::load::words::{bits, times};
use corelane_load::http::{ConnectionCounts, HttpLoaded, RequestCounts, TlsLoaded};
use corelane_measure::quantity;
use corelane_report::table::{Column, Table, wrap};

/// The share of the run that workers may wait for their CPUs before that is told.
const WORTH_TELLING: f64 = 0.01;

/// Connections from which on their memory is told: what fewer take is less than what the process itself does.
const MEMORY_TOLD_FROM: u64 = 1_000;

/// The whole run.
pub fn summary(loaded: &HttpLoaded) -> String {
    let mut text = format!(
        "{}: {} loop, {} of {} connections opened in {}, requests for {}\n",
        loaded
            .plan
            .pools
            .first()
            .map_or_else(String::new, |pool| pool.target.to_string()),
        loaded.model,
        quantity::count(loaded.counts.connections.opened - loaded.counts.connections.opened_again),
        quantity::count(loaded.counts.connections.asked),
        quantity::duration(loaded.opening_s * 1e9),
        quantity::duration(loaded.running_s * 1e9),
    );
    let reason = loaded.engine_reason.as_ref();
    let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    text.push_str(&format!("engine {}{reason}\n", loaded.engine));
    text.push_str(&requests(&loaded.counts.requests, loaded.running_s));
    text.push_str(&connections(&loaded.counts.connections));
    text.push_str(&loaded.counts.tls.as_ref().map_or_else(String::new, tls));
    text.push_str(&times("latency", loaded.counts.latency.as_ref()));
    text.push_str(&times("connect", loaded.counts.connect.as_ref()));
    text.push_str(&times("handshake", loaded.counts.handshake.as_ref()));
    text.push_str(&times("schedule lag", loaded.counts.schedule_lag.as_ref()));
    text.push_str(&format!(
        "received {} ({}), sent {}\n",
        quantity::bytes(loaded.counts.bytes.received),
        bits(loaded.counts.bytes.received as f64 / loaded.running_s.max(f64::MIN_POSITIVE)),
        quantity::bytes(loaded.counts.bytes.sent),
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
        ("body sent on 100 Continue", counts.continued),
        ("body not sent, answered before", counts.body_refused),
        ("body sent unasked after a while", counts.continue_timeouts),
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

/// How connections were encrypted.
fn tls(tls: &TlsLoaded) -> String {
    let suites: Vec<&str> = tls.suites.keys().map(String::as_str).collect();
    let mut text = format!(
        "TLS: {} full and {} resumed handshakes, {}\n",
        quantity::count(tls.handshakes_full),
        quantity::count(tls.handshakes_resumed),
        if suites.is_empty() {
            "none agreed on a cipher".to_owned()
        } else {
            suites.join(", ")
        },
    );
    if !tls.verified {
        text.push_str("TLS: certificates were NOT verified (insecure)\n");
    }
    for (error, count) in &tls.errors {
        let told = format!("TLS, {} times: {error}", quantity::count(*count));
        text.extend(wrap(&told, 100).into_iter().map(|line| line + "\n"));
    }
    text
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
    let waited: f64 = loaded.workers.iter().map(|worker| worker.waited_for_cpu_s).sum();
    if waited > loaded.running_s * loaded.workers.len() as f64 * WORTH_TELLING {
        text.push_str(&format!(
            "client: workers were ready and waited {} in all while others had their CPUs\n",
            quantity::duration(waited * 1e9),
        ));
    }
    let counted =
        loaded.counts.connections.opened - loaded.counts.connections.opened_again >= MEMORY_TOLD_FROM;
    if let (true, Some(resident), Some(each)) =
        (counted, client.resident_open_bytes, client.bytes_a_connection)
    {
        text.push_str(&format!(
            "client memory: {} resident with the connections open, {} a connection\n",
            quantity::bytes(resident),
            quantity::bytes(each as u64),
        ));
    }
    text
}
