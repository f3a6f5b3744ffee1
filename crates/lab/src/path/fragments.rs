//! Datagrams in fragments: of one flow some need several fragments and some do not. A device hashes ports only where they
//! are, so that under four fields a flow comes to several buckets.

use super::document::Request;
use super::traffic::{Arrival, Simulation, bridge, datagrams, through};
use crate::cases::{Case, Row, Scenario, Trial, counted, figure};
use corelane_load::packets::Sizes;
use corelane_measure::metric::Show;
use corelane_packet::{HashTypes, checksum};
use corelane_stage::StagePlans;
use corelane_stage::dispatch::Protocol;
use corelane_stage::fragmenting::{self, Fragmenting};
use corelane_stage::reassembly::{self, Placement};
use std::sync::Arc;

const FLOWS: usize = 16;
const MTU: u16 = 1500;
/// Half of the datagrams fit into the MTU.
const SIZES: Sizes = Sizes::Range {
    first: 60,
    last: 2968,
};

const HASHES: [(&str, HashTypes); 2] = [
    ("2-tuple", HashTypes::TWO_TUPLE),
    ("4-tuple", HashTypes::FOUR_TUPLE),
];
const PLACEMENTS: [(&str, Placement); 2] = [("arrival", Placement::Arrival), ("owner", Placement::Owner)];
const ARRIVALS: [(&str, Arrival); 3] = [
    ("RSS", Arrival::Rss),
    ("in turn", Arrival::InTurn),
    ("random", Arrival::Random),
];

pub(super) static SCENARIO: Scenario<Request> = Scenario {
    traffic: |request| {
        let packets = corelane_measure::quantity::count(request.packets);
        format!(
            "{packets} UDP datagrams of {FLOWS} flows, 60 to 2,968 bytes, cut to {MTU}; {} buckets",
            request.buckets
        )
    },
    labels: &[("hash", ""), ("at", ""), ("arrival", "")],
    #[rustfmt::skip]
    metrics: &[
        &figure!(less, "reordered", "reordered", Show::Count).about("Datagrams behind a newer one of their flow."),
        &figure!(more, "whole_share", "whole", Show::Share).about("Datagrams that arrive whole."),
        &figure!(more, "on_bucket_share", "steered", Show::Share).about("Of those, those that the bucket of their hash delivers."),
        &figure!(explaining, "reused", "reused", Show::Count).about("Datagrams that keep the hash of their fragments."),
        &figure!(explaining, "rehashed", "rehashed", Show::Count).about("Datagrams that are hashed anew."),
        &figure!(less, "handed_over", "handed", Show::Count).unit("over").about("Those of them that another bucket handles."),
        &figure!(explaining, "kept", "kept", Show::Count).about("Those of them whose bucket is the same."),
        &figure!(less, "fragments_moved", "moved", Show::Count).about("Fragments brought to the owner of their datagram."),
        &figure!(less, "fragments_dropped", "dropped", Show::Count).about("Fragments of datagrams that were never whole."),
    ],
    in_text: 6,
    legend: "hash: the fields that are hashed, of fragments the addresses alone. at: which bucket makes a datagram whole, the one \
        that a fragment arrives at, or its owner by a hash of addresses and identification. arrival: how frames come to \
        buckets. reordered: of the datagrams that arrive whole, those behind a newer one of their flow. steered: those that the \
        bucket of their hash delivers. reused: datagrams made whole that keep the hash of their fragments. rehashed: those that \
        are hashed anew; handed over are those of another bucket. The page and CSV also have those that the bucket kept, \
        fragments moved to their owner, and fragments dropped.",
    cases,
    conclude,
};

fn cases(request: &Request) -> anyhow::Result<Vec<Case>> {
    let case = |(hash, hash_types), (at, placement), (arrives, arrival): (&str, Arrival)| {
        let request = request.clone();
        Case {
            labels: [hash, at, arrives].map(str::to_owned).into(),
            published: None,
            run: Box::new(move |_, seed| run(&request, hash_types, placement, arrival, seed)),
        }
    };
    let places = HASHES
        .into_iter()
        .flat_map(|hash| PLACEMENTS.map(|at| (hash, at)));
    Ok(places
        .flat_map(|(hash, at)| ARRIVALS.map(|arrival| case(hash, at, arrival)))
        .collect())
}

