//! A run for people: in a terminal, in Markdown, as a page, as CSV, beside another run, at a gate. Text has tables of
//! the series that the run is judged by, a page of the controls, too.

use super::document::{
    ByteStreams, FEWEST_TO_SHARE, MemoryPerConnection, Protocol, Segments, Series, Server, Step,
    StreamsReport,
};
use super::metrics::{
    CLIENT_BYTES, CLIENT_PER_REQUEST, CLIENT_SHARE, DRAIN, HELD, LATENCY, LINEARITY, OPENED, OPENING,
    PAYLOAD, REQUESTS, SCHEDULE_LAG, SERVER_BYTES, SERVER_PER_REQUEST, SERVER_SHARE, STEERING,
};
use super::peers::drain_s as drain_s_of;
use crate::columns::{count, number, words as column};
use crate::scale::limit::Suspect;
use crate::scale::page::{
    self, Growth, Shown, active_words, areas, cpu_bar, linearity_tile, median_words, share, trials,
};
use crate::scale::steps::{Shape as _, active};
use corelane_measure::metric::Show;
use corelane_measure::quantity::{self, or_missing};
use corelane_report::html::bars::{self, Bar};
use corelane_report::html::figure::figure;
use corelane_report::html::markup::Markup;
use corelane_report::html::tiles::Tile;
use corelane_report::page::{Page, Section};
use corelane_report::reading::{Reading, metric, named, percentiles, relative_range, table, with_range};
use corelane_report::table::{Cell, Column, Table};
use corelane_worker::worker_memory;
use std::collections::BTreeSet;

/// Longer waits for pending answers are reported.
const LONG_DRAIN_S: f64 = 1.0;

/// Why the rate of one connection changes from run to run.
const ONE_CONNECTION: &str = "One connection is served on one CPU, which is chosen when it opens: on the client's CPU or on another, \
                              its rate may be twice or half as high in the next run.";

impl Shown for ByteStreams {
    fn headline(report: &StreamsReport, step: &Step) -> String {
        let who = match step.shape.server {
            Server::Subject => "The subject",
            Server::Exact | Server::Reuseport => "The server",
        };
        let rate = rate_words(report, step);
        let does = format!("{who} does {rate} on {}", active_words(step));
        match report.kind.protocol {
            Protocol::Http => format!(
                "{does} with {} connections",
                quantity::count(step.shape.connections)
            ),
            Protocol::Tcp => format!("{does}: {}", step.shape.load_words()),
        }
    }

    fn tiles(report: &StreamsReport, step: &Step) -> Vec<Tile> {
        let words = |metric| page::words(metric, step);
        let payload = PAYLOAD
            .of(step)
            .map(|rate| format!("{} Gb/s", quantity::fixed(rate, 2)));
        let linearity = linearity_tile(&LINEARITY, step);
        let mut tiles = match report.kind.protocol {
            Protocol::Http => {
                let client = format!("client {}", words(&CLIENT_PER_REQUEST));
                vec![
                    ("requests", or_missing(REQUESTS.of(step), quantity::rate), payload),
                    linearity,
                    ("server CPU per request", words(&SERVER_PER_REQUEST), Some(client)),
                    ("latency, p99", words(&LATENCY), median_words(&LATENCY, step)),
                ]
            }
            Protocol::Tcp => {
                let of_client = format!("of the client {}B", words(&CLIENT_BYTES));
                let of_server = format!("{}B", words(&SERVER_BYTES));
                let segments = step.found.segments.as_ref();
                let count = |of: fn(&Segments) -> u64| or_missing(segments.map(of), quantity::count);
                let (disorder, stalls) = (count(|all| all.out_of_order), count(|all| all.stalls));
                let others = format!("{disorder} out of order, {stalls} stalls");
                vec![
                    ("payload", rate_words(report, step), None),
                    linearity,
                    ("per CPU second of the server", of_server, Some(of_client)),
                    ("segments sent again", count(|all| all.sent_again), Some(others)),
                ]
            }
        };
        tiles.extend(memory_tile(step));
        tiles
    }

