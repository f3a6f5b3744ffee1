//! The experiment as people read it in a terminal: 100 columns, which choices mattered in the last lines.

use super::{Choice, ClassifyReport, LockKind, PrefetchKind, PublishedRow, Setting, Step, Stride, TableKind};
use crate::documents::text::{Heading, conditions_section, heading};
use corelane_measure::quantity::{self, or_missing};
use corelane_measure::statistics::Spread;
use corelane_report::table::{Column, Table};
use corelane_report::text::{WIDTH, command, paragraph};

/// The whole report as text: conditions, the limit, steps, strides, the post's rows, and what mattered.
#[must_use]
pub fn render(report: &ClassifyReport) -> String {
    let mut sections = vec![
        heading(&Heading {
            tool: &report.tool,
            conditions: &report.conditions,
            bed: None,
            command: command(&report.command_line),
        }),
        conditions_section(&report.conditions),
        limit_section(report),
        steps_section(report),
        strides_section(report),
        published_section(report),
        unknown_section(report),
        choices_section(report),
    ];
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

/// The conclusion, a sentence each: what mattered and what did not, the fastest table and its share of the limit.
pub(super) fn conclusions(report: &ClassifyReport) -> Vec<String> {
    let (mattered, not): (Vec<&Choice>, Vec<&Choice>) =
        report.choices.iter().partition(|choice| choice.mattered);
    let mut sentences: Vec<String> = mattered
        .iter()
        .map(|choice| format!("{} times: {}.", times(choice), choice.words))
        .collect();
    if !not.is_empty() {
        let words: Vec<String> = not
            .iter()
            .map(|choice| format!("{} ({}x)", choice.words, times(choice)))
            .collect();
        sentences.push(format!("Made no clear difference here: {}.", words.join("; ")));
    }
    if let Some(step) = report.fastest(|setting| setting.entries > 0) {
        let share = or_missing(step.share_of_limit, quantity::percent);
        sentences.push(format!(
            "Fastest with a full table: {} frames a second ({}), {share} of this machine\u{2019}s random lines a second \
             and thread.",
            or_missing(step.frames_per_s, quantity::metric),
            step.setting
        ));
    }
    if report.interrupted {
        sentences
            .push("The run was ended early: what it says rests on the trials that were complete.".to_owned());
    }
    sentences
}

fn times(choice: &Choice) -> String {
    choice.comparison.ratio.display(2)
}

fn limit_section(report: &ClassifyReport) -> String {
    let Some(lines) = report.limit_lines_per_s else {
        return String::new();
    };
    let mut text = String::new();
    let words = format!(
        "{} random lines a second on one thread, of {} in pages of {} ({}); {} frames of {} bytes, two lookups each, {} of \
         the addresses present",
        quantity::metric(lines),
        quantity::bytes(report.limit.bytes),
        or_missing(report.limit.page_size, quantity::bytes),
        report.limit.way.as_deref().unwrap_or_default(),
        quantity::count(report.plan.burst as u64),
        report.plan.frame_bytes,
        quantity::percent(report.plan.present_share),
    );
    paragraph(&mut text, "limit    ", &words);
    text
}

fn steps_section(report: &ClassifyReport) -> String {
    let mut table = Table::new(vec![
        Column::left("table").may_shrink(),
        Column::right("batch"),
        Column::left("prefetch"),
        Column::right("ahead"),
        Column::right("stride"),
        Column::right("threads"),
        Column::left("lock"),
        Column::right("frames").unit("/s"),
        Column::right("\u{b1}").unit("%"),
        Column::right("lookups").unit("/s"),
        Column::right("limit").unit("%"),
        Column::right("CPU").unit("%"),
    ]);
    for step in report.steps.iter().filter(|step| step.frames_per_s.is_some()) {
        table.row(step_row(step));
    }
    if table.is_empty() {
        return String::new();
    }
    let plan = &report.plan;
    format!(
        "steps, medians of {} rounds of {}; \u{b1} is half the range; prefetched ahead in lookups;\n\
         \u{201c}array too\u{201d} is bucket-and-array, \u{201c}a batch\u{201d} is read-per-batch\n{}",
        plan.rounds,
        quantity::duration(plan.duration_s * 1e9),
        table.render(WIDTH)
    )
}

fn step_row(step: &Step) -> [String; 12] {
    let setting = &step.setting;
    let spread = step.frames_per_s_spread.filter(|spread| spread.count > 1);
    [
        setting.table_words(),
        setting.batch.to_string(),
        prefetch_word(setting.prefetch).to_owned(),
        or_missing(setting.prefetch_distance, |distance| distance.to_string()),
        setting.stride.to_string(),
        setting.threads.to_string(),
        lock_word(setting.lock).to_owned(),
        or_missing(step.frames_per_s, quantity::metric),
        or_missing(spread, |spread: Spread| {
            quantity::fixed(spread.relative * 50.0, 0)
        }),
        or_missing(step.lookups_per_s, quantity::metric),
        or_missing(step.share_of_limit, quantity::percent_number),
        or_missing(step.cpu_share, quantity::percent_number),
    ]
}

/// Kinds of prefetching, as short as a column takes.
const fn prefetch_word(kind: PrefetchKind) -> &'static str {
    match kind {
        PrefetchKind::BucketAndArray => "array too",
        kind => kind.name(),
    }
}

