//! A report as people read it in a terminal: 100 columns, the verdict last.

use super::{Protocol, Segments, Series, Server, StreamsReport};
use crate::document::TrialStatus;
use crate::documents::change::Run;
use crate::documents::text::{ENDED_EARLY, conditions_section, heading, linearity, set_aside, unknown};
use crate::scale::Placement;
use corelane_measure::quantity::{self, or_missing};
use corelane_measure::statistics;
use corelane_report::table::{Column, Table, clean};
use corelane_report::text::{WIDTH, paragraph};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The whole report as text: bed and conditions, growth, connections, memory, controls, errors, and the limit in the last
/// line.
#[must_use]
pub fn render(report: &StreamsReport) -> String {
    let mut sections = vec![
        heading(&report.heading()),
        conditions_section(&report.conditions),
        subject_section(report),
    ];
    for series in report.judged_series() {
        sections.push(growth_section(report, &series));
        sections.push(costs_section(&series));
    }
    sections.push(connections_section(report));
    sections.push(memory_section(report));
    sections.push(controls_section(report));
    sections.push(errors_section(report));
    sections.push(trials_section(report));
    sections.push(unknown_section(report));
    sections.push(limit_section(report));
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

fn subject_section(report: &StreamsReport) -> String {
    let mut text = String::new();
    if let Some(command) = &report.subject {
        paragraph(&mut text, "subject  ", command);
    }
    text
}

/// What grew with the active buckets.
fn growth_section(report: &StreamsReport, series: &Series<'_>) -> String {
    let mut table = Table::new(vec![
        Column::right("N"),
        Column::right("requests").unit("/s"),
        Column::right("Gb/s"),
        Column::right("linearity"),
        Column::right("server").unit("\u{b5}s/request"),
        Column::right("client").unit("\u{b5}s/request"),
        Column::right("server").unit("B/CPU s"),
        Column::right("client").unit("B/CPU s"),
        Column::right("idle").unit("%"),
        Column::right("softirq").unit("%"),
        Column::right("steered").unit("right %"),
        Column::right("sent again"),
        Column::right("disorder"),
        Column::right("stalls"),
        Column::right("trials"),
    ]);
    let http = report.protocol == Protocol::Http;
    for step in &series.steps {
        let per_request =
            |cost: Option<f64>| or_missing(cost.filter(|_| http), |cost| quantity::fixed(cost, 2));
        let per_cpu = |bytes: Option<f64>| or_missing(bytes.filter(|_| !http), quantity::metric);
        let steered = step.steering_ok.filter(|_| !http);
        let segments = |of: fn(&Segments) -> u64| {
            or_missing(step.segments.as_ref(), |segments| quantity::count(of(segments)))
        };
        table.row([
            step.shape.buckets_active.to_string(),
            or_missing(step.requests_per_s, quantity::metric),
            or_missing(step.gbit_s, |rate| quantity::fixed(rate, 2)),
            linearity(step.linearity_spread, step.linearity),
            per_request(step.server_cpu_us_per_request),
            per_request(step.client_cpu_us_per_request),
            per_cpu(step.server_bytes_per_cpu_s),
            per_cpu(step.client_bytes_per_cpu_s),
            or_missing(step.idle_share(), quantity::whole_percent),
            or_missing(step.softirq_share(), quantity::whole_percent),
            or_missing(steered, quantity::percent_number),
            segments(|segments| segments.sent_again),
            segments(|segments| segments.out_of_order),
            segments(|segments| segments.stalls),
            step.trials.to_string(),
        ]);
    }
    let what = match series.shape().server {
        Server::Subject => "N CPUs",
        Server::Exact | Server::Reuseport => "N buckets active",
    };
    let table = table.without_silent_columns().render(WIDTH);
    format!("{}; {what}\n{table}", series.shape().title())
}

/// How long requests took.
fn costs_section(series: &Series<'_>) -> String {
    if series.steps.iter().all(|step| step.latency.is_none()) {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::right("N"),
        Column::right("latency").unit("median"),
        Column::right("p90"),
        Column::right("p99"),
        Column::right("p99.9"),
        Column::right("longest"),
        Column::right("schedule lag").unit("p99"),
        Column::right("steered right").unit("%"),
        Column::right("spread of rate").unit("%"),
    ]);
    for step in &series.steps {
        let nanoseconds = |of: fn(&corelane_measure::histogram::Summary) -> u64| {
            or_missing(step.latency.as_ref(), |summary| {
                quantity::duration(of(summary) as f64)
            })
        };
        table.row([
            step.shape.buckets_active.to_string(),
            nanoseconds(|summary| summary.p50_ns),
            nanoseconds(|summary| summary.p90_ns),
            nanoseconds(|summary| summary.p99_ns),
            nanoseconds(|summary| summary.p999_ns),
            nanoseconds(|summary| summary.max_ns),
            or_missing(step.schedule_lag, |lag| quantity::duration(lag.p99_ns as f64)),
            or_missing(step.steering_ok, quantity::percent_number),
            or_missing(step.rate_spread.filter(|spread| spread.count > 1), |spread| {
                quantity::percent_number(spread.relative)
            }),
        ]);
    }
    table.without_silent_columns().render(WIDTH)
}

