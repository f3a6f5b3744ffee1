//! Every method and policy of dispatch while frames come faster than they are handled, by the workers of a bridge, as
//! `netstat -Q` shows it; and what its rules are against: two workers that take from one ring, and a bucket that stands still.

use super::document::Request;
use super::traffic::{Application, Arrival, Simulation, bridge, bucket_of, datagrams};
use crate::cases::{Case, Published, Row, Scenario, Trial, figure};
use crate::error::Refusal;
use crate::experiment::RunningTrial;
use anyhow::{Context, ensure};
use corelane_host::cpus;
use corelane_link::{AnyLink, Link, LinkSpec, Opener};
use corelane_load::packets::Sizes;
use corelane_measure::metric::{Metric, Show};
use corelane_measure::{quantity, words};
use corelane_packet::HashTypes;
use corelane_serve::Server;
use corelane_serve::bridge::{BURST, Bridge, BridgePlan, Bridged, BucketsPlan};
use corelane_stage::StagePlans;
use corelane_stage::dispatch::{DispatchPlan, Given, Method, Policy, Protocol, Row as Counts, Spread};
use std::ops::Range;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const FLOWS: usize = 64;
/// Those on one ring: an odd number, so that frames of a flow come to both of two workers.
const ODD_FLOWS: usize = 7;
const SIZES: Sizes = Sizes::One { bytes: 64 };
/// Frames of a ring that workers receive from.
const RING: usize = 1024;

/// Controls, by their labels.
const ONE_RING: &str = "two on one ring";
const STOPPED: &str = "bucket 0 stops";

pub(super) static SCENARIO: Scenario<Request> = Scenario {
    traffic: |request| {
        let (packets, buckets) = (quantity::count(request.packets), request.buckets);
        format!("{packets} UDP datagrams of {FLOWS} flows, 64 bytes; {buckets} buckets")
    },
    labels: &[("dispatch", ""), ("policy", "")],
    metrics: &[&HERE, &QUEUED, &QDROPS, &REORDERED, &OTHERS, &RATE, &DELIVERED],
    in_text: 6,
    legend: "frames come to the queue of their bucket by their hash, as from a device, as fast as its ring takes them. here: handled \
        where they came, by direct or hybrid dispatch; queued: by the queue of their bucket; dropped if it was full. reordered: \
        behind a newer one of their flow. others: frames of buckets that run, lost or waiting for the one that does not. Controls, \
        whose workers take turns in one thread: two that take from one ring, and one that takes no turn.",
    cases,
    conclude,
};

static HERE: Metric<Trial> = figure!(more, "here_share", "here", Show::Share);
static QUEUED: Metric<Trial> = figure!(explaining, "queued_share", "queued", Show::Share);
static QDROPS: Metric<Trial> = figure!(less, "queue_drops", "dropped", Show::Count);
static REORDERED: Metric<Trial> = figure!(less, "reordered", "reordered", Show::Count);
static OTHERS: Metric<Trial> = figure!(less, "others", "others", Show::Count);
static RATE: Metric<Trial> = figure!(more, "per_second", "frames", Show::PerSecond);
static DELIVERED: Metric<Trial> = figure!(more, "delivered_share", "delivered", Show::Share);

fn cases(request: &Request) -> anyhow::Result<Vec<Case>> {
    if request.buckets < 2 {
        return Err(Refusal::new("--buckets", "frames are dispatched to buckets: give two or more").into());
    }
    let mut cases = Vec::new();
    for method in words::all::<Method>() {
        for policy in words::all::<Policy>() {
            let request = request.clone();
            // The sums of eight workstreams of `ip`.
            let published = Published {
                figure: "1,492 of 6.62 G queued".to_owned(),
                post: "More RSS UDP tests \u{2013} this time on a Dell R720".to_owned(),
            };
            cases.push(Case {
                labels: vec![method.to_string(), policy.to_string()],
                published: ((method, policy) == (Method::Hybrid, Policy::Cpu)).then_some(published),
                run: Box::new(move |running, seed| overloaded(&request, method, policy, running, seed)),
            });
        }
    }
    for (control, run) in [(ONE_RING, one_ring as fn(&Request, u64) -> _), (STOPPED, stopped)] {
        let request = request.clone();
        cases.push(Case {
            labels: vec![control.to_owned(), Policy::Cpu.to_string()],
            published: None,
            run: Box::new(move |_, seed| run(&request, seed)),
        });
    }
    Ok(cases)
}

/// A bridge with this dispatch of IPv4.
fn plan(request: &Request, method: Method, policy: Policy) -> anyhow::Result<BridgePlan> {
    let given = Given {
        method: None,
        policy: Some(policy),
    };
    let dispatch = DispatchPlan {
        default: method,
        protocols: [(Protocol::Ip, given)].into(),
        ..DispatchPlan::default()
    };
    let plan = bridge(request, HashTypes::TWO_TUPLE, StagePlans::default())?;
    Ok(BridgePlan {
        buckets: plan.buckets.map(|buckets| BucketsPlan { dispatch, ..buckets }),
        ..plan
    })
}