fn run(
    request: &Request,
    hash_types: HashTypes,
    at: Placement,
    arrival: Arrival,
    seed: u64,
) -> anyhow::Result<Trial> {
    let stages = StagePlans {
        reassemble: Some(reassembly::Plan {
            at,
            ..reassembly::Plan::default()
        }),
        ..StagePlans::default()
    };
    let mut simulation = Simulation::new(&bridge(request, hash_types, stages)?, arrival, FLOWS, seed)?;
    let mut cutting = Fragmenting::new(&fragmenting::Plan { mtu: MTU }, Arc::default());
    let datagrams = datagrams(FLOWS, SIZES, seed)?.take(request.packets as usize);
    for (number, mut datagram) in datagrams.enumerate() {
        let_be_cut(&mut datagram, number as u16);
        for fragment in through(&mut cutting, datagram, simulation.now) {
            simulation.receive(&fragment)?;
        }
    }
    let (application, bridged) = simulation.ended()?;
    let streams = bridged.dispatch.iter().flat_map(|dispatch| &dispatch.workstreams);
    let arrived = streams.filter(|stream| stream.protocol == Protocol::Ip);
    let moved: u64 = arrived.map(|stream| stream.row.queued).sum();
    let dropped: u64 = bridged.dropped.values().sum();
    let count = |name: &str| bridged.stages["reassemble"][name] as f64;
    Ok(counted([
        ("reordered", application.reordered as f64),
        ("whole_share", application.whole as f64 / request.packets as f64),
        (
            "on_bucket_share",
            application.on_bucket as f64 / application.whole as f64,
        ),
        ("reused", count("reused")),
        ("rehashed", count("rehashed")),
        ("handed_over", count("handed_over")),
        ("kept", count("kept")),
        ("fragments_moved", moved as f64),
        ("fragments_dropped", dropped as f64),
    ]))
}

/// Permits to cut a generated frame: gives its packet an identification, instead of "don't fragment".
fn let_be_cut(frame: &mut [u8], identification: u16) {
    let [high, low] = identification.to_be_bytes();
    let new = [high, low, 0, 0];
    let checksum = checksum::updated(u16::from_be_bytes([frame[24], frame[25]]), &frame[18..22], &new);
    frame[18..22].copy_from_slice(&new);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}

fn conclude(rows: &[Row]) -> Vec<String> {
    results(rows).map_or(Vec::new(), Vec::from)
}

/// `None` if a row lacks.
fn results(rows: &[Row]) -> Option<[String; 2]> {
    let of = |labels, name| Row::find(rows, labels)?.number(name);
    let order = |hash| Some(Show::Count.cell(of([hash, "arrival", "RSS"], "reordered")?));
    let whole = |at| Some(Show::Share.words(of(["2-tuple", at, "in turn"], "whole_share")?));
    let (two, four) = (order("2-tuple")?, order("4-tuple")?);
    let (arrival, owner) = (whole("arrival")?, whole("owner")?);
    Some([
        format!(
            "As a device spreads frames, {two} datagrams are reordered under 2-tuples and {four} under 4-tuples."
        ),
        format!(
            "If fragments come to each bucket in turn, {arrival} of the datagrams are whole, and {owner} at their owner."
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conclusions_name_the_order_and_what_an_owner_makes_whole() {
        let row = |hash, at, arrival, reordered, whole| {
            let labels = [("hash", hash), ("at", at), ("arrival", arrival)];
            Row::of(&labels, &[("reordered", reordered), ("whole_share", whole)])
        };
        let rows = [
            row("2-tuple", "arrival", "RSS", 0.0, 1.0),
            row("2-tuple", "arrival", "in turn", 5.0, 0.495),
            row("2-tuple", "owner", "in turn", 8.0, 1.0),
            row("4-tuple", "arrival", "RSS", 1234.0, 1.0),
        ];
        let expected = [
            "As a device spreads frames, 0 datagrams are reordered under 2-tuples and 1,234 under 4-tuples.",
            "If fragments come to each bucket in turn, 49.5 % of the datagrams are whole, and 100 % at their owner.",
        ];
        assert_eq!(conclude(&rows), expected);
        assert!(conclude(&rows[..3]).is_empty());
    }

    #[test]
    fn a_datagram_that_may_be_cut_keeps_a_right_checksum() {
        let mut frame = datagrams(1, SIZES, 1).unwrap().next().unwrap();
        let_be_cut(&mut frame, 0x0102);
        assert_eq!(frame[18..22], [1, 2, 0, 0]);
        assert_eq!(checksum::internet(&frame[14..34]), 0);
    }
}