/// What became of the connections, where there are many or several numbers of them.
fn connections_section(report: &StreamsReport) -> String {
    let counts: BTreeSet<u64> = report.steps.iter().map(|step| step.shape.connections).collect();
    let many = counts
        .last()
        .is_some_and(|most| *most >= super::memory::FEWEST_TO_SHARE);
    if counts.len() < 2 && !many {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::right("connections"),
        Column::right(match report.protocol {
            Protocol::Http => "object",
            Protocol::Tcp => "write",
        }),
        Column::right("N"),
        Column::right("opened"),
        Column::right("held"),
        Column::right("in").unit("s"),
        Column::right("rate").unit(rate_unit(report.protocol)),
        Column::right("p99"),
        Column::right("client").unit("B each"),
        Column::right("server").unit("B each"),
        Column::right("kernel").unit("B each"),
    ]);
    for step in report.judged_series().iter().filter_map(Series::last_measured) {
        let each = &step.memory_per_connection;
        let whole = |value: Option<f64>| or_missing(value, |value| quantity::count(value.round() as u64));
        table.row([
            quantity::count(step.shape.connections),
            or_missing(step.shape.size(), quantity::bytes),
            step.shape.buckets_active.to_string(),
            whole(step.connections_opened),
            whole(step.connections_held),
            or_missing(step.opening_s, |seconds| quantity::fixed(seconds, 2)),
            or_missing(step.main_rate(report.protocol), |rate| {
                main_rate(report.protocol, rate)
            }),
            or_missing(step.latency, |latency| quantity::duration(latency.p99_ns as f64)),
            whole(each.client_user_bytes),
            whole(each.server_user_bytes),
            whole(each.kernel_bytes),
        ]);
    }
    let table = table.without_silent_columns().render(WIDTH);
    format!("connections; memory of user space and of the kernel, both sides, for each\n{table}")
}

/// Where memory went in the step with the most connections.
fn memory_section(report: &StreamsReport) -> String {
    let Some(memory) = report.fullest_memory() else {
        return String::new();
    };
    let mut table = Table::new(vec![
        Column::left("memory").may_shrink(),
        Column::right("objects"),
        Column::right("in all"),
        Column::right("B a connection"),
    ]);
    for row in memory.rows() {
        let each = |bytes: u64| quantity::fixed(bytes as f64 / memory.connections as f64, 0);
        table.row([
            row.name,
            row.objects.map(quantity::count).unwrap_or_default(),
            or_missing(row.bytes, quantity::bytes),
            or_missing(row.bytes, each),
        ]);
    }
    format!(
        "memory at {} connections; the kernel's is what it grew by, both sides together\n{}",
        quantity::count(memory.connections),
        table.render(WIDTH)
    )
}

