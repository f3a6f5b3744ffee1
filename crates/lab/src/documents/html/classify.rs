//! The page of `corelane lab classify`: which choices mattered, how rates go with batches, threads and strides, the post's
//! rows, every step, conditions, and the command that repeats the run.

mod figures;

use super::repetition;
use super::tables;
use super::verdict::{self, ENDED_EARLY};
use crate::documents::classify::{
    ClassifyReport, PublishedRow, Setting, Step, Stride, TableKind, held_words,
};
use crate::documents::conditions;
use corelane_measure::quantity::{self, or_missing};
use corelane_report::date;
use corelane_report::html::markup::{Markup, classed, plain};
use corelane_report::html::tables::{self as cells, Cell, Heading, number, whole};
use corelane_report::html::tiles::{self, Tile};
use corelane_report::html::{document, figure_grid, section, unfold};
use corelane_report::text::command;

/// The page.
#[must_use]
pub fn page(report: &ClassifyReport) -> String {
    let mut warnings = verdict::spoiling_conditions(&report.conditions);
    if report.interrupted {
        warnings.push(ENDED_EARLY.into());
    }
    let plan = serde_json::to_value(&report.plan).unwrap_or_default();
    let body = banner(report)
        .with(tiles::bear_in_mind(warnings))
        .with(section("Which choices mattered", choices(report)))
        .with(section("How rates go", figure_grid(figures::all(report))))
        .with(section("Strides, foretold and measured", strides(report)))
        .with(section("Beside what was published", published(report)))
        .with(section("Every step", steps(report)))
        .with(section(
            "Conditions, worst first",
            tables::conditions(&report.conditions),
        ))
        .with(repetition(
            &command(&report.command_line),
            unfold("Plan", &serde_json::to_string_pretty(&plan).unwrap_or_default()),
            &report.tool,
            report.started_unix_s,
        ));
    document(
        &headline(report),
        Some(report.started_unix_s),
        plain("main", body),
    )
}

/// The fastest full table and what it leaves of the limit, in one line.
fn headline(report: &ClassifyReport) -> String {
    let Some(step) = report.fastest(|setting| setting.entries > 0) else {
        return "Nothing was measured".to_owned();
    };
    format!(
        "{} frames a second by their addresses, {} of memory\u{2019}s limit",
        or_missing(step.frames_per_s, quantity::metric),
        or_missing(step.share_of_limit, quantity::percent)
    )
}

fn banner(report: &ClassifyReport) -> Markup {
    let origin = format!(
        "{} \u{b7} classification in memory \u{b7} {}",
        report.tool.name,
        date::utc(report.started_unix_s)
    );
    let mut header = classed("p", "origin", origin).with(plain("h1", headline(report)));
    if let Some(first) = report.conclusions.first() {
        header.push(classed("p", "limit", first));
    }
    header.push(classed("p", "machine", conditions::machine(&report.conditions)));
    header.push(tiles::tile_row(tiles(report)));
    plain("header", header)
}

fn tiles(report: &ClassifyReport) -> Vec<Tile> {
    let best = |table: TableKind| {
        report.fastest(|setting| setting.table == table && setting.entries > 0 && setting.threads == 1)
    };
    let rate = |step: Option<&Step>| or_missing(step.and_then(|step| step.frames_per_s), quantity::rate);
    let how = |step: Option<&Step>| {
        let setting = &step?.setting;
        Some(format!("batch {}, {}", setting.batch, setting.prefetch_words()))
    };
    let (post, exact) = (best(TableKind::Post), best(TableKind::Exact));
    let limit = &report.limit;
    vec![
        (
            "random lines, one thread",
            or_missing(report.limit_lines_per_s, quantity::rate),
            limit
                .way
                .as_ref()
                .map(|way| format!("{} of {way}", quantity::bytes(limit.bytes))),
        ),
        ("frames, exact table, one thread", rate(exact), how(exact)),
        (
            "frames, the post\u{2019}s table, one thread",
            rate(post),
            how(post),
        ),
    ]
}

fn choices(report: &ClassifyReport) -> Markup {
    let headings: [Heading; 4] = [
        ("choice", ""),
        ("frames", "times"),
        ("\u{b1}", ""),
        ("mattered", ""),
    ];
    let rows = report.choices.iter().map(|choice| {
        let ratio = choice.comparison.ratio;
        vec![
            Some(choice.words.as_str().into()),
            number(Some(ratio.median), |times| quantity::fixed(times, 2)),
            number(Some(ratio.half_range()).filter(|_| ratio.count > 1), |half| {
                quantity::fixed(half, 2)
            }),
            Some(if choice.mattered { "yes" } else { "no" }.into()),
        ]
    });
    let note = "Frames a second with the choice over those without, both of one round; a choice mattered when every round \
                says the same and the median differs by a twentieth or more.";
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Markup::default();
    }
    cells::table(&headings, 1, rows.into_iter()).with(classed("p", "note", note))
}

