//! Many flows in one tunnel. A device hashes the outer header, so that all of them come to one bucket; behind decapsulation
//! the headers inside are hashed, and each packet goes to the bucket of its own flow.

use super::document::Request;
use super::traffic::{Arrival, Simulation, bridge, datagrams, through};
use crate::cases::{Case, Row, Scenario, Trial, counted, figure};
use corelane_load::packets::Sizes;
use corelane_measure::metric::Show;
use corelane_measure::quantity::count;
use corelane_packet::HashTypes;
use corelane_rss::Key;
use corelane_stage::encapsulation::Encapsulation;
use corelane_stage::{StagePlans, decapsulation};
use serde_json::json;
use std::sync::Arc;

const FLOWS: usize = 256;
const SIZES: Sizes = Sizes::Range {
    first: 60,
    last: 1494,
};

pub(super) static SCENARIO: Scenario<Request> = Scenario {
    traffic: |request| {
        let packets = count(request.packets);
        format!("{packets} UDP datagrams of {FLOWS} flows in one tunnel of IP in IP; 4-tuples are hashed")
    },
    labels: &[("decapsulated", ""), ("buckets", "")],
    #[rustfmt::skip]
    metrics: &[
        &figure!(more, "buckets_used", "used", Show::Count).about("Buckets that packets leave from."),
        &figure!(less, "fullest_over_mean", "fullest", Show::Fixed(2)).unit("/mean").about("Packets of the fullest bucket over the mean."),
        &figure!(explaining, "handed_over_share", "handed over", Show::Share).about("Packets whose own bucket is not that of the tunnel."),
        &figure!(less, "reordered", "reordered", Show::Count).about("Packets behind a newer one of their flow."),
    ],
    in_text: 4,
    legend: "buckets: each has a worker of its own. used: buckets that packets leave from. fullest: packets of the fullest bucket \
        over the mean of all. handed over: packets whose own bucket is another one than that of the tunnel. reordered: those \
        behind a newer one of their flow.",
    cases,
    conclude,
};

/// One bucket, twice as many, and so on, and all of them; without decapsulation, then with it.
fn cases(request: &Request) -> anyhow::Result<Vec<Case>> {
    let most = request.buckets;
    let fewer = (0..)
        .map(|doublings| 1 << doublings)
        .take_while(|buckets| *buckets < most);
    let counts: Vec<u16> = fewer.chain([most]).collect();
    let case = |decapsulates: bool, buckets: u16| {
        let request = Request {
            buckets,
            ..request.clone()
        };
        let label = if decapsulates { "yes" } else { "no" };
        Case {
            labels: vec![label.to_owned(), buckets.to_string()],
            published: None,
            run: Box::new(move |_, seed| run(&request, decapsulates, seed)),
        }
    };
    let of = |decapsulates| counts.iter().map(move |buckets| case(decapsulates, *buckets));
    Ok(of(false).chain(of(true)).collect())
}

fn run(request: &Request, decapsulates: bool, seed: u64) -> anyhow::Result<Trial> {
    let stages = StagePlans {
        decapsulate: decapsulates.then(decapsulation::Plan::default),
        ..StagePlans::default()
    };
    let plan = bridge(request, HashTypes::FOUR_TUPLE, stages)?;
    let mut simulation = Simulation::new(&plan, Arrival::Rss, FLOWS, seed)?;
    let tunnel = json!({ "kind": "ipip", "local": "198.51.100.1", "remote": "198.51.100.2" });
    let tunnel = serde_json::from_value(tunnel)?;
    let mut wrapping = Encapsulation::new(tunnel, &Key::VERIFICATION, (0, 1), Arc::default());
    for (_, datagram) in (0..request.packets).zip(datagrams(FLOWS, SIZES, seed)?) {
        for frame in through(&mut wrapping, datagram, simulation.now) {
            simulation.receive(&frame)?;
        }
    }
    let (seen, bridged) = simulation.ended()?;
    let handed_over = bridged
        .stages
        .get("decapsulate")
        .map_or(0, |counts| counts["handed_over"]);
    let (frames, all) = (seen.by_bucket, request.packets as f64);
    let fullest = frames.iter().copied().max().unwrap_or(0) as f64;
    Ok(counted([
        (
            "buckets_used",
            frames.iter().filter(|frames| **frames > 0).count() as f64,
        ),
        ("fullest_over_mean", fullest * f64::from(request.buckets) / all),
        ("handed_over_share", handed_over as f64 / all),
        ("reordered", seen.reordered as f64),
    ]))
}

fn conclude(rows: &[Row]) -> Vec<String> {
    result(rows).into_iter().collect()
}

/// `None` if a row lacks.
fn result(rows: &[Row]) -> Option<String> {
    let (after, all) = (rows.last()?, rows.last()?.label("buckets"));
    let before = Row::find(rows, ["no", all])?.number("buckets_used")?;
    let used = after.number("buckets_used")?;
    let fullest = Show::Fixed(2).cell(after.number("fullest_over_mean")?);
    Some(format!(
        "Of {all} buckets the tunnel uses {before}, and the flows inside {used}: the fullest has {fullest} times the mean."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conclusion_is_of_the_most_buckets() {
        let row = |decapsulated, buckets, numbers: [f64; 2]| {
            let labels = [("decapsulated", decapsulated), ("buckets", buckets)];
            let names = ["buckets_used", "fullest_over_mean"];
            let numbers: Vec<(&str, f64)> = names.into_iter().zip(numbers).collect();
            Row::of(&labels, &numbers)
        };
        let rows = [
            row("no", "1", [1.0, 1.0]),
            row("no", "4", [1.0, 4.0]),
            row("yes", "1", [1.0, 1.0]),
            row("yes", "4", [4.0, 1.25]),
        ];
        let expected =
            "Of 4 buckets the tunnel uses 1, and the flows inside 4: the fullest has 1.25 times the mean.";
        assert_eq!(conclude(&rows), [expected]);
    }
}
