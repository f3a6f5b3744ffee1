//! The verdict as text: a report enters, lines of at most 100 columns leave.

use super::rule::{From, RuleSource};
use corelane_measure::quantity::{count, or_missing};
use corelane_packet::verify::{Report, Rule};
use corelane_report::table::{Column, Table};
use std::io::{self, Write};

/// Misplaced flows shown: the rest is in the JSON document.
const SHOWN: usize = 20;

/// Writes a table a bucket, one of the misplaced, the causes, and the order within flows.
pub fn write(out: &mut impl Write, report: &Report, rule: &Rule) -> io::Result<()> {
    buckets(out, report)?;
    if report.misplaced > 0 {
        writeln!(out)?;
        misplacements(out, report)?;
        writeln!(out)?;
        writeln!(out, "likely:")?;
        for cause in &report.causes {
            writeln!(out, "{:>9}  {}", count(cause.frames), cause.cause)?;
        }
    }
    let order = &report.reordering;
    if order.followed > 0 || order.queue_changes > 0 {
        writeln!(
            out,
            "order within flows: {} frames followed, {} late, {} by another queue than the one before",
            count(order.followed),
            count(order.late),
            count(order.queue_changes)
        )?;
    }
    if report.refused + report.not_hashed > 0 {
        writeln!(
            out,
            "not judged: {} frames without IP or damaged, {} that no enabled hash type fits",
            count(report.refused),
            count(report.not_hashed)
        )?;
    }
    if report.buckets.iter().all(|bucket| bucket.right_queue.is_none()) {
        writeln!(
            out,
            "no queue was observed, so none can be wrong: give --log, or a pcapng with epb_queue"
        )?;
    }
    writeln!(
        out,
        "{} of {} frames misplaced; {} entries over {} queues, hash types {}",
        count(report.misplaced),
        count(report.frames),
        rule.table.size(),
        rule.table.buckets(),
        rule.hash_types
    )
}

/// Says what the device did not tell, and what stands for it.
pub fn not_read(out: &mut impl Write, source: &RuleSource) -> io::Result<()> {
    for missing in &source.not_read {
        writeln!(out, "not read: {missing}")?;
    }
    let device_asked = !source.not_read.is_empty();
    if device_asked && source.key == From::Default {
        writeln!(
            out,
            "the key is the verification suite's: give the device's with --key"
        )?;
    }
    if device_asked && source.hash_types == From::Default {
        writeln!(
            out,
            "hash types are those of most drivers: give the device's with --hash"
        )?;
    }
    Ok(())
}

fn buckets(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let columns = ["bucket", "seen", "right hash", "right queue", "misplaced"].map(Column::right);
    let mut table = Table::new(
        columns
            .into_iter()
            .chain([Column::left("likely").may_shrink()])
            .collect(),
    );
    for bucket in &report.buckets {
        let causes: Vec<_> = bucket.causes.iter().map(|cause| cause.cause.name()).collect();
        table.row([
            bucket.bucket.to_string(),
            count(bucket.seen),
            or_missing(bucket.right_hash, count),
            or_missing(bucket.right_queue, count),
            count(bucket.misplaced),
            causes.join(" "),
        ]);
    }
    write!(out, "{}", table.render(100))
}

fn misplacements(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let mut table = Table::new(vec![
        Column::left("hash"),
        Column::left("reported"),
        Column::right("expected"),
        Column::right("actual"),
        Column::right("frames"),
        Column::left("flows").may_shrink(),
    ]);
    for misplacement in report.misplacements.iter().take(SHOWN) {
        let flows: Vec<_> = misplacement.flows.iter().map(ToString::to_string).collect();
        table.row([
            format!("0x{:08x}", misplacement.hash),
            or_missing(misplacement.reported_hash, |hash| format!("0x{hash:08x}")),
            misplacement.expected.to_string(),
            misplacement.actual.to_string(),
            count(misplacement.frames),
            flows.join(", "),
        ]);
    }
    write!(out, "{}", table.render(100))?;
    let hidden = report.misplacements.len().saturating_sub(SHOWN);
    if hidden > 0 {
        writeln!(out, "… and {} more (--json has them)", count(hidden as u64))?;
    }
    if report.misplacements_left_off > 0 {
        let left_off = count(report.misplacements_left_off);
        writeln!(out, "{left_off} misplaced frames are of more flows than are kept")?;
    }
    Ok(())
}
