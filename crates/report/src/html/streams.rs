//! The page of `corelane lab scale http` and `tcp`: who was the limit, growth with buckets, connections and their memory,
//! controls, errors, conditions, and the command that repeats the run.

mod figures;

use super::markup::{Markup, classed, plain};
use super::tables::{self, Cell, Heading, number, whole};
use super::verdict::{self, ENDED_EARLY, Tile};
use super::{document, figure_grid, repetition, section, unfold};
use crate::conditions;
use crate::date;
use crate::quantity::{self, or_missing};
use crate::scale::TrialStatus;
use crate::streams::{Protocol, Series, Server, Step, StreamsReport};

/// The page.
#[must_use]
pub fn page(report: &StreamsReport) -> String {
    let documents = unfold("Plan", &report.plan).with(unfold("Steering document", &report.steering));
    let law = report.scaling.sentence();
    let law = law.map(|sentence| classed("p", "note", sentence));
    let body = banner(report)
        .with(verdict::bear_in_mind(warnings(report)))
        .with(section("Who was the limit", suspects(report)))
        .with(section(
            "Growth with buckets",
            figure_grid(figures::growth(report)).with(law.unwrap_or_default()),
        ))
        .with(section("Every step", steps(report)))
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
    document(&headline(report), report.started_unix_s, plain("main", body))
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
    header.push(verdict::tile_row(tiles(report)));
    plain("header", header)
}

fn tiles(report: &StreamsReport) -> Vec<Tile> {
    let Some(step) = last_step(report) else {
        return Vec::new();
    };
    let spread = step.linearity_spread.filter(|spread| spread.count > 1);
    let each = &step.memory_per_connection;
    let bytes = |value: Option<f64>| or_missing(value, |value| quantity::bytes(value.round() as u64));
    let cost = |cost: Option<f64>| or_missing(cost, |cost| format!("{} \u{b5}s", quantity::fixed(cost, 2)));
    let mut tiles = vec![
        (
            "rate",
            rate_words(report.protocol, step.main_rate(report.protocol)),
            step.gbit_s
                .map(|rate| format!("{} Gb/s", quantity::fixed(rate, 2))),
        ),
        (
            "linearity",
            or_missing(step.linearity, |linearity| quantity::fixed(linearity, 2)),
            spread.map(|spread| format!("\u{b1} {:.2}, {} rounds", spread.half_range(), spread.count)),
        ),
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
    ];
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

fn warnings(report: &StreamsReport) -> Vec<Markup> {
    let mut warnings = verdict::spoiling_conditions(&report.conditions);
    let count = |status| {
        report
            .trials
            .iter()
            .filter(|trial| trial.status == status)
            .count()
    };
    let all = report.trials.len();
    for (status, words) in [
        (TrialStatus::GeneratorLimited, "the generator was the limit"),
        (TrialStatus::Failed, "something failed"),
    ] {
        let marked = count(status);
        if marked > 0 {
            warnings
                .push(format!("In {marked} of {all} trials {words}; none of them enters a number.").into());
        }
    }
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
            Some(if suspect.is_limit { "yes" } else { "no" }.into()),
            Some(Markup::from(&suspect.evidence)),
        ]
    });
    if report.limit.suspects.is_empty() {
        return Markup::default();
    }
    classed("div", "text", tables::table(&headings, 3, rows))
}

/// A table of each series.
fn steps(report: &StreamsReport) -> Markup {
    let of = |series: Series<'_>| plain("h3", series.shape().title()).with(series_table(&series));
    let note = "Linearity is the rate at N buckets over N times the rate at one, \u{b1} half the range of the rounds. CPU time is \
                that of all processes of a side, with the receive path that the kernel ran in their name.";
    report
        .series()
        .into_iter()
        .map(of)
        .collect::<Markup>()
        .with(classed("p", "note", note))
}

fn series_table(series: &Series<'_>) -> Markup {
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
        let latency = |of: fn(&crate::histogram::Summary) -> u64| {
            number(
                step.latency.as_ref().map(|latency| of(latency) as f64),
                quantity::duration,
            )
        };
        let two_decimals = |value: f64| quantity::fixed(value, 2);
        vec![
            whole(step.shape.buckets_active as u64),
            number(step.requests_per_s, quantity::metric),
            number(step.gbit_s, two_decimals),
            number(step.linearity, |linearity| {
                let spread = step.linearity_spread;
                spread.map_or_else(|| two_decimals(linearity), |spread| spread.display(2))
            }),
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
    tables::table(&headings, 1, rows).with(memory(report))
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
            Some(row.name.into()),
            row.objects.and_then(whole),
            number(row.bytes.map(|bytes| bytes as f64), |bytes| {
                quantity::bytes(bytes as u64)
            }),
            number(each, |bytes| quantity::fixed(bytes, 0)),
        ];
        cells
    });
    let title = format!("Memory at {} connections", quantity::count(memory.connections));
    let note = "The kernel\u{2019}s is what it grew by since before the server was started, for both sides together.";
    plain("h3", title)
        .with(tables::table(&headings, 1, rows))
        .with(classed("p", "note", note))
}

fn errors(report: &StreamsReport) -> Markup {
    let headings: [Heading; 4] = [("step", ""), ("buckets", "active"), ("what", ""), ("times", "")];
    let rows: Vec<Vec<Cell>> = report
        .steps
        .iter()
        .flat_map(|step| {
            let counted = step
                .errors
                .iter()
                .chain(&step.kernel)
                .filter(|(_, times)| **times > 0);
            counted.map(|(what, times)| {
                vec![
                    Some(step.shape.title().into()),
                    whole(step.shape.buckets_active as u64),
                    Some(what.replace('_', " ").into()),
                    whole(*times),
                ]
            })
        })
        .collect();
    if rows.is_empty() {
        return plain("p", "None.");
    }
    tables::table(&headings, 3, rows.into_iter())
}
