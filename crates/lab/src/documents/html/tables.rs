//! The tables of the page. Every number is a `<data>` element whose `value` is the JSON's number in full, so that what
//! is read and what is written can be held against each other.

use crate::documents::change::Run;
use crate::documents::conditions;
use crate::documents::published::{PUBLISHED, Published, PublishedRow};
use crate::documents::scale::{Placement, ScaleReport, Series, Step};
use corelane_measure::drops;
use corelane_measure::histogram::Summary;
use corelane_measure::quantity::{self};
use corelane_report::html::markup::{Markup, classed, element, plain};
use corelane_report::html::tables::{
    Cell, Heading, body_row, data, header, number, scrolled, table, two_decimals, whole,
};
use corelane_serve::udp::{Mode, Model};

/// The posts' table of one series: frames at five places, and what came of the CPUs.
pub(crate) fn frames(series: &Series<'_>) -> Markup {
    let headings: [Heading; 12] = [
        ("buckets", "active"),
        ("generated", "/s"),
        ("received", "/s"),
        ("seen", "/s"),
        ("answered", "/s"),
        ("returned", "/s"),
        ("payload", "Gb/s"),
        ("locality", ""),
        ("CPU", "\u{b5}s/frame"),
        ("idle", ""),
        ("softirq", ""),
        ("linearity", ""),
    ];
    let rows = series.steps.iter().map(|step| {
        vec![
            whole(step.buckets_active as u64),
            number(step.generated_pps, quantity::metric),
            number(step.received_pps, quantity::metric),
            number(step.seen_pps, quantity::metric),
            number(step.answered_pps, quantity::metric),
            number(step.returned_pps, quantity::metric),
            number(step.gbit_s, two_decimals),
            number(step.locality, quantity::percent),
            number(step.cpu_us_per_frame, two_decimals),
            number(step.idle_share(), quantity::percent),
            number(step.softirq_share(), quantity::percent),
            linearity(step),
        ]
    });
    table(&headings, 1, rows)
}

/// What else each step of a series cost.
pub(crate) fn costs(series: &Series<'_>) -> Markup {
    let headings: [Heading; 10] = [
        ("buckets", "active"),
        ("median", "round trip"),
        ("p90", "round trip"),
        ("p99", "round trip"),
        ("p99.9", "round trip"),
        ("longest", "round trip"),
        ("context switches", "/s"),
        ("clock", "MHz"),
        ("steered right", ""),
        ("trials", ""),
    ];
    let rows = series.steps.iter().map(|step| {
        let nanoseconds = |of: fn(&Summary) -> u64| {
            number(
                step.round_trip.as_ref().map(|trip| of(trip) as f64),
                quantity::duration,
            )
        };
        vec![
            whole(step.buckets_active as u64),
            nanoseconds(|trip| trip.p50_ns),
            nanoseconds(|trip| trip.p90_ns),
            nanoseconds(|trip| trip.p99_ns),
            nanoseconds(|trip| trip.p999_ns),
            nanoseconds(|trip| trip.max_ns),
            number(step.context_switches_per_s, quantity::metric),
            number(step.effective_mhz, |clock| quantity::fixed(clock, 0)),
            number(step.steering_ok, quantity::percent),
            whole(step.trials as u64),
        ]
    });
    table(&headings, 1, rows)
}

/// Steps that did something otherwise, beside the plain steps of their shape.
pub(crate) fn variations(report: &ScaleReport) -> Markup {
    let headings: [Heading; 9] = [
        ("step", ""),
        ("buckets", "active"),
        ("rate", "/s"),
        ("of plain", ""),
        ("CPU a frame", "of plain"),
        ("fullest bucket", "x mean"),
        ("reordered", ""),
        ("locality", ""),
        ("answers' locality", ""),
    ];
    let rows = report.varied_steps().map(|step| {
        vec![
            Some(step.title().into()),
            whole(step.buckets_active as u64),
            number(step.main_rate(), quantity::metric),
            number(step.rate_of_plain, quantity::ratio),
            number(step.cost_of_plain, quantity::ratio),
            number(step.imbalance, two_decimals),
            number(step.reordered_share, quantity::percent),
            number(step.locality, quantity::percent),
            number(step.tx_locality, quantity::percent),
        ]
    });
    table(&headings, 1, rows)
}

/// Each bucket of a step.
pub(crate) fn buckets(step: &Step) -> Markup {
    let headings: [Heading; 10] = [
        ("bucket", ""),
        ("cpu", ""),
        ("seen", "/s"),
        ("seen", "frames"),
        ("answered", "frames"),
        ("dropped", "frames"),
        ("locality", ""),
        ("steered right", ""),
        ("memory", ""),
        ("pages of buffers", ""),
    ];
    let rows = step.per_bucket.iter().map(|bucket| {
        vec![
            whole(u64::from(bucket.bucket)),
            whole(u64::from(bucket.cpu)),
            number(bucket.seen_pps, quantity::metric),
            whole(bucket.seen),
            bucket.answered.and_then(whole),
            whole(bucket.dropped),
            number(bucket.locality, quantity::percent),
            number(bucket.steering_ok, quantity::percent),
            bucket.memory.as_ref().map(|memory| memory.policies().into()),
            bucket.memory.as_ref().map(|memory| memory.words().into()),
        ]
    });
    table(&headings, 1, rows)
}