    fn sections(report: &StreamsReport, page: &mut Page) {
        let subject = report.kind.subject.clone();
        page.origin.extend(subject.map(|command| ("subject", command)));
        let [judged, controls] = report.parted_series();
        let growth = Section::new(format!("growth with {}", report.places()));
        page.section(growth.figures(figures(report)));
        let grown = |page: &mut Page, all: &[Series<'_>], in_text| {
            for series in all {
                page.section(growth_section(report, series, in_text));
                page.section(latency_section(report, series, in_text));
            }
        };
        grown(page, &judged, true);
        page.section(connections_section(report, &judged, &controls));
        page.section(memory_section(report).notes(workers_memory(report)));
        page.section(controls_section(report));
        grown(page, &controls, false);
        page.section(errors_section(report));
        page::observed_sections(report, [], page);
    }

    fn closing(report: &StreamsReport, page: &mut Page) {
        let mut section = Section::new("who was the limit");
        for suspect in &report.limit.suspects {
            let mark = if suspect.is_limit { "*" } else { " " };
            let label = format!("{mark} {:<17}", suspect.name.words());
            section = section.text_note(label, &suspect.evidence);
        }
        let limits = report.limit.suspects.iter().filter(|suspect| suspect.is_limit);
        let several = limits.count() > 1;
        let readings = [
            column("who", |suspect: &Suspect| suspect.name.words()),
            column("the limit", move |suspect: &Suspect| match suspect.is_limit {
                true if several => "with others",
                true => "yes",
                false => "",
            }),
            column("evidence", |suspect: &Suspect| Cell::from(&suspect.evidence)),
        ];
        page.section(section.page_table(table(readings, &report.limit.suspects)));
    }
}