/// Every series at its largest step, beside exact steering with aligned clients.
fn controls_section(report: &StreamsReport) -> String {
    let all = report.series();
    if all.len() <= report.judged_series().len() {
        return String::new();
    }
    let mut table = StreamsReport::step_table([
        Column::right("rate").unit(rate_unit(report.protocol)),
        Column::right("of exact"),
        Column::right("p99"),
        Column::right("server").unit("share %"),
        Column::right("client").unit("share %"),
        Column::right("linearity"),
    ]);
    for series in &all {
        let Some(step) = series.steps.last() else { continue };
        let reference = report.steps.iter().find(|other| {
            other.shape.same_load(&step.shape)
                && other.shape.buckets_active == step.shape.buckets_active
                && (other.shape.server, other.shape.placement) == (Server::Exact, Placement::Aligned)
        });
        let rate = step.main_rate(report.protocol);
        let exact = reference.and_then(|exact| exact.main_rate(report.protocol));
        let of_exact = rate
            .zip(exact)
            .and_then(|(rate, exact)| statistics::ratio(rate, exact));
        let cells = [
            or_missing(rate, |rate| main_rate(report.protocol, rate)),
            or_missing(of_exact, quantity::ratio),
            or_missing(step.latency, |latency| quantity::duration(latency.p99_ns as f64)),
            or_missing(step.server_cpu_share, quantity::whole_percent),
            or_missing(step.client_cpu_share, quantity::whole_percent),
            linearity(step.linearity_spread, step.linearity),
        ];
        table.row(StreamsReport::shape_cells(step).into_iter().chain(cells));
    }
    let table = table.without_silent_columns().render(WIDTH);
    format!("controls beside exact steering\n{table}")
}

/// What went wrong, and what the kernel counted that tells of a limit.
fn errors_section(report: &StreamsReport) -> String {
    let mut table = StreamsReport::step_table([Column::left("what"), Column::right("times")]);
    for step in &report.steps {
        for (what, times) in step.counted_errors() {
            let cells = [what.replace('_', " "), quantity::count(times)];
            table.row(StreamsReport::shape_cells(step).into_iter().chain(cells));
        }
    }
    if table.is_empty() {
        return "errors, and what the kernel dropped or sent again: none\n".to_owned();
    }
    format!(
        "errors, and what the kernel dropped or sent again, over all valid trials\n{}",
        table.render(WIDTH)
    )
}

fn trials_section(report: &StreamsReport) -> String {
    let mut text = set_aside(report);
    let failed = report
        .trials
        .iter()
        .filter(|trial| trial.status == TrialStatus::Failed);
    let reasons: BTreeMap<&str, usize> = failed.fold(BTreeMap::new(), |mut reasons, trial| {
        *reasons
            .entry(trial.why.as_deref().unwrap_or("for no reason that is known"))
            .or_default() += 1;
        reasons
    });
    for (reason, times) in reasons {
        paragraph(
            &mut text,
            "",
            &format!("{times} of {} trials failed: {reason}", report.trials.len()),
        );
    }
    for left_out in &report.left_out {
        paragraph(&mut text, "left out ", left_out);
    }
    if report.interrupted {
        paragraph(&mut text, "", ENDED_EARLY);
    }
    text
}

/// What could not be measured in the main series, and why.
fn unknown_section(report: &StreamsReport) -> String {
    let steps = report
        .main_series()
        .map(|series| series.steps)
        .unwrap_or_default();
    // That there are no requests where bytes are measured is no news to a reader.
    let of_requests = |field: &str| field.contains("request") || field == "latency";
    let told = |(field, _): &(&String, &String)| report.protocol == Protocol::Http || !of_requests(field);
    unknown(steps.iter().flat_map(|step| &step.unknown).filter(told))
}

/// The law of growth, who was the limit, and the verdict.
fn limit_section(report: &StreamsReport) -> String {
    let mut text = String::new();
    if let Some(sentence) = report.scaling.sentence() {
        paragraph(&mut text, "", &sentence);
    }
    if !report.limit.suspects.is_empty() {
        text.push_str("\nwho was the limit\n");
    }
    for suspect in &report.limit.suspects {
        let mark = if suspect.is_limit { "*" } else { " " };
        let label = format!("{mark} {:<17}", suspect.name.words());
        paragraph(&mut text, &label, &suspect.evidence);
    }
    // One line whatever its length, so that the last line of the text is the verdict.
    let _ = writeln!(text, "{}", clean(&report.limit.sentence));
    text
}

fn rate_unit(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http => "requests/s",
        Protocol::Tcp => "Gb/s",
    }
}

/// What a step is judged by, as a number of a table.
fn main_rate(protocol: Protocol, rate: f64) -> String {
    match protocol {
        Protocol::Http => quantity::metric(rate),
        Protocol::Tcp => quantity::fixed(rate, 2),
    }
}
