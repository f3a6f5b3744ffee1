//! The page of `corelane lab scale http` and `tcp`: who was the limit, growth with buckets, connections and their memory,
//! controls, errors, conditions, and the command that repeats the run.

mod figures;
mod steps;

use super::repetition;
use super::tables;
use super::verdict::{self, ENDED_EARLY};
use crate::documents::conditions;
use crate::documents::streams::{Protocol, Segments, Server, Step, StreamsReport};
use corelane_measure::quantity::{self, or_missing};
use corelane_report::date;
use corelane_report::html::markup::{Markup, classed, plain};
use corelane_report::html::tables::{self as cells, Cell, Heading, number, whole};
use corelane_report::html::tiles::{self, Tile};
use corelane_report::html::{document, figure_grid, section, unfold};

/// The page.
#[must_use]
pub fn page(report: &StreamsReport) -> String {
    let documents = unfold(
        "Plan",
        &serde_json::to_string_pretty(&report.plan).unwrap_or_default(),
    )
    .with(unfold(
        "Steering document",
        &serde_json::to_string_pretty(&report.steering).unwrap_or_default(),
    ));
    let law = report.scaling.sentence();
    let law = law.map(|sentence| classed("p", "note", sentence));
    let body = banner(report)
        .with(tiles::bear_in_mind(warnings(report)))
        .with(section("Who was the limit", suspects(report)))
        .with(section(
            "Growth with buckets",
            figure_grid(figures::growth(report)).with(law.unwrap_or_default()),
        ))
        .with(section("Every step", steps::tables(report)))
        .with(section("Connections and their memory", connections(report)))
        .with(section(
            "Errors, and what the kernel dropped or sent again",
            errors(report),
        ))
        .with(section(
            "Conditions, worst first",
            tables::conditions(&report.conditions),
        ))
        .with(repetition(
            &report.command(),
            documents,
            &report.tool,
            report.started_unix_s,
        ));
    document(
        &headline(report),
        Some(report.started_unix_s),
        plain("main", body),
    )
}

/// The verdict in one line.
fn headline(report: &StreamsReport) -> String {
    let Some(step) = last_step(report) else {
        return "Nothing was measured".to_owned();
    };
    let who = match report.steps.first().map(|step| step.shape.server) {
        Some(Server::Subject) => "The subject",
        _ => "The server",
    };
    let rate = rate_words(report.protocol, step.main_rate(report.protocol));
    if report.protocol == Protocol::Tcp {
        let active = step.shape.buckets_active;
        let buckets = if active == 1 { "bucket" } else { "buckets" };
        return format!(
            "{who} does {rate} on {active} {buckets}: {}",
            step.shape.load_words()
        );
    }
    format!(
        "{who} does {rate} on {} bucket{} with {} connections",
        step.shape.buckets_active,
        if step.shape.buckets_active == 1 { "" } else { "s" },
        quantity::count(step.shape.connections)
    )
}

fn last_step(report: &StreamsReport) -> Option<&Step> {
    report.main_series()?.last_measured()
}

fn rate_words(protocol: Protocol, rate: Option<f64>) -> String {
    match protocol {
        Protocol::Http => or_missing(rate, |rate| format!("{} requests/s", quantity::metric(rate))),
        Protocol::Tcp => or_missing(rate, |rate| format!("{} Gb/s", quantity::fixed(rate, 2))),
    }
}

fn banner(report: &StreamsReport) -> Markup {
    let origin = format!(
        "{} \u{b7} {} scaling \u{b7} {}",
        report.tool.name,
        report.protocol.words(),
        date::utc(report.started_unix_s)
    );
    let mut header = classed("p", "origin", origin)
        .with(plain("h1", headline(report)))
        .with(classed("p", "limit", &report.limit.sentence));
    if let Some(command) = &report.subject {
        header.push(classed("p", "machine", format!("Subject: {command}")));
    }
    let machine = conditions::machine(&report.conditions);
    let place = [machine, report.bed.describe.clone()];
    let place: Vec<String> = place.into_iter().filter(|part| !part.is_empty()).collect();
    header.push(classed("p", "machine", place.join(" \u{b7} ")));
    header.push(tiles::tile_row(tiles(report)));
    plain("header", header)
}

fn tiles(report: &StreamsReport) -> Vec<Tile> {
    let Some(step) = last_step(report) else {
        return Vec::new();
    };
    let spread = step.linearity_spread.filter(|spread| spread.count > 1);
    let each = &step.memory_per_connection;
    let bytes = |value: Option<f64>| or_missing(value, |value| quantity::bytes(value.round() as u64));
    let gbit_s = step
        .gbit_s
        .map(|rate| format!("{} Gb/s", quantity::fixed(rate, 2)));
    let mut tiles = vec![
        (
            match report.protocol {
                Protocol::Http => "requests",
                Protocol::Tcp => "payload",
            },
            match report.protocol {
                Protocol::Http => or_missing(step.requests_per_s, quantity::rate),
                Protocol::Tcp => gbit_s.clone().unwrap_or_else(|| quantity::MISSING.to_owned()),
            },
            gbit_s.filter(|_| report.protocol == Protocol::Http),
        ),
        (
            "linearity",
            or_missing(step.linearity, |linearity| quantity::fixed(linearity, 2)),
            spread.map(|spread| format!("\u{b1} {:.2}, {} rounds", spread.half_range(), spread.count)),
        ),
    ];
    tiles.extend(match report.protocol {
        Protocol::Http => tiles_of_requests(step),
        Protocol::Tcp => tiles_of_bytes(step),
    });
    if each.server_user_bytes.is_some() {
        tiles.push((
            "server memory a connection",
            bytes(each.server_user_bytes),
            Some(format!(
                "client {}, kernel {}",
                bytes(each.client_user_bytes),
                bytes(each.kernel_bytes)
            )),
        ));
    }
    tiles
}

