//! Text report of a run whose requests are answered, for any protocol, and its metrics.

use super::counts::{ConnectionCounts, Counts, OwnCounts};
use super::document::StreamLoadReport;
use super::protocol::StreamProtocol;
use super::sum;
use super::tls::TlsCounts;
use crate::report::{Charted, metrics, page, rates, share, subject, times};
use corelane_measure::counters::Counters;
use corelane_measure::histogram::Histogram;
use corelane_measure::metric::Metric;
use corelane_measure::quantity;
use corelane_report::measurement::Measurement;
use corelane_report::page::{Caveat, Page, Section};
use corelane_report::table::Table;

/// Share of the run above which time spent waiting for a CPU is reported.
const WORTH_REPORTING: f64 = 0.01;

/// Smallest number of connections for which memory is reported: for fewer, the memory of the process dominates.
const MEMORY_REPORTED_FROM: u64 = 1_000;

/// Why the rate of one connection changes from run to run.
const ONE_CONNECTION: &str = "one connection is served on one CPU, which is chosen when it opens: on the client's CPU or on another, \
                              its rate may be twice or half as high in the next run";

impl<P: StreamProtocol> Measurement for StreamLoadReport<P> {
    const METRICS: &'static [Metric<Self>] = metrics! { run =>
        #[compared] more Prefixed "rate", "rate" ["/s"]: "successful requests per second" = run.requests_per_second;
        #[compared] less Nanoseconds "p50", "p50": "median latency" = run.counts.latency.map(|times| times.p50_ns);
        #[compared] less Nanoseconds "p99", "p99": "99th percentile latency"
            = run.counts.latency.map(|times| times.p99_ns);
        #[compared] less Share "failed", "failed": "share of begun requests that failed"
            = share(run.counts.requests.failed, run.counts.requests.begun);
        less Nanoseconds "p90", "p90": "90th percentile latency" = run.counts.latency.map(|times| times.p90_ns);
        less Nanoseconds "p95", "p95": "95th percentile latency" = run.counts.latency.and_then(|times| times.p95_ns);
        #[compared] less Nanoseconds "p999", "p99.9": "99.9th percentile latency"
            = run.counts.latency.map(|times| times.p999_ns);
        less Nanoseconds "max", "longest": "longest latency" = run.counts.latency.map(|times| times.max_ns);
        less Nanoseconds "mean", "mean": "mean latency" = run.counts.latency.map(|times| times.mean_ns);
        less Nanoseconds "lag_p99", "lag p99": "99th percentile schedule lag"
            = run.counts.schedule_lag.map(|lag| lag.p99_ns);
        less Nanoseconds "handshake_p99", "handshake p99": "99th percentile duration of TLS handshakes"
            = run.counts.handshake.map(|times| times.p99_ns);
        more Share "resumed", "resumed": "share of TLS handshakes resumed"
            = run.counts.tls.as_ref().and_then(TlsCounts::resumed);
        more Prefixed "ok", "ok": "successful requests" = run.counts.requests.ok;
        less Prefixed "unsent", "unsent": "requests on the schedule that were not sent" = run.counts.requests.unsent;
        less Prefixed "unsent_waiting", "unsent, waiting": "requests on the schedule for which no connection was free until the end"
            = run.counts.requests.unsent_waiting;
        less Prefixed "unsent_late", "unsent, late": "requests on the schedule that the generator did not send in time"
            = run.counts.requests.unsent_late;
        more Share "landed", "landed": "share of connections observed on their planned bucket"
            = run.counts.alignment.share();
        explaining Share "2xx", "2xx": "share of answers with a status of 200 to 299" = class(&run.counts, 2);
        explaining Share "3xx", "3xx": "share of answers with a status of 300 to 399" = class(&run.counts, 3);
        explaining Share "4xx", "4xx": "share of answers with a status of 400 to 499" = class(&run.counts, 4);
        explaining Share "5xx", "5xx": "share of answers with a status of 500 to 599" = class(&run.counts, 5);
        more Share "hits", "hits": "share of the keys asked for that a cache had" = hits(&run.counts);
        less Prefixed "wrong", "wrong": "answers that no correct cache gives" = run.counts.requests.own.wrong();
        explaining Prefixed "open", "open": "connections open at the end" = run.counts.connections.open_at_end;
        #[compared] more Prefixed "per_cpu_s", "per CPU" ["/CPU s"]: "successful requests per CPU second of the client"
            = run.client.requests_per_cpu_second;
        more Bytes "throughput", "received" ["/s"]: "bytes received per second"
            = (run.running_s > 0.0).then(|| run.counts.bytes.received as f64 / run.running_s);
    };

    fn percentile(&self, percent: f64) -> Option<f64> {
        self.latency().percentile(percent).map(|time| time as f64)
    }

    fn described(&self) -> Page {
        let target = self.plan.pools.first();
        let target = target.map_or_else(String::new, |pool| pool.target.to_string());
        let latency = self.latency();
        let section = Section::new("")
            .notes(self.opening(&target))
            .table(self.requests())
            .notes(connections(&self.counts.connections))
            .notes((self.counts.connections.asked == 1).then_some(ONE_CONNECTION))
            .notes(self.counts.alignment.notes())
            .table(self.counts.alignment.table())
            .notes(self.counts.tls.iter().flat_map(TlsCounts::notes))
            .notes(self.counts.requests.own.lines())
            .notes(times("latency", self.counts.latency))
            .notes(times("connect", self.counts.connect))
            .notes(times("handshake", self.counts.handshake))
            .notes(times("schedule lag", self.counts.schedule_lag))
            .notes(self.cost());
        let charted = Charted {
            rate: ("successful requests per second", 1.0),
            name: "Latency",
            durations: Some(&latency),
        };
        let rate = quantity::rate_of(self.requests_per_second, "requests");
        let lost = self.outcome.never_back().or(self.outcome.lost.first());
        let lost = lost.map_or_else(String::new, |lost| format!(", {}", lost.of_rate()));
        let headline = format!("{rate} to {target}{lost}");
        let title = (&*subject(&self.schema), headline);
        let limited = sum::introduced(self.outcome.limited_by.as_deref(), &self.counts.requests);
        let mut page = page(title, Some(charted), section, (&self.outcome, limited));
        let unverified = self.counts.tls.iter().filter_map(TlsCounts::caveat);
        let notes = self.outcome.notes.len();
        page.caveats.splice(notes..notes, unverified.map(Caveat::from));
        page
    }
}