/// Frames dropped by cause, and those missing without one.
pub(crate) fn drops(report: &ScaleReport) -> Markup {
    let headings: [Heading; 5] = [
        ("step", ""),
        ("buckets", "active"),
        ("cause", ""),
        ("frames", ""),
        ("of generated", ""),
    ];
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (index, step) in report.steps.iter().enumerate() {
        let title = format!("{}, {}, {}", step.mode, step.model, step.clients());
        let generated: u64 = report.valid_trials(index).map(|trial| trial.generated).sum();
        let mut row = |cause: Markup, frames: Cell, share: Cell| {
            let step = [
                Some(Markup::from(&title)),
                whole(step.buckets_active as u64),
                Some(cause),
            ];
            rows.push(step.into_iter().chain([frames, share]).collect());
        };
        for (key, frames) in step.drops.iter().filter(|(_, frames)| **frames > 0) {
            let share = quantity::percent(*frames as f64 / generated as f64);
            row(drops::label(key).into(), whole(*frames), Some(share.into()));
        }
        for (gap, frames) in step.unexplained.by_gap() {
            if let Some(frames) = frames.filter(|frames| *frames != 0) {
                let cause = classed("strong", "bad", format!("no cause, {gap}"));
                row(cause, data(frames, quantity::signed_count(frames)), None);
            }
        }
    }
    if rows.is_empty() {
        Markup::default()
    } else {
        table(&headings, 3, rows.into_iter())
    }
}

/// All conditions, worst first.
pub(crate) fn conditions(snapshot: &serde_json::Value) -> Markup {
    let all = conditions::worst_first(snapshot);
    if all.is_empty() {
        return Markup::default();
    }
    let headings: [Heading; 5] = [
        ("", ""),
        ("condition", ""),
        ("value", ""),
        ("why it matters", ""),
        ("source", ""),
    ];
    let rows = all.into_iter().map(|condition| {
        let word = condition.severity.word();
        let mend = condition.mend.map(|mend| format!(" Mend: {mend}"));
        vec![
            Some(classed("span", &format!("pill {word}"), word)),
            Some(condition.name.into()),
            condition.value.map(Markup::from),
            Some(sentence(&condition.why).with(mend.unwrap_or_default())),
            Some(condition.source.into()),
        ]
    });
    classed("div", "text", table(&headings, headings.len(), rows))
}

/// Words with one full stop at their end.
fn sentence(words: &str) -> Markup {
    match words.trim_end_matches('.') {
        "" => Markup::default(),
        words => format!("{words}.").into(),
    }
}

/// This run's main rates beside the posts' rows of the same mode.
pub(crate) fn published(report: &ScaleReport, mode: Mode) -> Markup {
    let posts: Vec<&Published> = PUBLISHED
        .iter()
        .filter(|published| published.mode == mode)
        .collect();
    let own: Vec<&Step> = report
        .series()
        .into_iter()
        .find(|series| {
            (series.mode, series.model, series.placement) == (mode, Model::Exact, Placement::Aligned)
        })
        .map(|series| series.steps)
        .unwrap_or_default();
    let mut counts: Vec<usize> = own.iter().map(|step| step.buckets_active).collect();
    counts.extend(
        posts
            .iter()
            .flat_map(|post| post.rows)
            .map(|row| row.buckets_active),
    );
    counts.sort_unstable();
    counts.dedup();
    let column = |words: &str, note: &str| {
        let note = if note.is_empty() {
            Markup::default()
        } else {
            plain("small", note)
        };
        element(
            "th",
            &[("colspan", "2"), ("scope", "colgroup")],
            Markup::from(words).with(note),
        )
    };
    let mut sources = plain("th", "").with(column("this run", ""));
    let mut units = header("buckets", "active")
        .with(header(mode.main_rate_name(), "/s"))
        .with(header("linearity", ""));
    for post in &posts {
        sources.push(column(
            &format!("\u{201c}{}\u{201d}", post.title),
            &format!("other hardware: {}", post.machine),
        ));
        units.push(header(mode.main_rate_name(), "/s").with(header("linearity", "")));
    }
    let rows = counts.into_iter().map(|count| {
        let step = own.iter().find(|step| step.buckets_active == count);
        let mut cells = vec![
            whole(count as u64),
            number(step.and_then(|step| step.main_rate()), quantity::metric),
            step.and_then(|step| linearity(step)),
        ];
        for post in &posts {
            let row = post.row(count);
            let rate = |row: &PublishedRow| quantity::metric(row.answered_pps.unwrap_or(row.seen_pps));
            let growth = row.and_then(|row| post.linearity(row));
            cells.push(row.map(|row| rate(row).into()));
            cells.push(growth.map(|growth| two_decimals(growth).into()));
        }
        body_row(cells, 1)
    });
    let head = plain("tr", sources).with(plain("tr", units));
    scrolled(plain("thead", head).with(plain("tbody", rows.collect::<Markup>())))
}

fn linearity(step: &Step) -> Cell {
    let spread = step.linearity_spread;
    number(step.linearity, |linearity| {
        spread.map_or_else(|| two_decimals(linearity), |spread| spread.display(2))
    })
}
