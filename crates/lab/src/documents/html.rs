//! One self-contained HTML page of a report, to be sent to a colleague.
//!
//! In: a [`ScaleReport`]. Out: a page that needs no network and no script: verdict, plots as SVG, the posts' table,
//! conditions with the worst first, published figures labelled as other hardware, and the command that repeats the run.
//! Light and dark follow the reader's system; wide tables scroll by themselves on a phone.

pub mod classify;
mod figures;
mod observed;
pub mod streams;
mod tables;
mod verdict;

use crate::documents::scale::{ScaleReport, Tool};
use corelane_report::date;
use corelane_report::html::markup::{Markup, classed, element, plain};
use corelane_report::html::{document, figure_grid, section, unfold};
use corelane_serve::udp::Mode;
use corelane_worker::worker_memory as memory;

/// Rows of the table of buckets that are shown without being asked for.
const MOST_BUCKETS_UNFOLDED: usize = 16;

/// The page.
#[must_use]
pub fn page(report: &ScaleReport) -> String {
    let body = plain(
        "main",
        verdict::banner(report)
            .with(verdict::spoilers(report))
            .with(growth(report))
            .with(frames(report))
            .with(controls(report))
            .with(variations(report))
            .with(buckets(report))
            .with(time(report))
            .with(missing_frames(report))
            .with(section("Where the time went", observed::contents(report)))
            .with(posts(report))
            .with(conditions(report))
            .with(repeat(report)),
    );
    document(&verdict::headline(report), Some(report.started_unix_s), body)
}

/// How rate and cost grow with buckets.
fn growth(report: &ScaleReport) -> Markup {
    let drawn: Markup = [Mode::Echo, Mode::Sink]
        .into_iter()
        .filter(|mode| report.steps.iter().any(|step| step.mode == *mode))
        .map(|mode| figures::rate(report, mode).with(figures::cost(report, mode)))
        .collect();
    let law = report
        .scaling_sentence()
        .map(|sentence| classed("p", "note", sentence));
    section(
        "Growth with buckets",
        figure_grid(drawn).with(law.unwrap_or_default()),
    )
}

/// The posts' table.
fn frames(report: &ScaleReport) -> Markup {
    let tables: Markup = report
        .judged_series()
        .into_iter()
        .map(|series| plain("h3", series.title()).with(tables::frames(&series)))
        .collect();
    let note = "Received is counted at the server host\u{2019}s device, seen and answered by the server\u{2019}s workers. \
                Linearity is the rate at N buckets over N times the rate at one, \u{b1} half the range of the rounds.";
    section("Frames at five places", tables.with(classed("p", "note", note)))
}

fn controls(report: &ScaleReport) -> Markup {
    let drawn: Markup = [Mode::Echo, Mode::Sink]
        .map(|mode| figures::models(report, mode))
        .into_iter()
        .collect();
    let note = report.locality_note().map(|note| classed("p", "note", note));
    section("Controls", figure_grid(drawn).with(note.unwrap_or_default()))
}

/// Steps that did something otherwise, and what that did in words.
fn variations(report: &ScaleReport) -> Markup {
    if report.varied_steps().next().is_none() {
        return Markup::default();
    }
    let sentences: Markup = report
        .variation_sentences()
        .into_iter()
        .map(|sentence| plain("p", sentence))
        .collect();
    section("Otherwise than above", sentences.with(tables::variations(report)))
}

fn buckets(report: &ScaleReport) -> Markup {
    let drawn = figures::buckets(report).with(figures::cpus(report));
    let step = report
        .main_series()
        .and_then(|series| series.steps.last().copied());
    let table = step.map_or_else(Markup::default, |step| match step.per_bucket.len() {
        0 => Markup::default(),
        1..=MOST_BUCKETS_UNFOLDED => tables::buckets(step),
        count => plain(
            "details",
            plain("summary", format!("All {count} buckets")).with(tables::buckets(step)),
        ),
    });
    let memory = step.and_then(|step| memory::sentence(step.memory()));
    let memory = memory.map(|sentence| classed("p", "note", sentence));
    section(
        "Buckets and CPUs",
        figure_grid(drawn).with(table).with(memory.unwrap_or_default()),
    )
}

fn time(report: &ScaleReport) -> Markup {
    let tables: Markup = report
        .judged_series()
        .into_iter()
        .map(|series| plain("h3", series.title()).with(tables::costs(&series)))
        .collect();
    section(
        "Round trips and cost",
        figure_grid(figures::round_trips(report)).with(tables),
    )
}

fn missing_frames(report: &ScaleReport) -> Markup {
    let table = tables::drops(report);
    let words = match (table.is_empty(), report.unexplained_frames()) {
        (true, _) => "No frame went missing.",
        (false, 0) => "Every frame missing between two places has a cause.",
        (false, _) => "Some frames are missing without a cause: they are marked.",
    };
    section("Where frames went missing", plain("p", words).with(table))
}

fn posts(report: &ScaleReport) -> Markup {
    let tables: Markup = [Mode::Echo, Mode::Sink]
        .into_iter()
        .filter(|mode| report.steps.iter().any(|step| step.mode == *mode))
        .map(|mode| plain("h3", mode.to_string()).with(tables::published(report, mode)))
        .collect();
    let note = "Published figures come from other hardware and another system: context, not a comparison. What can be \
                read across is linearity.";
    section(
        "Beside what was published",
        classed("p", "note", note).with(tables),
    )
}

fn conditions(report: &ScaleReport) -> Markup {
    section("Conditions, worst first", tables::conditions(&report.conditions))
}

/// What it takes to repeat the run, and what the run was.
fn repeat(report: &ScaleReport) -> Markup {
    let documents = unfold(
        "Plan",
        &serde_json::to_string_pretty(&report.plan).unwrap_or_default(),
    )
    .with(unfold(
        "Steering document",
        &serde_json::to_string_pretty(&report.steering).unwrap_or_default(),
    ));
    repetition(&report.command(), documents, &report.tool, report.started_unix_s)
}

/// The command that repeats a run, the documents that describe it, and what wrote the page.
fn repetition(command: &str, documents: Markup, tool: &Tool, started_unix_s: u64) -> Markup {
    let command = element("pre", &[("class", "command")], plain("code", command));
    let tool = format!(
        "Written by {} {} on {}.",
        tool.name,
        tool.version,
        date::utc(started_unix_s)
    );
    section(
        "Repeat it",
        command.with(documents).with(classed("p", "note", tool)),
    )
}