/// The share of the keys asked for that were found.
fn hits<C: OwnCounts>(counts: &Counts<C>) -> Option<f64> {
    let [found, all] = counts.requests.own.hits()?;
    share(found, all)
}

/// The share of a class among answers of all statuses.
fn class<C: OwnCounts>(counts: &Counts<C>, class: usize) -> Option<f64> {
    let classes = counts.requests.own.by_class()?;
    share(classes[class - 2], classes.iter().sum())
}

impl<P: StreamProtocol> StreamLoadReport<P> {
    /// The latencies of all pools.
    fn latency(&self) -> Histogram {
        Histogram::sum(self.pools.iter().map(|pool| &pool.tally.histograms.latency))
    }

    fn opening(&self, target: &str) -> [String; 2] {
        let opened = self.counts.connections.opened_first();
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
        let causes = counts.by_cause.occurred();
        let causes = causes.map(|(failure, count)| (format!("  {}", failure.words()), count));
        let others = [
            ("aborted", counts.aborted),
            ("unfinished", counts.unfinished),
            ("on schedule, unsent", counts.unsent),
            ("  no free connection", counts.unsent_waiting),
            ("  the generator was late", counts.unsent_late),
            ("  the run ended", counts.unsent_at_end),
            ("waited for a connection", counts.waited_for_connection),
        ];
        let others = others.map(|(name, count)| (name.to_owned(), count));
        let others = others.into_iter().chain(counts.own.in_words());
        let always = [("ok", counts.ok), ("failed", counts.failed)];
        rates("requests", self.running_s, &always, causes.chain(others))
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
        let counted = self.counts.connections.opened_first() >= MEMORY_REPORTED_FROM;
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
    let by_client = match counts.closed_by_client {
        0 => String::new(),
        count => format!(", {} closed after the last response", quantity::count(count)),
    };
    let mut lines = vec![format!(
        "connections: {open} open at the end, {again} opened again, {closed} closed by the server, {reset} reset by it\
         {by_client}"
    )];
    let failed: Vec<String> = (counts.failed.occurred())
        .map(|(failure, count)| format!("{} {}", quantity::count(count), failure.words()))
        .collect();
    if !failed.is_empty() {
        lines.push(format!("not opened: {}", failed.join(", ")));
    }
    lines
}
