//! The section «Where the time went» of the page: what was observed, in the posts' columns.

use crate::documents::observed::{self, ObservedLocks, ObservedSoftnet, ProfileTable};
use crate::documents::scale::ScaleReport;
use corelane_measure::quantity;
use corelane_report::html::markup::{Markup, classed, plain};
use corelane_report::html::tables::{Cell, Heading, data, number, table, whole};

/// The tables of every step that is shown, and what could not be had; nothing when nothing was asked for.
pub(super) fn contents(report: &ScaleReport) -> Markup {
    let mut all = Markup::default();
    for comparison in &report.lock_comparisons {
        all.push(plain("p", comparison.words()));
    }
    for line in report.observation_notes() {
        all.push(classed("p", "note", line));
    }
    for line in report.not_observed() {
        all.push(classed("p", "note", format!("Not observed: {line}")));
    }
    for (step, observed) in report.observed_steps() {
        let mut tables = Markup::default();
        if let Some(profile) = &observed.profile {
            for (whose, table) in profile.tables() {
                tables.push(plain("p", format!("{whose} {}", profile.headline(table))));
                tables.push(functions(table));
            }
        }
        if let Some(locks) = &observed.locks {
            tables.push(plain("p", format!("Kernel locks: {}", locks.headline())));
            tables.push(waits(locks));
        }
        if let Some(softnet) = &observed.softnet {
            tables.push(plain("p", "Receive path of each CPU"));
            tables.push(receive_paths(softnet));
        }
        if !tables.is_empty() {
            let title = format!("{}, {} active", step.title(), step.buckets_active);
            all.push(plain("details", plain("summary", title).with(tables)));
        }
    }
    all
}

fn functions(functions: &ProfileTable) -> Markup {
    let headings: [Heading; 4] = [("%SAMP", ""), ("IMAGE", ""), ("FUNCTION", ""), ("CALLERS", "")];
    let rows = functions.rows.iter().map(|row| {
        vec![
            number(Some(row.samples_percent), |share| quantity::fixed(share, 1)),
            Some(Markup::from(&row.image)),
            Some(Markup::from(&row.function)),
            Some(row.callers_text().into()),
        ]
    });
    classed("div", "text", filled(&headings, headings.len(), rows))
}

fn waits(locks: &ObservedLocks) -> Markup {
    let headings: [Heading; 8] = [
        ("name", ""),
        ("max", "\u{b5}s"),
        ("wait_max", "\u{b5}s"),
        ("total", "\u{b5}s"),
        ("wait_total", "\u{b5}s"),
        ("count", ""),
        ("avg", "\u{b5}s"),
        ("wait_avg", "\u{b5}s"),
    ];
    let time = |nanoseconds: u64| data(nanoseconds, observed::microseconds(nanoseconds));
    let rows = locks.rows.iter().map(|row| {
        vec![
            Some(Markup::from(&row.name)),
            row.max_ns.and_then(time),
            time(row.wait_max_ns),
            row.total_ns.and_then(time),
            time(row.wait_total_ns),
            whole(row.count),
            row.avg_ns.and_then(time),
            time(row.wait_avg_ns),
        ]
    });
    filled(&headings, 1, rows)
}

fn receive_paths(softnet: &ObservedSoftnet) -> Markup {
    let headings: [Heading; 8] = [
        ("CPU", ""),
        ("Len", ""),
        ("WMark", ""),
        ("QDrops", ""),
        ("Handled", ""),
        ("Squeezed", ""),
        ("RPS", ""),
        ("FlowLimit", ""),
    ];
    let rows = softnet.rows.iter().map(|row| {
        vec![
            whole(u64::from(row.cpu)),
            row.backlog.and_then(whole),
            row.backlog_high_water.and_then(whole),
            whole(row.dropped),
            whole(row.processed),
            whole(row.squeezed),
            whole(row.received_rps),
            whole(row.flow_limit),
        ]
    });
    filled(&headings, 1, rows)
}

/// A table, or nothing where it would have no rows.
fn filled(headings: &[Heading], texts: usize, rows: impl ExactSizeIterator<Item = Vec<Cell>>) -> Markup {
    if rows.len() == 0 {
        Markup::default()
    } else {
        table(headings, texts, rows)
    }
}