fn strides(report: &ClassifyReport) -> Markup {
    let headings: [Heading; 7] = [
        ("stride", "bytes"),
        ("headers of a burst that fit", "by the caches\u{2019} geometry"),
        ("foretold", ""),
        ("fetched in", "ns"),
        ("of the quickest", ""),
        ("agree", ""),
        ("frames", "/s"),
    ];
    let word = |value: Option<bool>, yes: &'static str, no: &'static str| -> Cell {
        value.map(|value| if value { yes } else { no }.into())
    };
    let row = |stride: &Stride| {
        vec![
            whole(stride.stride as u64),
            Some(held_words(stride).into()),
            stride.foretold().map(Markup::from),
            number(stride.ns_per_header, |time| quantity::fixed(time, 1)),
            number(stride.of_quickest, quantity::ratio),
            word(stride.agrees, "yes", "no"),
            number(stride.frames_per_s, quantity::metric),
        ]
    };
    let note = "Fetched in: a header of a burst that just arrived, one after the other, so that nothing hides how far away \
                it is. Frames: one at a time, with headers all that is fetched; CPUs overlap several. Foretold for the \
                private caches; how the last level spreads lines over its slices is not documented.";
    let rows: Vec<_> = report.strides.iter().map(row).collect();
    if rows.is_empty() {
        return Markup::default();
    }
    cells::table(&headings, 3, rows.into_iter()).with(classed("p", "note", note))
}

fn published(report: &ClassifyReport) -> Markup {
    let mut headings = setting_headings().to_vec();
    headings.extend([
        ("the post", "frames/s"),
        ("this run", "frames/s"),
        ("the post", "MB/s read"),
        ("the post", "MB/s written"),
        ("this run", "MB/s read"),
        ("this run", "MB/s written"),
        ("the post", "CPU"),
        ("this run", "CPU"),
        ("note", ""),
    ]);
    let row = |row: &PublishedRow| {
        let step = row.step.and_then(|step| report.steps.get(step));
        let own = |of: fn(&Step) -> Option<f64>| step.and_then(of);
        let mut cells = setting_cells(&row.setting);
        cells.extend([
            number(row.frames_per_s, quantity::metric),
            number(own(|step| step.frames_per_s), quantity::metric),
            number(row.mem_read_mb_s, whole_words),
            number(row.mem_write_mb_s, whole_words),
            number(own(|step| step.mem_read_mb_s), whole_words),
            number(own(|step| step.mem_write_mb_s), whole_words),
            number(row.cpu_share, quantity::percent),
            number(own(|step| step.cpu_share), quantity::percent),
            row.note.as_deref().map(Markup::from),
        ]);
        cells
    };
    let source = format!(
        "\u{201c}{}\u{201d}, other hardware: {}. Context, not a comparison.",
        report.published.title, report.published.other_hardware
    );
    let rows = report.published.rows.iter().map(row);
    classed("p", "note", source).with(cells::table(&headings, 1, rows))
}

fn steps(report: &ClassifyReport) -> Markup {
    let mut headings = setting_headings().to_vec();
    headings.extend([
        ("frames", "/s"),
        ("\u{b1}", ""),
        ("lookups", "/s"),
        ("of the limit", ""),
        ("CPU", ""),
        ("page", "bytes"),
        ("read", "MB/s"),
        ("written", "MB/s"),
        ("misses", "a lookup"),
    ]);
    let row = |step: &Step| {
        let mut cells = setting_cells(&step.setting);
        let spread = step.frames_per_s_spread.filter(|spread| spread.count > 1);
        cells.extend([
            number(step.frames_per_s, quantity::metric),
            number(spread.map(|spread| spread.relative / 2.0), quantity::percent),
            number(step.lookups_per_s, quantity::metric),
            number(step.share_of_limit, quantity::percent),
            number(step.cpu_share, quantity::percent),
            step.page_size.and_then(whole),
            number(step.mem_read_mb_s, whole_words),
            number(step.mem_write_mb_s, whole_words),
            number(step.cache_misses_per_lookup, |misses| quantity::fixed(misses, 2)),
        ]);
        cells
    };
    let unknown: Markup = [&report.unknowns.memory_traffic, &report.unknowns.cache_misses]
        .into_iter()
        .flatten()
        .map(|why| classed("p", "note", why))
        .collect();
    let table = cells::table(&headings, 1, report.steps.iter().map(row));
    let summary = plain("summary", format!("All {} steps", report.steps.len()));
    plain("details", summary.with(table)).with(unknown)
}

fn setting_headings() -> [Heading; 6] {
    [
        ("table", ""),
        ("batch", ""),
        ("prefetch", ""),
        ("stride", ""),
        ("threads", ""),
        ("lock", ""),
    ]
}

fn setting_cells(setting: &Setting) -> Vec<Cell> {
    vec![
        Some(setting.table_words().into()),
        whole(setting.batch as u64),
        Some(setting.prefetch_words().into()),
        whole(setting.stride as u64),
        whole(setting.threads as u64),
        Some(setting.lock.name().into()),
    ]
}

fn whole_words(value: f64) -> String {
    quantity::fixed(value, 0)
}
