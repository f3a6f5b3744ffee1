//! The metrics of a bridge.

use super::document::{Bridged, LinkBridged, TableBridged, WorkstreamDispatched};
use crate::metrics::by_name;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_report::exposition::{Exposed, Exposition, Labels};
use std::collections::BTreeMap;
use std::fmt::Display;

const PREFIX: &str = "corelane_bridge";

static OF_LINKS: [Metric<LinkBridged>; 5] = [
    Metric::more("frames_received_total", "received", Show::Count)
        .about("Frames received from a link.")
        .read(|link| Sample::count(link.tally.received)),
    Metric::more("frames_sent_total", "sent", Show::Count)
        .about("Frames sent to a link.")
        .read(|link| Sample::count(link.tally.sent)),
    Metric::less("frames_receive_dropped_total", "ring full", Show::Count)
        .about("Frames that found a link's receive ring full.")
        .read(|link| Sample::count(link.tally.receive_dropped)),
    Metric::more("link_up", "up", Show::Count)
        .about("Whether a link is up.")
        .read(|link| Sample::count(u64::from(link.up))),
    Metric::less("link_lost_total", "lost", Show::Count)
        .about("Number of times a link was lost.")
        .read(|link| Sample::count(link.lost)),
];

static NOT_SENT: Metric<u64> = Metric::less("frames_not_sent_total", "not sent", Show::Count)
    .about("Frames that passed and were not sent to a link.")
    .read(|count| Sample::count(*count));

static FAULTED: Metric<u64> = Metric::explaining("frames_faulted_total", "faults", Show::Count)
    .about("Frames affected by a fault configured on a link.")
    .read(|count| Sample::count(*count));

static DROPPED: Metric<u64> = Metric::explaining("frames_dropped_total", "dropped", Show::Count)
    .about("Frames dropped.")
    .read(|count| Sample::count(*count));

static ENTRIES: Metric<TableBridged> = Metric::explaining("table_entries", "entries", Show::Count)
    .about("Entries of a table.")
    .read(|table| Sample::count(table.entries));

static LOADS: Metric<u64> = Metric::explaining("table_loads_total", "read", Show::Count)
    .about("Number of times a table's file was loaded or rejected.")
    .read(|count| Sample::count(*count));

static PLANS: Metric<u64> = Metric::explaining("plans_total", "plans", Show::Count)
    .about("Number of times another plan was taken or refused.")
    .read(|count| Sample::count(*count));

static MATCHED: Metric<u64> = Metric::explaining("table_matched_total", "matched", Show::Count)
    .about("Frames that matched an entry of this value.")
    .read(|count| Sample::count(*count));

static OF_STAGES: Metric<u64> = Metric::explaining("stage_total", "count", Show::Count)
    .about("Counts of a stage.")
    .read(|count| Sample::count(*count));

static STAGE_LEVELS: Metric<u64> = Metric::explaining("stage_level", "level", Show::Count)
    .about("Quantities of a stage, as they are now.")
    .read(|count| Sample::count(*count));

static OF_STREAMS: [Metric<WorkstreamDispatched>; 4] = [
    Metric::more("workstream_handled_total", "handled", Show::Count)
        .about("Frames that a bucket handled.")
        .read(|stream| Sample::count(stream.row.handled)),
    Metric::explaining("workstream_queued_total", "queued", Show::Count)
        .about("Frames that were queued for a bucket.")
        .read(|stream| Sample::count(stream.row.queued)),
    Metric::less("workstream_queue_drops_total", "queue drops", Show::Count)
        .about("Frames for which the queue of their bucket had no room.")
        .read(|stream| Sample::count(stream.row.dropped)),
    Metric::explaining("workstream_length", "waiting", Show::Count)
        .about("Frames that wait for a bucket now.")
        .read(|stream| Sample::count(stream.row.length)),
];

impl Exposed for Bridged {
    fn expose(&self, exposition: &mut Exposition) {
        let links = || self.links.iter();
        for metric in &OF_LINKS {
            exposition.add(PREFIX, metric, links().map(|link| (vec![of_link(link)], link)));
        }
        let not_sent = links().flat_map(|link| within(of_link(link), "reason", &link.not_sent));
        exposition.add(PREFIX, &NOT_SENT, not_sent);
        let faults = links().flat_map(|link| {
            let faults = link.faults.iter();
            faults.flat_map(|faults| within(of_link(link), "fault", faults))
        });
        // Not a counter: the number of frames currently held back.
        let faults = faults.filter(|(labels, _)| labels.iter().all(|(_, name)| name != "held"));
        exposition.add(PREFIX, &FAULTED, faults);
        exposition.add(PREFIX, &DROPPED, by_name("reason", &self.dropped));

        let streams = || {
            let dispatch = self.dispatch.iter();
            dispatch.flat_map(|dispatch| &dispatch.workstreams)
        };
        for metric in &OF_STREAMS {
            exposition.add(
                PREFIX,
                metric,
                streams().map(|stream| (of_stream(stream), stream)),
            );
        }

        let stages = |levels| {
            let counts = self.stages.iter().flat_map(move |(stage, counts)| {
                let names = counts
                    .iter()
                    .map(move |(name, count)| (stage.as_str(), name.as_str(), count));
                names.filter(move |(stage, name, _)| self.levels.contains(&(*stage, *name)) == levels)
            });
            counts.map(|(stage, name, count)| {
                let labels = vec![("stage", stage.to_owned()), ("count", name.to_owned())];
                (labels, count)
            })
        };
        exposition.add(PREFIX, &OF_STAGES, stages(false));
        exposition.add(PREFIX, &STAGE_LEVELS, stages(true));

        let plans = [("taken", &self.plans_taken), ("refused", &self.plans_refused)]
            .map(|(outcome, count)| (vec![("outcome", outcome.to_owned())], count));
        exposition.add(PREFIX, &PLANS, plans);

        let tables = || self.tables.iter();
        let entries = tables().map(|table| (vec![of_table(table)], table));
        exposition.add(PREFIX, &ENTRIES, entries);
        let loads = tables().flat_map(|table| {
            [("taken", &table.loads), ("refused", &table.refused)]
                .map(|(outcome, count)| (vec![of_table(table), ("outcome", outcome.to_owned())], count))
        });
        exposition.add(PREFIX, &LOADS, loads);
        let matched = tables().flat_map(|table| within(of_table(table), "rule", &table.rules));
        exposition.add(PREFIX, &MATCHED, matched);
    }
}

fn of_link(link: &LinkBridged) -> (&'static str, String) {
    ("link", link.link.clone())
}

fn of_stream(stream: &WorkstreamDispatched) -> Labels {
    vec![
        ("bucket", stream.bucket.to_string()),
        ("cpu", stream.cpu.to_string()),
        ("protocol", stream.protocol.to_string()),
    ]
}

fn of_table(table: &TableBridged) -> (&'static str, String) {
    ("table", table.file.display().to_string())
}

/// Counts by name of one object, whose label comes first.
fn within<'a, N: Display>(
    of: (&'static str, String),
    label: &'static str,
    counts: &'a BTreeMap<N, u64>,
) -> impl Iterator<Item = (Labels, &'a u64)> {
    by_name(label, counts).map(move |(mut labels, count)| {
        labels.insert(0, of.clone());
        (labels, count)
    })
}