/// Locks, as short as a column takes.
const fn lock_word(kind: LockKind) -> &'static str {
    match kind {
        LockKind::ReadPerBatch => "a batch",
        kind => kind.name(),
    }
}

fn strides_section(report: &ClassifyReport) -> String {
    if report.strides.is_empty() {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::right("stride"),
        Column::left("a burst\u{2019}s headers held").unit("by the caches\u{2019} geometry"),
        Column::left("foretold"),
        Column::right("fetched in").unit("ns"),
        Column::right("of quickest"),
        Column::left("agree"),
        Column::right("frames").unit("/s"),
    ]);
    for stride in &report.strides {
        table.row([
            stride.stride.to_string(),
            held_words(stride),
            or_missing(stride.foretold(), |words| words),
            or_missing(stride.ns_per_header_spread, |spread| spread.display(1)),
            or_missing(stride.of_quickest, quantity::ratio),
            or_missing(stride.agrees, |agrees| {
                if agrees { "yes" } else { "no" }.to_owned()
            }),
            or_missing(stride.frames_per_s, quantity::metric),
        ]);
    }
    format!(
        "strides: headers fetched one after the other; frames a second with headers only, one at a time\n{}",
        table.render(WIDTH)
    )
}

/// `L1 24 of 768, L2 512 of 1,024`.
pub(crate) fn held_words(stride: &Stride) -> String {
    let words = |held: &super::Held| {
        format!(
            "L{} {} of {}",
            held.level,
            quantity::count(held.lines_held),
            quantity::count(held.lines_at_best)
        )
    };
    match stride.levels.as_slice() {
        [] => "the caches' geometry is hidden here".to_owned(),
        levels => levels.iter().map(words).collect::<Vec<_>>().join(", "),
    }
}

fn published_section(report: &ClassifyReport) -> String {
    let mut table = Table::new(vec![
        Column::left("table"),
        Column::right("batch"),
        Column::left("prefetch"),
        Column::right("stride"),
        Column::right("threads"),
        Column::left("lock"),
        Column::right("the post").unit("frames/s"),
        Column::right("here").unit("frames/s"),
        Column::left("note").may_shrink(),
    ]);
    for row in &report.published.rows {
        table.row(published_row(row, &report.steps));
    }
    let mut text = String::new();
    let title = format!(
        "beside \u{201c}{}\u{201d}, which is other hardware: {}",
        report.published.title, report.published.other_hardware
    );
    paragraph(&mut text, "", &title);
    text + &table.without_silent_columns().render(WIDTH)
}

fn published_row(row: &PublishedRow, steps: &[Step]) -> [String; 9] {
    let here = row.step.and_then(|step| steps[step].frames_per_s);
    let Setting {
        batch,
        stride,
        threads,
        lock,
        table,
        ..
    } = &row.setting;
    let batch = match table {
        TableKind::None => quantity::MISSING.to_owned(),
        _ => batch.to_string(),
    };
    [
        row.setting.table_words(),
        batch,
        row.setting.prefetch_words(),
        stride.to_string(),
        threads.to_string(),
        lock.to_string(),
        or_missing(row.frames_per_s, quantity::metric),
        or_missing(here, quantity::metric),
        row.note.clone().unwrap_or_default(),
    ]
}

fn unknown_section(report: &ClassifyReport) -> String {
    let mut text = String::new();
    for (what, why) in [
        ("memory traffic", &report.unknowns.memory_traffic),
        ("cache misses", &report.unknowns.cache_misses),
    ] {
        if let Some(why) = why {
            paragraph(&mut text, "unknown  ", &format!("{what}: {why}"));
        }
    }
    text
}

fn choices_section(report: &ClassifyReport) -> String {
    let mut text = String::new();
    for sentence in &report.conclusions {
        paragraph(&mut text, "  ", sentence);
    }
    if text.is_empty() {
        return "Nothing was measured.\n".to_owned();
    }
    format!("which choices mattered here\n{text}")
}