/// The other ends of the rings of a bridge, by bucket, and what came out of it.
struct Ends {
    into: Vec<AnyLink>,
    out: Vec<AnyLink>,
    spread: Spread,
    application: Application,
}

impl Ends {
    /// Sends frames as fast as the rings take them, and receives until all were handled; returns how long that took.
    fn pass(
        &mut self,
        frames: impl Iterator<Item = Vec<u8>>,
        are_handled: impl Fn() -> anyhow::Result<bool>,
    ) -> anyhow::Result<Duration> {
        let mut queues = vec![Vec::new(); self.into.len()];
        for frame in frames {
            queues[bucket_of(&frame, &self.spread)].push(frame);
        }
        let mut rest: Vec<&[Vec<u8>]> = queues.iter().map(Vec::as_slice).collect();
        let started = Instant::now();
        loop {
            for (frames, link) in rest.iter_mut().zip(&mut self.into) {
                *frames = &frames[link.send(frames.iter().map(Vec::as_slice))?.taken..];
            }
            let is_last = rest.iter().all(|frames| frames.is_empty()) && are_handled()?;
            let spent = started.elapsed();
            for link in &mut self.out {
                while let burst = link.receive(RING)?
                    && !burst.is_empty()
                {
                    burst
                        .iter()
                        .for_each(|frame| self.application.receive(frame, 0, &self.spread));
                }
            }
            if is_last {
                return Ok(spent);
            }
        }
    }
}

/// Lets frames come faster than workers on all CPUs handle them.
fn overloaded(
    request: &Request,
    method: Method,
    policy: Policy,
    running: &mut RunningTrial<'_>,
    seed: u64,
) -> anyhow::Result<Trial> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (buckets, number) = (
        usize::from(request.buckets),
        NUMBER.fetch_add(1, Ordering::Relaxed),
    );
    // What was in rings and queues when the receiver last looked, and what came since, fits into one ring.
    let most = 2 * buckets * (RING + DispatchPlan::LIMIT as usize);
    let links = [("in", RING), ("out", most.next_power_of_two())].map(|(end, frames)| {
        let name = format!("path-{}-{number}-{end}", process::id());
        format!("ring:{name},queues={buckets},frames={frames},stride=128")
    });
    let cpus = cpus::allowed()?.cpus;
    let plan = BridgePlan {
        links: links.to_vec(),
        workers: Some(buckets.min(cpus.len())),
        cpus,
        burst: BURST,
        ..plan(request, method, policy)?
    };
    let spread = plan.buckets.as_ref().map(BucketsPlan::spread);
    let bridge = Bridge::start(plan)?;
    let [into, out] = links.map(|link| anyhow::Ok(Opener::new(link.parse::<LinkSpec>()?).open()?));
    let mut ends = Ends {
        into: into?,
        out: out?,
        spread: spread.context("a dispatch needs buckets")?,
        application: Application::new(FLOWS),
    };
    let interrupt = running.watch().interrupt;
    let are_handled = || {
        let has_ended = bridge.is_finished() || interrupt.load(Ordering::Relaxed);
        ensure!(!has_ended, "the bridge ended early");
        let bridged = bridge.bridged();
        Ok(bridged.received == request.packets && bridged.waiting() == 0 && bridged.unaccounted() == 0)
    };
    let frames = datagrams(FLOWS, SIZES, seed)?.take(request.packets as usize);
    let spent = ends.pass(frames, are_handled)?.as_secs_f64();
    let delivered = ends.application.whole as f64;
    let own = [
        ("per_second", delivered / spent),
        ("delivered_share", delivered / request.packets as f64),
        ("reordered", ends.application.reordered as f64),
    ];
    counted(request, bridge.stop()?, &own)
}

/// Lets frames come in turn to some workers of a simulated bridge.
fn simulated(
    (plan, workers): (&BridgePlan, Range<usize>),
    (packets, flows): (u64, usize),
    seed: u64,
) -> anyhow::Result<Simulation> {
    let mut simulation = Simulation::new(plan, Arrival::InTurn, flows, seed)?;
    simulation.workers = workers;
    for frame in datagrams(flows, SIZES, seed)?.take(packets as usize) {
        simulation.receive(&frame)?;
    }
    Ok(simulation)
}

/// Lets frames of one ring come to two workers in turn, each of which handles what it has.
fn one_ring(request: &Request, seed: u64) -> anyhow::Result<Trial> {
    let plan = plan(request, Method::Direct, Policy::Cpu)?;
    let simulation = simulated((&plan, 0..2), (request.packets, ODD_FLOWS), seed)?;
    let (application, bridged) = simulation.ended()?;
    counted(request, bridged, &[("reordered", application.reordered as f64)])
}