fn tiles_of_requests(step: &Step) -> [Tile; 2] {
    let cost = |cost: Option<f64>| or_missing(cost, |cost| format!("{} \u{b5}s", quantity::fixed(cost, 2)));
    [
        (
            "server CPU a request",
            cost(step.server_cpu_us_per_request),
            Some(format!("client {}", cost(step.client_cpu_us_per_request))),
        ),
        (
            "latency, p99",
            or_missing(step.latency, |latency| quantity::duration(latency.p99_ns as f64)),
            step.latency
                .map(|latency| format!("median {}", quantity::duration(latency.p50_ns as f64))),
        ),
    ]
}

fn tiles_of_bytes(step: &Step) -> [Tile; 2] {
    let bytes = |bytes: Option<f64>| or_missing(bytes, |bytes| format!("{}B", quantity::metric(bytes)));
    let count = |of: fn(&Segments) -> u64| or_missing(step.segments.as_ref().map(of), quantity::count);
    [
        (
            "a CPU second of the server",
            bytes(step.server_bytes_per_cpu_s),
            Some(format!("of the client {}", bytes(step.client_bytes_per_cpu_s))),
        ),
        (
            "segments sent again",
            count(|segments| segments.sent_again),
            Some(format!(
                "{} out of order, {} stalls",
                count(|segments| segments.out_of_order),
                count(|segments| segments.stalls)
            )),
        ),
    ]
}

fn warnings(report: &StreamsReport) -> Vec<Markup> {
    let mut warnings = verdict::spoiling_conditions(&report.conditions);
    warnings.extend(verdict::set_aside(report));
    warnings.extend(
        report
            .left_out
            .iter()
            .map(|reason| Markup::from(format!("Left out: {reason}."))),
    );
    if report.interrupted {
        warnings.push(ENDED_EARLY.into());
    }
    warnings
}

fn suspects(report: &StreamsReport) -> Markup {
    let headings: [Heading; 3] = [("who", ""), ("was it", ""), ("evidence", "")];
    let rows = report.limit.suspects.iter().map(|suspect| {
        vec![
            Some(suspect.name.words().into()),
            Some(if suspect.is_limit { "it was" } else { "it was not" }.into()),
            Some(Markup::from(&suspect.evidence)),
        ]
    });
    if report.limit.suspects.is_empty() {
        return Markup::default();
    }
    classed("div", "text", cells::table(&headings, 3, rows))
}

/// What became of the connections of each series, and what each of them took.
fn connections(report: &StreamsReport) -> Markup {
    let headings: [Heading; 9] = [
        ("step", ""),
        ("connections", ""),
        ("opened", ""),
        ("held", ""),
        ("opened in", "s"),
        ("p99", "latency"),
        ("client", "bytes each"),
        ("server", "bytes each"),
        ("kernel", "bytes each"),
    ];
    let rows = report.series().into_iter().filter_map(|series| {
        let step = series.last_measured()?;
        let each = &step.memory_per_connection;
        let rounded = |value: f64| quantity::count(value.round() as u64);
        Some(vec![
            Some(step.shape.title().into()),
            whole(step.shape.connections),
            number(step.connections_opened, rounded),
            number(step.connections_held, rounded),
            number(step.opening_s, |seconds| quantity::fixed(seconds, 2)),
            number(
                step.latency.map(|latency| latency.p99_ns as f64),
                quantity::duration,
            ),
            number(each.client_user_bytes, rounded),
            number(each.server_user_bytes, rounded),
            number(each.kernel_bytes, rounded),
        ])
    });
    cells::table(&headings, 1, rows).with(memory(report))
}

/// Where memory went in the step with the most connections.
fn memory(report: &StreamsReport) -> Markup {
    let Some(memory) = report.fullest_memory() else {
        return Markup::default();
    };
    let headings: [Heading; 4] = [
        ("memory", ""),
        ("objects", ""),
        ("in all", ""),
        ("a connection", "bytes"),
    ];
    let rows = memory.rows().into_iter().map(|row| {
        let each = row.bytes.map(|bytes| bytes as f64 / memory.connections as f64);
        let cells: Vec<Cell> = vec![
            // Blanks at the beginning would not be shown.
            Some(row.name.replace("  ", "\u{2003}").into()),
            row.objects.and_then(whole),
            number(row.bytes.map(|bytes| bytes as f64), |bytes| {
                quantity::bytes(bytes as u64)
            }),
            number(each, |bytes| quantity::count(bytes.round() as u64)),
        ];
        cells
    });
    let title = format!("Memory at {} connections", quantity::count(memory.connections));
    let note = "The kernel\u{2019}s is what it grew by since before the server was started, for both sides together.";
    plain("h3", title)
        .with(cells::table(&headings, 1, rows))
        .with(classed("p", "note", note))
}

fn errors(report: &StreamsReport) -> Markup {
    let headings: [Heading; 4] = [("step", ""), ("buckets", "active"), ("what", ""), ("times", "")];
    let rows: Vec<Vec<Cell>> = report
        .steps
        .iter()
        .flat_map(|step| {
            step.counted_errors().map(|(what, times)| {
                vec![
                    Some(step.shape.title().into()),
                    whole(step.shape.buckets_active as u64),
                    Some(what.replace('_', " ").into()),
                    whole(times),
                ]
            })
        })
        .collect();
    if rows.is_empty() {
        return plain("p", "None.");
    }
    cells::table(&headings, 3, rows.into_iter())
}
