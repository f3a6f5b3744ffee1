//! Text report of an HTTP run, and its metrics.

use super::{ConnectionCounts, HttpLoaded, RequestCounts, TlsLoaded};
use crate::report::{finish, number, percentile, times};
use corelane_measure::metric::{Better, Metric, Sample, Show};
use corelane_measure::quantity;
use corelane_report::measurement::Measurement;
use corelane_report::page::{Caveat, Page, Section};
use corelane_report::table::{Cell, Column, Table};

/// Share of the run above which time spent waiting for a CPU is reported.
const WORTH_REPORTING: f64 = 0.01;

/// Smallest number of connections for which memory is reported: for fewer, the memory of the process dominates.
const MEMORY_REPORTED_FROM: u64 = 1_000;

impl Measurement for HttpLoaded {
    const METRICS: &'static [Metric<Self>] = &[
        Metric::higher(
            "rate",
            "rate",
            Show::Prefixed,
            "successful requests per second",
            |run| Some(Sample::Number(run.requests_per_second)),
        ),
        Metric::lower("p50", "p50", Show::Nanoseconds, "median latency", |run| {
            percentile(run.counts.latency.as_ref(), |summary| summary.p50_ns)
        }),
        Metric::lower(
            "p99",
            "p99",
            Show::Nanoseconds,
            "99th percentile latency",
            |run| percentile(run.counts.latency.as_ref(), |summary| summary.p99_ns),
        ),
        Metric::lower(
            "failed",
            "failed",
            Show::Share,
            "share of begun requests that failed",
            |run| {
                let RequestCounts { begun, failed, .. } = run.counts.requests;
                (begun > 0).then(|| Sample::Number(failed as f64 / begun as f64))
            },
        ),
        Metric::lower(
            "p90",
            "p90",
            Show::Nanoseconds,
            "90th percentile latency",
            |run| percentile(run.counts.latency.as_ref(), |summary| summary.p90_ns),
        ),
        Metric::lower(
            "p999",
            "p99.9",
            Show::Nanoseconds,
            "99.9th percentile latency",
            |run| percentile(run.counts.latency.as_ref(), |summary| summary.p999_ns),
        ),
        Metric::lower("max", "longest", Show::Nanoseconds, "longest latency", |run| {
            percentile(run.counts.latency.as_ref(), |summary| summary.max_ns)
        }),
        Metric::lower("mean", "mean", Show::Nanoseconds, "mean latency", |run| {
            run.counts.latency.map(|summary| Sample::Number(summary.mean_ns))
        }),
        Metric::lower(
            "lag_p99",
            "lag p99",
            Show::Nanoseconds,
            "99th percentile schedule lag",
            |run| percentile(run.counts.schedule_lag.as_ref(), |summary| summary.p99_ns),
        ),
        Metric::lower(
            "handshake_p99",
            "handshake p99",
            Show::Nanoseconds,
            "99th percentile duration of TLS handshakes",
            |run| percentile(run.counts.handshake.as_ref(), |summary| summary.p99_ns),
        ),
        Metric::higher(
            "resumed",
            "resumed",
            Show::Share,
            "share of TLS handshakes resumed",
            |run| run.counts.tls.as_ref()?.resumed().map(Sample::Number),
        ),
        Metric::higher("ok", "ok", Show::Prefixed, "successful requests", |run| {
            number(run.counts.requests.ok)
        }),
        Metric::lower(
            "unsent",
            "unsent",
            Show::Prefixed,
            "requests on the schedule that were not sent",
            |run| number(run.counts.requests.unsent),
        ),
        Metric::new(
            "open",
            "open",
            Show::Prefixed,
            Better::Neither,
            "connections open at the end",
            |run| number(run.counts.connections.open_at_end),
        ),
        Metric::<Self>::higher(
            "throughput",
            "received",
            Show::Bytes,
            "bytes received per second",
            |run| {
                let rate = run.counts.bytes.received as f64 / run.running_s;
                Some(Sample::Number(rate)).filter(|_| run.running_s > 0.0)
            },
        )
        .unit("/s"),
    ];

    fn described(&self) -> Page {
        let target = self.plan.pools.first();
        let target = target.map_or_else(String::new, |pool| pool.target.to_string());
        let mut page = Page {
            subject: "HTTP load".to_owned(),
            headline: format!(
                "{} requests to {target}",
                quantity::rate(self.requests_per_second)
            ),
            ..Page::default()
        };
        page.caveats = self.notes.iter().cloned().map(Caveat::from).collect();
        if self.counts.tls.as_ref().is_some_and(|tls| !tls.verified) {
            let unverified = "TLS certificates were not verified (insecure)";
            page.caveats.push(Caveat::from(unverified.to_owned()));
        }
        let section = Section::new("")
            .notes(self.opening(&target))
            .table(self.requests())
            .notes(connections(&self.counts.connections))
            .notes(self.counts.tls.iter().flat_map(tls))
            .notes(times("latency", self.counts.latency.as_ref()))
            .notes(times("connect", self.counts.connect.as_ref()))
            .notes(times("handshake", self.counts.handshake.as_ref()))
            .notes(times("schedule lag", self.counts.schedule_lag.as_ref()))
            .notes(self.cost());
        let noted = |section: Section, note: &String| section.text_note("", format!("note: {note}"));
        let section = self.notes.iter().fold(section, noted);
        let limited = self
            .limited_by
            .as_ref()
            .map(|why| format!("limited by the generator: {why}"));
        finish(page, section, limited)
    }
}

