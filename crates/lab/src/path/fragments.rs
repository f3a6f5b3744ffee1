//! Datagrams in fragments: of one flow some need several fragments and some do not. A device hashes ports only where they
//! are, so that under four fields a flow comes to several buckets.

use super::document::{Figures, Request, Row, Trial};
use super::scenario::{Case, Scenario, figure};
use super::traffic::{Arrival, Simulation, bridge, datagrams, through};
use corelane_load::packets::Sizes;
use corelane_measure::metric::{Metric, Show};
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

pub(super) static SCENARIO: Scenario = Scenario {
    traffic: |request| {
        let packets = corelane_measure::quantity::count(request.packets);
        format!(
            "{packets} UDP datagrams of {FLOWS} flows, 60 to 2,968 bytes, cut to {MTU}; {} buckets",
            request.buckets
        )
    },
    labels: &["hash", "at", "arrival"],
    metrics: &[
        &REORDERED,
        &WHOLE,
        &ON_BUCKET,
        &REUSED,
        &REHASHED,
        &HANDED_OVER,
        &KEPT,
        &MOVED,
        &DROPPED,
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

static REORDERED: Metric<Trial> =
    figure!(less, "reordered", "reordered", Show::Count).about("Datagrams behind a newer one of their flow.");
static WHOLE: Metric<Trial> =
    figure!(more, "whole_share", "whole", Show::Share).about("Datagrams that arrive whole.");
static ON_BUCKET: Metric<Trial> = figure!(more, "on_bucket_share", "steered", Show::Share)
    .about("Of those, those that the bucket of their hash delivers.");
static REUSED: Metric<Trial> = figure!(explaining, "reused", "reused", Show::Count)
    .about("Datagrams that keep the hash of their fragments.");
static REHASHED: Metric<Trial> =
    figure!(explaining, "rehashed", "rehashed", Show::Count).about("Datagrams that are hashed anew.");
static HANDED_OVER: Metric<Trial> = figure!(less, "handed_over", "handed", Show::Count)
    .unit("over")
    .label("handed over")
    .about("Those of them that another bucket handles.");
static KEPT: Metric<Trial> =
    figure!(explaining, "kept", "kept", Show::Count).about("Those of them whose bucket is the same.");
static MOVED: Metric<Trial> = figure!(less, "fragments_moved", "moved", Show::Count)
    .about("Fragments brought to the owner of their datagram.");
static DROPPED: Metric<Trial> = figure!(less, "fragments_dropped", "dropped", Show::Count)
    .about("Fragments of datagrams that were never whole.");

fn cases(request: &Request) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (hash, hash_types) in HASHES {
        for (at, placement) in PLACEMENTS {
            for (arrives, arrival) in ARRIVALS {
                let request = request.clone();
                cases.push(Case {
                    labels: [hash, at, arrives].map(str::to_owned).into(),
                    published: None,
                    run: Box::new(move |_, seed| {
                        run(&request, hash_types, placement, arrival, seed).map(Trial::from)
                    }),
                });
            }
        }
    }
    Ok(cases)
}

fn run(
    request: &Request,
    hash_types: HashTypes,
    at: Placement,
    arrival: Arrival,
    seed: u64,
) -> anyhow::Result<Figures> {
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
    let counts = &bridged.stages["reassemble"];
    let moved = bridged.dispatch.iter().flat_map(|dispatch| &dispatch.workstreams);
    let moved = moved.filter(|stream| stream.protocol == Protocol::Ip);
    let dropped = bridged
        .dropped
        .iter()
        .filter(|(cause, _)| cause.starts_with("reassemble_"));
    let whole = application.whole as f64;
    let figures = [
        ("reordered", application.reordered as f64),
        ("whole_share", whole / request.packets as f64),
        ("on_bucket_share", application.on_bucket as f64 / whole),
        (
            "fragments_moved",
            moved.map(|stream| stream.row.queued).sum::<u64>() as f64,
        ),
        (
            "fragments_dropped",
            dropped.map(|(_, count)| count).sum::<u64>() as f64,
        ),
    ];
    let counts = ["reused", "rehashed", "kept", "handed_over"].map(|name| (name, counts[name] as f64));
    let figures = figures.into_iter().chain(counts);
    Ok(figures.map(|(name, figure)| (name.to_owned(), figure)).collect())
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
    let of = |hash, at, arrival, metric: &Metric<Trial>| {
        let is_it =
            |row: &&Row| (row.label("hash"), row.label("at"), row.label("arrival")) == (hash, at, arrival);
        rows.iter().find(is_it).and_then(|row| metric.of(row))
    };
    let reordered = |hash| of(hash, "arrival", "RSS", &REORDERED).map(|count| Show::Count.cell(count));
    let order = [reordered("2-tuple"), reordered("4-tuple")].map(Option::unwrap_or_default);
    let differ: Vec<&str> = ARRIVALS
        .iter()
        .map(|(arrival, _)| *arrival)
        .filter(|arrival| {
            let whole = |at| of("2-tuple", at, arrival, &WHOLE);
            whole("arrival") != whole("owner")
        })
        .collect();
    let placements = match differ.is_empty() {
        true => "Both placements make the same datagrams whole.".to_owned(),
        false => format!(
            "Without an owner, fragments that arrive apart do not meet: the placements differ if they come by {}.",
            differ.join(" or ")
        ),
    };
    vec![
        format!(
            "As a device spreads frames, {} datagrams are reordered under 2-tuples and {} under 4-tuples.",
            order[0], order[1]
        ),
        placements,
    ]
}
