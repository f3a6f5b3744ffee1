//! `corelane bridge --explain`: which frames of a capture change CPU, where and why, by the fields that are hashed.

use super::stages;
use crate::capture;
use crate::outcome::{Outcome, usage};
use crate::shared::{JsonArgument, print};
use crate::terminal::width;
use corelane_link::LinkSpec;
use corelane_measure::quantity;
use corelane_report::table::Rows;
use corelane_rss::IndirectionTable;
use corelane_serve::bridge::BucketsPlan;
use corelane_stage::StagePlans;
use corelane_stage::explain::{Cause, Explained, Explanation, FieldsExplained};
use std::time::Duration;

/// Explains the frames of a capture.
pub fn run(capture: &str, plan: &BucketsPlan, stages: &StagePlans, json: JsonArgument) -> Outcome {
    let spec: LinkSpec = capture.parse().map_err(|error| usage("--explain", error))?;
    let Some(file) = &spec.read else {
        return Err(usage("--explain", "give a capture, such as pcap:FILE"));
    };
    let device = IndirectionTable::round_robin(plan.table.size(), plan.buckets.into())?;
    let mut explained = Explained::new(plan.spread(), device, stages);
    let mut first = None;
    let unread = capture::each_frame(file, None, |frame, _| {
        let time = frame.time;
        let since = time.saturating_sub(*first.get_or_insert(time));
        explained.frame(frame.number + 1, frame.data, Duration::from_nanos(since));
    })?;
    print(json, &explained.report(), |report| text(report) + &unread.text())
}

fn text(report: &Explanation) -> String {
    let counts = [
        report.frames,
        report.fragments,
        report.from_tunnels,
        report.frames - report.arrived,
        report.flows,
    ];
    let [frames, fragments, tunnels, incomplete, flows] = counts.map(quantity::count);
    let buckets = report.buckets;
    let mut text = format!(
        "{frames} frames on {buckets} buckets: {fragments} fragments, {tunnels} out of tunnels, {incomplete} of incomplete \
         datagrams or dropped; {flows} flows\n"
    );
    let cause =
        |cause: Cause| move |row: &FieldsExplained| row.by_cause.get(&cause).copied().unwrap_or_default();
    let imbalance =
        |imbalance: Option<f64>| quantity::or_missing(imbalance, |value| quantity::fixed(value, 2));
    let fields = Rows::of(&report.fields)
        .left("fields", |row| row.fields.as_str())
        .count("change CPU", |row| row.change)
        .count("first fragments", cause(Cause::FirstFragment))
        .count("later ones", cause(Cause::LaterFragment))
        .count("tunnels", cause(Cause::Tunnel))
        .count("entries", cause(Cause::Entry))
        .count("flows on several", |row| row.flows_on_several)
        .right("fullest", |row| imbalance(row.imbalance_before))
        .right("then", |row| imbalance(row.imbalance_after))
        .table();
    text.push_str(&fields.render(width().tables));
    let missing = |name: &Option<String>| quantity::or_missing(name.clone(), |name| name);
    if !report.changes.is_empty() {
        let changes = Rows::of(&report.changes)
            .right("frame", |change| change.frame.to_string())
            .left("cause", |change| change.cause.to_string())
            .right("from", |change| change.from.to_string())
            .left("hashed", |change| missing(&change.hashed))
            .right("to", |change| change.to.to_string())
            .left("hashed then", |change| missing(&change.hashed_then))
            .shrinking("flow", |change| missing(&change.flow))
            .table();
        let of = &report.hash_types;
        text.push_str(&format!(
            "\nThe first that change, hashed as {of}:\n{}",
            changes.render(width().tables)
        ));
    }
    text + &stages::lines(&report.stages)
}