impl HttpLoaded {
    fn opening(&self, target: &str) -> [String; 2] {
        let opened = self.counts.connections.opened - self.counts.connections.opened_again;
        let [opened, asked] = [opened, self.counts.connections.asked].map(quantity::count);
        let [opening, running] =
            [self.opening_s, self.running_s].map(|seconds| quantity::duration(seconds * 1e9));
        let reason = self.engine_reason.as_ref();
        let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
        [
            format!(
                "{target}: {} loop, {opened} of {asked} connections opened in {opening}, requests for {running}",
                self.model
            ),
            format!("engine {}{reason}", self.engine),
        ]
    }

    fn requests(&self) -> Table {
        let counts = &self.counts.requests;
        let mut table = Table::new(vec![
            Column::left("requests"),
            Column::right("count"),
            Column::right("a second"),
        ]);
        let mut row = |name: &str, count: u64| {
            let rate = count as f64 / self.running_s.max(f64::MIN_POSITIVE);
            table.row([
                Cell::from(name),
                Cell::count(count),
                Cell::shown(Some(rate), quantity::rate),
            ]);
        };
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
        table
    }

    /// Bytes transferred, and the cost to the generator.
    fn cost(&self) -> Vec<String> {
        let client = &self.client;
        let [received, sent] = [self.counts.bytes.received, self.counts.bytes.sent].map(quantity::bytes);
        let rate = quantity::bits(self.counts.bytes.received as f64 / self.running_s.max(f64::MIN_POSITIVE));
        let times = [client.cpu_s, client.user_s, client.system_s];
        let [cpu, user, system] = times.map(|seconds| quantity::fixed(seconds, 2));
        let each = quantity::or_missing(client.requests_per_cpu_second, quantity::metric);
        let mut lines = vec![
            format!("received {received} ({rate}), sent {sent}"),
            format!(
                "client: {cpu} CPU seconds (user {user}, system {system}), {each} requests per CPU second"
            ),
        ];
        let waited: f64 = self.workers.iter().map(|worker| worker.waited_for_cpu_s).sum();
        if waited > self.running_s * self.workers.len() as f64 * WORTH_REPORTING {
            let waited = quantity::duration(waited * 1e9);
            lines.push(format!("client: workers waited {waited} in total for busy CPUs"));
        }
        let counted =
            self.counts.connections.opened - self.counts.connections.opened_again >= MEMORY_REPORTED_FROM;
        if let (true, Some(resident), Some(each)) =
            (counted, client.resident_open_bytes, client.bytes_a_connection)
        {
            let [resident, each] = [resident, each as u64].map(quantity::bytes);
            lines.push(format!(
                "client memory: {resident} resident with the connections open, {each} per connection"
            ));
        }
        lines
    }
}

fn connections(counts: &ConnectionCounts) -> Vec<String> {
    let ends = [
        counts.open_at_end,
        counts.opened_again,
        counts.closed_by_server,
        counts.reset_by_server,
    ];
    let [open, again, closed, reset] = ends.map(quantity::count);
    let mut lines = vec![format!(
        "connections: {open} open at the end, {again} opened again, {closed} closed by the server, {reset} reset by it"
    )];
    let failed: Vec<String> = (counts.failed.occurred())
        .map(|(failure, count)| format!("{} {}", quantity::count(count), failure.name().replace('_', " ")))
        .collect();
    if !failed.is_empty() {
        lines.push(format!("not opened: {}", failed.join(", ")));
    }
    lines
}

fn tls(tls: &TlsLoaded) -> Vec<String> {
    let suites: Vec<&str> = tls.suites.keys().map(String::as_str).collect();
    let agreed = if suites.is_empty() {
        "none agreed on a cipher".to_owned()
    } else {
        suites.join(", ")
    };
    let [full, resumed] = [tls.handshakes_full, tls.handshakes_resumed].map(quantity::count);
    let mut lines = vec![format!(
        "TLS: {full} full and {resumed} resumed handshakes, {agreed}"
    )];
    if !tls.verified {
        lines.push("TLS: certificates were NOT verified (insecure)".to_owned());
    }
    let errors = tls.errors.iter();
    lines.extend(errors.map(|(error, count)| format!("TLS, {} times: {error}", quantity::count(*count))));
    lines
}