/// Lets frames come to all workers but that of bucket 0, which takes no turn until the end.
fn stopped(request: &Request, seed: u64) -> anyhow::Result<Trial> {
    let (plan, all) = (
        plan(request, Method::Hybrid, Policy::Cpu)?,
        usize::from(request.buckets),
    );
    let mut simulation = simulated((&plan, 1..all), (request.packets, FLOWS), seed)?;
    while simulation.turns()? > 0 {}
    let bridged = simulation.bridge.bridged();
    let streams = bridged.dispatch.iter().flat_map(|dispatch| &dispatch.workstreams);
    let others = streams.filter(|stream| stream.bucket > 0);
    let others: u64 = others.map(|stream| stream.row.dropped + stream.row.length).sum();
    simulation.workers = 0..all;
    counted(request, simulation.ended()?.1, &[("others", others as f64)])
}

/// The trial of a bridge in which nothing moves any more.
fn counted(request: &Request, bridged: Bridged, own: &[(&str, f64)]) -> anyhow::Result<Trial> {
    let dispatch = bridged.dispatch.context("a dispatch needs buckets")?;
    let adds_up = |row: &Counts| row.length == 0 && row.handled == row.dispatched + row.hybrid + row.queued;
    let mut streams = dispatch.workstreams.iter();
    ensure!(
        streams.all(|stream| adds_up(&stream.row)),
        "a row does not add up: {dispatch:?}"
    );
    let sum = |count: fn(&Counts) -> u64| {
        let of_ip = dispatch
            .workstreams
            .iter()
            .filter(|stream| stream.protocol == Protocol::Ip);
        of_ip.map(|stream| count(&stream.row)).sum::<u64>() as f64
    };
    let packets = request.packets as f64;
    let figures = [
        ("here_share", sum(|row| row.dispatched + row.hybrid) / packets),
        ("queued_share", sum(|row| row.queued) / packets),
        ("queue_drops", sum(|row| row.dropped)),
    ];
    Ok(Trial {
        figures: figures
            .iter()
            .chain(own)
            .map(|(name, figure)| ((*name).to_owned(), *figure))
            .collect(),
        dispatch: Some(dispatch),
        ..Trial::default()
    })
}

fn conclude(rows: &[Row]) -> Vec<String> {
    let of = |dispatch: &str, metric: &Metric<Trial>| {
        let is_it = |row: &&Row| (row.label("dispatch"), row.label("policy")) == (dispatch, "cpu");
        let row = rows.iter().find(is_it);
        row.and_then(|row| metric.of(row)).unwrap_or_default()
    };
    let count = |value: f64| Show::Count.cell(value);
    let ran = rows.iter().filter(|row| row.label("dispatch") != ONE_RING);
    let reordered: f64 = ran.filter_map(|row| REORDERED.of(row)).sum();
    let [handled, drops] = [
        quantity::percent(of("hybrid", &HERE)),
        count(of("hybrid", &QDROPS)),
    ];
    let [own, others] = [&QDROPS, &OTHERS].map(|metric| count(of(STOPPED, metric)));
    vec![
        format!(
            "Hybrid dispatch by the table handles {handled} of the frames where they come and drops {drops}; under all methods \
             and policies {} are reordered, and every row has handled what it dispatched and queued.",
            count(reordered)
        ),
        format!(
            "Two workers on one ring reorder {} frames.",
            count(of(ONE_RING, &REORDERED))
        ),
        format!(
            "A bucket that stands still drops {own} frames of its own; of the others {others} are lost or wait."
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_conclusion_is_of_all_methods_and_policies_and_each_control_says_its_own() {
        let row = |dispatch: &str, policy: &str, here: f64, [reordered, dropped, others]: [u64; 3]| {
            serde_json::from_value::<Row>(json!({
                "step": 0,
                "labels": {"dispatch": dispatch, "policy": policy},
                "here_share": here,
                "reordered": reordered,
                "queue_drops": dropped,
                "others": others,
            }))
            .unwrap()
        };
        let rows = [
            row("direct", "source", 1.0, [0, 0, 0]),
            row("hybrid", "source", 0.1, [3, 70, 0]),
            row("hybrid", "cpu", 0.75, [2, 5, 0]),
            row(ONE_RING, "cpu", 1.0, [1300, 0, 0]),
            row(STOPPED, "cpu", 0.4, [0, 4112, 6]),
        ];
        let said = conclude(&rows);
        let first = "Hybrid dispatch by the table handles 75.0 % of the frames where they come and drops 5; under all methods and \
            policies 5 are reordered,";
        assert!(said[0].starts_with(first), "{said:?}");
        assert_eq!(said[1], "Two workers on one ring reorder 1,300 frames.");
        let last =
            "A bucket that stands still drops 4,112 frames of its own; of the others 6 are lost or wait.";
        assert_eq!(said[2], last);
    }
}