/// A figure of the rate for each traffic whose steps differ in buckets: our server, its controls, or the subject.
fn figures(report: &StreamsReport) -> Vec<Markup> {
    let mut figures = Vec::new();
    let mut rest: Vec<Series<'_>> = report.series();
    while let Some(first) = rest.first().map(Series::shape) {
        let same = |series: &Series<'_>| series.shape().same_load(first);
        let (kin, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(same);
        if kin.iter().any(|series| series.0.len() > 1) {
            let y_title = report.kind.protocol.facts().unit[1].to_owned();
            figures.push(Growth::rate(report, first.load_words(), y_title, &kin).draw());
        }
        rest = others;
    }
    figures
}

/// How the CPUs' time was used at each step of a series.
fn cpu_figure(series: &Series<'_>) -> Markup {
    let bar = |step: &&Step| {
        let (server, client, idle) = (
            SERVER_SHARE.of(*step)?,
            CLIENT_SHARE.of(*step)?,
            step.idle_share()?,
        );
        let rest = (1.0 - server - client - idle).max(0.0);
        let parts = [
            ("server", "server", server),
            ("client", "client", client),
            ("rest", "everything else", rest),
        ];
        let shown = [("server", server), ("client", client), ("idle", idle)];
        Some(cpu_bar(active_words(step), &shown, &parts))
    };
    let bars: Vec<Bar> = series.0.iter().filter_map(bar).collect();
    if bars.is_empty() {
        return Markup::default();
    }
    let kinds = [
        ("server", "server"),
        ("client", "client"),
        ("rest", "everything else"),
        ("track", "idle"),
    ];
    figure(
        "CPU time by side",
        "Processes of each side, with the receive path that the kernel ran in their name.",
        bars::draw(&bars).with(areas(&kinds)),
    )
}

/// CPU time, latencies and the rate over time of a series.
fn series_figures(report: &StreamsReport, series: &Series<'_>) -> [Markup; 3] {
    let facts = report.kind.protocol.facts();
    let latency = [
        "Latency",
        "From the intended send to the response: all valid trials together.",
        "latency",
    ];
    [
        cpu_figure(series),
        report.distribution(series, &LATENCY, latency),
        report.over_time(
            series,
            |trial| &trial.over_time,
            (facts.unit[1], facts.per_recorded),
        ),
    ]
}

/// Adds a table to text and page, or to the page alone.
fn shown(section: Section, in_text: bool, table: Table) -> Section {
    match in_text {
        true => section.table(table),
        false => section.page_table(table),
    }
}

fn rate_words(report: &StreamsReport, step: &Step) -> String {
    or_missing(report.rate().of(step), |rate| rate_of(report, rate))
}

fn rate_of(report: &StreamsReport, rate: f64) -> String {
    let unit = report.kind.protocol.facts().unit[0];
    format!("{} {unit}", report.rate().show.cell(rate))
}

/// What grew with the active buckets.
fn growth_section(report: &StreamsReport, series: &Series<'_>, in_text: bool) -> Section {
    let segments = |header, of: fn(&Segments) -> u64| {
        number(Column::right(header), Show::Count, move |step: &Step| {
            step.found.segments.as_ref().map(|segments| of(segments) as f64)
        })
    };
    let mut readings = vec![active()];
    let linearity = with_range(&LINEARITY, 2);
    let cpus = [
        share("idle", Step::idle_share),
        share("softirq", Step::softirq_share),
    ];
    match report.kind.protocol {
        Protocol::Http => {
            readings.extend([metric(&REQUESTS), metric(&PAYLOAD), linearity]);
            readings.extend([metric(&SERVER_PER_REQUEST), metric(&CLIENT_PER_REQUEST)]);
            readings.extend(cpus);
        }
        Protocol::Tcp => {
            readings.extend([
                metric(&PAYLOAD),
                linearity,
                metric(&SERVER_BYTES),
                metric(&CLIENT_BYTES),
            ]);
            readings.extend(cpus);
            readings.extend([
                named(&STEERING, "steered", "right %"),
                segments("sent again", |segments| segments.sent_again),
                segments("disorder", |segments| segments.out_of_order),
                segments("stalls", |segments| segments.stalls),
            ]);
        }
    }
    readings.push(trials());
    let what = match series.shape().server {
        Server::Subject => "N CPUs",
        Server::Exact | Server::Reuseport => "N buckets active",
    };
    let section = Section::new(format!("{}; {what}", series.shape().title()));
    if let Some(why) = report.failure(series) {
        return section.note(format!("failed: {why}"));
    }
    let grown = table(readings, series.0.iter().copied()).without_silent_columns();
    let section = match in_text {
        true => section.figures(series_figures(report, series)),
        false => section,
    };
    let is_one = in_text && series.shape().connections == 1 && series.shape().server != Server::Exact;
    shown(section, in_text, grown).notes(is_one.then_some(ONE_CONNECTION))
}

/// How long requests took.
fn latency_section(report: &StreamsReport, series: &Series<'_>, in_text: bool) -> Section {
    if series.0.iter().all(|step| LATENCY.of(*step).is_none()) {
        return Section::default();
    }
    let mut readings = vec![active()];
    readings.extend(percentiles(&LATENCY, ("latency", "median")));
    readings.extend([
        metric(&SCHEDULE_LAG),
        metric(&STEERING),
        relative_range(report.rate(), "spread of rate"),
    ]);
    let latency = table(readings, series.0.iter().copied()).without_silent_columns();
    let section = shown(Section::new(""), in_text, latency);
    match in_text {
        true => section.note(drained(series)),
        false => section,
    }
}

/// The time after the measured one in which answers were awaited, if it is long; empty otherwise.
fn drained(series: &Series<'_>) -> String {
    let drains = series.0.iter().filter_map(|step| Some((DRAIN.of(*step)?, step)));
    let longest = drains.max_by(|one, other| one.0.total_cmp(&other.0));
    let Some((drain_s, step)) = longest.filter(|(drain_s, _)| *drain_s > LONG_DRAIN_S) else {
        return String::new();
    };
    let most_s = drain_s_of(&step.shape);
    format!(
        "Answers still pending after the measured time were awaited for {drain_s:.1} s (until none came for \
         {most_s:.1} s): no rate and no CPU time includes them, but their latency counts."
    )
}

/// How many connections of each series were opened and held, and what each of them took. The text has it only for many
/// connections, or several connection counts.
fn connections_section(report: &StreamsReport, judged: &[Series<'_>], controls: &[Series<'_>]) -> Section {
    let counts: BTreeSet<u64> = report.steps.iter().map(|step| step.shape.connections).collect();
    let many = counts.last().is_some_and(|most| *most >= FEWEST_TO_SHARE);
    let facts = report.kind.protocol.facts();
    let memory = |side, of: fn(&MemoryPerConnection) -> Option<f64>| {
        number(
            Column::right(side).unit("B each"),
            Show::Count,
            move |step: &Step| of(&step.found.memory_per_connection),
        )
    };
    let of = |series: &[Series<'_>]| {
        let readings = [
            column("step", |step: &Step| step.shape.title()).wide(),
            count("connections", "connections", |step: &Step| step.shape.connections),
            number(Column::right(facts.sized), Show::Bytes, |step: &Step| {
                step.shape.size().map(|bytes| bytes as f64)
            }),
            active(),
            metric(&OPENED),
            metric(&HELD),
            metric(&OPENING),
            named(report.rate(), "rate", facts.unit[0]),
            metric(&LATENCY),
            memory("client", |each| each.client_user_bytes),
            memory("server", |each| each.server_user_bytes),
            memory("kernel", |each| each.kernel_bytes),
        ];
        table(readings, series.iter().filter_map(Series::last_measured)).without_silent_columns()
    };
    let section = Section::new("connections; memory of user space and of the kernel, both sides, for each");
    shown(section, counts.len() > 1 || many, of(judged)).page_table(of(controls))
}

/// Where memory went in the step with the most connections.
fn memory_section(report: &StreamsReport) -> Section {
    let Some(memory) = report.fullest_memory() else {
        return Section::default();
    };
    type Row = (String, Option<u64>, Option<u64>);
    let bytes = |row: &Row| row.2.map(|bytes| bytes as f64);
    let each = |bytes: f64| bytes / memory.connections as f64;
    let readings = [
        Reading::new(Column::left("memory").may_shrink(), |row: &Row| {
            Cell::from(&row.0)
        }),
        Reading::new(Column::right("objects"), |row: &Row| {
            row.1.map(Cell::count).unwrap_or_default()
        }),
        number(Column::right("in all"), Show::Bytes, bytes),
        number(Column::right("B a connection"), Show::Fixed(0), |row| {
            bytes(row).map(each)
        }),
    ];
    let count = quantity::count(memory.connections);
    Section::new(format!(
        "memory at {count} connections; the kernel's is what it grew by, both sides together"
    ))
    .table(table(readings, &memory.rows()))
}

/// The memory of the server's workers in one sentence.
fn workers_memory(report: &StreamsReport) -> Option<String> {
    worker_memory::sentence(report.last_step()?.found.worker_memory.iter())
}

/// Every series at its largest step, beside exact steering with aligned clients.
fn controls_section(report: &StreamsReport) -> Section {
    let [judged, _] = report.parted_series();
    if report.series().len() <= judged.len() {
        return Section::default();
    }
    let more = [
        metric(&LATENCY),
        metric(&SERVER_SHARE),
        metric(&CLIENT_SHARE),
        with_range(&LINEARITY, 2),
    ];
    let rate = named(report.rate(), "rate", report.kind.protocol.facts().unit[0]);
    let table = report.controls_table(rate, more).without_silent_columns();
    let costs = &report.kind.protocol.facts().costs;
    Section::new("controls beside exact steering")
        .table(table)
        .notes(report.faster_controls(costs, |rate| rate_of(report, rate)))
        .notes(report.doubtful_controls())
        .notes(report.crossed_at_one(&report.series()))
}

/// Errors, and the counters of the kernel that point to a limit.
fn errors_section(report: &StreamsReport) -> Section {
    let title = "errors, and what the kernel dropped or sent again";
    let columns = [Column::left("what"), Column::right("times")];
    let errors = report.parts_table(columns, |_, step| {
        let counted = step.found.counted_errors();
        let cells = |(what, times): (&str, u64)| [Cell::from(what.replace('_', " ")), Cell::count(times)];
        counted.map(cells).collect()
    });
    if errors.is_empty() {
        return Section::new("").note(format!("{title}: none"));
    }
    Section::new(format!("{title}, over all valid trials")).table(errors)
}

/// What one connection costs in memory, where that was measured.
fn memory_tile(step: &Step) -> Option<Tile> {
    let each = &step.found.memory_per_connection;
    let server = Show::Bytes.cell(each.server_user_bytes?);
    let bytes = |value| or_missing(value, |value| Show::Bytes.cell(value));
    let (client, kernel) = (bytes(each.client_user_bytes), bytes(each.kernel_bytes));
    let others = format!("client {client}, kernel {kernel}");
    Some(("server memory per connection", server, Some(others)))
}
