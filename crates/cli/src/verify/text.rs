//! Formats the report as text, in lines of at most 100 columns.

use super::VerifyDocument;
use super::rule::{From, RuleSource};
use crate::capture;
use crate::terminal::width;
use crate::values::mixing;
use corelane_measure::quantity::{count, or_missing};
use corelane_packet::verify::{BucketReport, Misplacement, Report, Rule};
use corelane_report::table::Rows;

/// Misplaced flows shown; the JSON document has all.
const SHOWN: usize = 20;

/// Tables of buckets and misplaced flows, the likely causes, the order within flows, and what is unknown.
pub fn text(document: &VerifyDocument<'_>, rule: &Rule) -> String {
    let report = document.report;
    let mut text = buckets(report);
    if report.misplaced > 0 {
        text.push_str(&format!("\n{}\nlikely:\n", misplacements(report)));
        for cause in &report.causes {
            text.push_str(&format!("{:>9}  {}\n", count(cause.frames), cause.cause));
        }
    }
    let mut line = |words: String| text.push_str(&(words + "\n"));
    let order = &report.reordering;
    if order.followed > 0 || order.queue_changes > 0 {
        let [followed, late, changes] = [order.followed, order.late, order.queue_changes].map(count);
        line(format!(
            "order within flows: {followed} frames followed, {late} late, {changes} on another queue than the previous one"
        ));
    }
    if report.refused + report.not_hashed > 0 {
        let [refused, not_hashed] = [report.refused, report.not_hashed].map(count);
        line(format!(
            "not checked: {refused} frames not IP or damaged, {not_hashed} match no enabled hash type"
        ));
    }
    if report.cut_short > 0 {
        line(format!("not checked: {}", capture::cut_short(report.cut_short)));
    }
    document
        .unread
        .text()
        .lines()
        .for_each(|unread| line(unread.to_owned()));
    let [misplaced, frames] = [report.misplaced, report.frames].map(count);
    let (entries, queues, types) = (rule.table.size(), rule.table.buckets(), rule.hash_types);
    let found = match super::unchecked(report) {
        Some(_) => format!("none of {frames} frames checked"),
        None => format!("{misplaced} of {frames} frames misplaced"),
    };
    line(format!(
        "{found}; {entries} entries over {queues} queues, hash types {types}{}",
        mixing(rule.transform)
    ));
    if let Some(rss) = &document.rule_from.software_rss {
        let program = rss.program;
        line(format!(
            "steered by corelane rss (program {program}): the numbers of queues are those of CPUs"
        ));
    }
    for missing in not_read(document.rule_from) {
        line(missing);
    }
    if let Some(incomplete @ 1..) = document.incomplete {
        line(format!(
            "{} frames skipped: hash or queue unknown",
            count(incomplete)
        ));
    }
    text
}

/// Settings that could not be read from the device, and the defaults used instead.
fn not_read(source: &RuleSource) -> Vec<String> {
    let mut lines: Vec<String> = (source.not_read.iter())
        .map(|missing| format!("not read: {missing}"))
        .collect();
    let stand_ins = [
        (
            source.key,
            "using the verification suite's key: give the device's with --key",
        ),
        (
            source.hash_types,
            "using the hash types of most drivers: give the device's with --hash",
        ),
    ];
    let used = stand_ins
        .iter()
        .filter(|(from, _)| !source.not_read.is_empty() && *from == From::Default);
    lines.extend(used.map(|(_, words)| (*words).to_owned()));
    lines
}

fn buckets(report: &Report) -> String {
    let causes = |bucket: &BucketReport| {
        let causes: Vec<_> = bucket.causes.iter().map(|cause| cause.cause.name()).collect();
        causes.join(" ")
    };
    let table = Rows::of(&report.buckets)
        .right("bucket", |bucket| bucket.bucket.to_string())
        .count("seen", |bucket| bucket.seen)
        .right("right hash", |bucket| or_missing(bucket.right_hash, count))
        .right("right queue", |bucket| or_missing(bucket.right_queue, count))
        .count("misplaced", |bucket| bucket.misplaced)
        .shrinking("likely", causes)
        .table();
    table.render(width().tables)
}

fn misplacements(report: &Report) -> String {
    let flows = |misplacement: &Misplacement| {
        let flows: Vec<_> = misplacement.flows.iter().map(ToString::to_string).collect();
        flows.join(", ")
    };
    let hash = |hash: u32| format!("0x{hash:08x}");
    let table = Rows::of(report.misplacements.iter().take(SHOWN))
        .left("hash", |misplacement| hash(misplacement.hash))
        .left("reported", |misplacement| {
            or_missing(misplacement.reported_hash, hash)
        })
        .right("expected", |misplacement| misplacement.expected.to_string())
        .right("actual", |misplacement| misplacement.actual.to_string())
        .count("frames", |misplacement| misplacement.frames)
        .shrinking("flows", flows)
        .table();
    let mut text = table.render(width().tables);
    if let Some(hidden @ 1..) = report.misplacements.len().checked_sub(SHOWN) {
        text.push_str(&format!(
            "… and {} more (--json has them)\n",
            count(hidden as u64)
        ));
    }
    if report.misplacements_left_off > 0 {
        let left_off = count(report.misplacements_left_off);
        text.push_str(&format!(
            "{left_off} misplaced frames belong to further flows, which are not listed\n"
        ));
    }
    text
}
