//! TCP segments of interleaved connections, merged batch by batch: sorted by hash, with a list of the last eight flows, or not.

use super::document::Request;
use crate::cases::{Case, Published, Row, Scenario, counted, figure};
use corelane_loops::segments::{Connection, Connections, Merging, PAYLOAD};
use corelane_measure::metric::Show;
use corelane_measure::quantity::count;
use corelane_serve::bridge::LONGEST_BURST;
use corelane_stage::coalescing::Grouping;

const FLOWS: [u16; 5] = [1, 10, 100, 1000, 10_000];
const GROUPINGS: [(&str, Option<Grouping>); 3] = [
    ("none", None),
    ("list of 8", Some(Grouping::List)),
    ("sorted", Some(Grouping::Sorted)),
];

pub(super) static SCENARIO: Scenario<Request> = Scenario {
    traffic: |request| {
        let segments = count(batches(request) * LONGEST_BURST as u64);
        format!("{segments} TCP segments of {PAYLOAD} bytes, flows take turns; batches of {LONGEST_BURST}")
    },
    labels: &[("flows", ""), ("grouping", "")],
    #[rustfmt::skip]
    metrics: &[
        &figure!(more, "packets_per_aggregation", "packets", Show::Fixed(2)).about("Segments divided by the frames in which they leave.")
            .unit("/aggregation").label("packets per aggregation"),
    ],
    in_text: 1,
    legend: "grouping: how the segments of a flow are found in a batch. per aggregation: segments divided by the frames in which they \
        leave. Flows that take turns are the worst case: with more flows than frames in a batch none has two.",
    cases,
    conclude,
};

/// Whole batches, at least one.
fn batches(request: &Request) -> u64 {
    request.packets.div_ceil(LONGEST_BURST as u64)
}

fn cases(request: &Request) -> anyhow::Result<Vec<Case>> {
    let batches = batches(request);
    let case = |flows: u16, (name, grouping): (&str, Option<Grouping>)| {
        // The post has no number of flows; its servers have thousands of connections.
        let is_of_post = flows == 1000 && grouping == Some(Grouping::Sorted);
        let run = move || {
            let mut connections = Connections::new((0..flows).map(Connection::new).collect());
            let mut merging = Merging::new(grouping);
            for _ in 0..batches {
                merging.over(&mut connections.batch(LONGEST_BURST));
            }
            counted([("packets_per_aggregation", merging.packets_per_aggregation())])
        };
        Case {
            labels: vec![count(flows.into()), name.to_owned()],
            published: is_of_post.then(|| Published {
                figure: "over 2".to_owned(),
                post: "Serving 100 Gbps from an Open Connect Appliance".to_owned(),
            }),
            run: Box::new(move |_, _| Ok(run())),
        }
    };
    let each = |flows| GROUPINGS.map(|grouping| case(flows, grouping));
    Ok(FLOWS.into_iter().flat_map(each).collect())
}

fn conclude(rows: &[Row]) -> Vec<String> {
    result(rows).into_iter().collect()
}

/// `None` if a row lacks.
fn result(rows: &[Row]) -> Option<String> {
    let of = |grouping| Row::find(rows, ["1,000", grouping])?.number("packets_per_aggregation");
    let [sorted, list] = [of("sorted")?, of("list of 8")?].map(|packets| Show::Fixed(2).cell(packets));
    Some(format!(
        "Of 1,000 interleaved flows a sorted batch merges {sorted} packets per aggregation, a list of eight {list}."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conclusion_is_of_a_thousand_flows() {
        let row = |flows, grouping, packets| {
            let labels = [("flows", flows), ("grouping", grouping)];
            Row::of(&labels, &[("packets_per_aggregation", packets)])
        };
        let rows = [
            row("100", "sorted", 40.0),
            row("1,000", "list of 8", 1.0),
            row("1,000", "sorted", 4.125),
        ];
        let expected = "Of 1,000 interleaved flows a sorted batch merges 4.12 packets per aggregation, a list of eight 1.00.";
        assert_eq!(conclude(&rows), [expected]);
        assert!(conclude(&rows[..2]).is_empty());
    }
}
