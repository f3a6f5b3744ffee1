//! Software RSS, which sends each frame of a veth to the CPU that the table names, beside RPS and no steering: an echo server with
//! a worker per CPU, and a generator on the same CPUs. Without steering the kernel receives on the sender's CPU.

use super::document::Request;
use crate::cases::{Case, Figures, Row, Scenario, Trial, figure};
use crate::child::{LoadProcess, ServerProcess};
use crate::error::Refusal;
use crate::experiment::RunningTrial;
use anyhow::Context;
use corelane_host::bed::{Bed, BedPlan};
use corelane_host::ethtool::change::finish_checksums;
use corelane_host::{cpus, limits};
use corelane_link::software_rss::SoftwareRss;
use corelane_link::xdp::XdpHook;
use corelane_load::pace::Pace;
use corelane_load::pool::Pool;
use corelane_load::sources::{Align, AlignBy, SourceRequest, Steerings, Transport, WorkerRequest};
use corelane_load::udp::{Probes, UdpLoad, UdpPlan, Until};
use corelane_measure::metric::{Metric, Show};
use corelane_measure::statistics::ratio;
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use corelane_serve::udp::{BucketServed, UdpPlan as UdpServePlan, UdpServed, UdpServer};
use std::net::SocketAddr;

const FLOWS: usize = 32;
const PAYLOAD_BYTES: usize = 510;
/// Datagrams of each sender that have no answer yet.
const WINDOW: u32 = 16;

/// Starts to steer; a program does until it is dropped.
type Steer = fn(&Bed, &Steering) -> anyhow::Result<Option<SoftwareRss>>;

/// The one that targets are of is the last.
const CASES: [(&str, Steer); 4] = [
    ("none", |_, _| Ok(None)),
    ("RPS", |bed, steering| {
        bed.server
            .give_receive_queues(std::slice::from_ref(&steering.cpus))?;
        Ok(None)
    }),
    ("cpumap behind the driver", |bed, steering| {
        attached(bed, steering, XdpHook::Generic)
    }),
    ("cpumap in the driver", |bed, steering| {
        attached(bed, steering, XdpHook::Native)
    }),
];

pub(super) static SCENARIO: Scenario<Request> = Scenario {
    traffic: |request| {
        let packets = corelane_measure::quantity::count(request.packets);
        format!(
            "{packets} UDP datagrams of {PAYLOAD_BYTES} bytes, {FLOWS} flows, echoed by a worker per CPU; windows of {WINDOW}"
        )
    },
    labels: &[("steering", "")],
    metrics: &[&LOCAL, &RATE, &RATIO, &LOST],
    in_text: 4,
    legend: "local: of a sample of the datagrams, those that the kernel received on the CPU that the table names. of none: the rate \
        over that without steering, measured just before. lost: frames for which the queue of their CPU was full. The senders \
        finish checksums, as those of physical devices are.",
    cases,
    conclude,
};

static LOCAL: Metric<Trial> = figure!(more, "local_share", "local", Show::Share);
static RATE: Metric<Trial> = figure!(more, "answered_per_second", "answered", Show::PerSecond);
static RATIO: Metric<Trial> = figure!(more, "of_none", "of none", Show::Ratio);
static LOST: Metric<Trial> = figure!(less, "lost", "lost", Show::Count);

fn cases(request: &Request) -> anyhow::Result<Vec<Case>> {
    let mut cpus = cpus::allowed()?.cpus;
    cpus.truncate(request.buckets.into());
    if cpus.len() < 2 {
        let why = "frames are steered between CPUs: give two buckets or more, and allow as many CPUs";
        return Err(Refusal::new("--buckets", why).into());
    }
    let steering = Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, cpus.len())?,
        cpus,
        generation: 0,
    };
    let case = |(name, steer): (&str, Steer)| {
        let (steering, packets) = (steering.clone(), request.packets);
        Case {
            labels: vec![name.to_owned()],
            published: None,
            run: Box::new(move |running, _| run(&steering, packets, steer, running)),
        }
    };
    Ok(CASES.map(case).into())
}

fn run(
    steering: &Steering,
    packets: u64,
    steer: Steer,
    running: &mut RunningTrial<'_>,
) -> anyhow::Result<Trial> {
    let bed = Bed::build(&BedPlan {
        loopback_ok: false,
        ..BedPlan::new("10.11.2.1".parse()?, vec!["10.11.2.0/24".parse()?])
    })?;
    let device = bed.client.device().to_owned();
    bed.client.run(move || finish_checksums(&device))?;
    // Who may not attach the program learns so in the first trial.
    drop(attached(&bed, steering, XdpHook::Generic)?);
    let (_, none) = measured(&bed, steering, packets, running)?;
    let program = steer(&bed, steering)?;
    let (local, rate) = measured(&bed, steering, packets, running)?;
    let lost = program.map(|program| program.end().map(|counts| counts.queue_full() as f64));
    let figures = [
        ("local_share", Some(local)),
        ("answered_per_second", Some(rate)),
        ("of_none", Some(rate / none)),
        ("lost", lost.transpose()?),
    ];
    let known = figures
        .into_iter()
        .filter_map(|(name, figure)| Some((name.to_owned(), figure?)));
    Ok(known.collect::<Figures>().into())
}

fn attached(bed: &Bed, steering: &Steering, hook: XdpHook) -> anyhow::Result<Option<SoftwareRss>> {
    let (device, steering) = (bed.server.device().to_owned(), steering.clone());
    let attach = move || SoftwareRss::attach(&device, &steering, false, hook);
    Ok(Some(bed.server.run(attach)?))
}

/// The share of datagrams that the kernel received on the CPU of their worker, and the rate of answers.
fn measured(
    bed: &Bed,
    steering: &Steering,
    packets: u64,
    running: &mut RunningTrial<'_>,
) -> anyhow::Result<(f64, f64)> {
    let (program, watch) = (std::env::current_exe()?, running.watch());
    let serving = UdpServePlan {
        device: Some(bed.server.device().to_owned()),
        ..UdpServePlan::new(SocketAddr::new(bed.server.address(), 0), steering.clone())
    };
    let mut server = ServerProcess::<UdpServer>::start(&program, &bed.server, &serving, watch.interrupt)?;
    let load = load(bed, server.ready().address, steering, packets)?;
    let loaded = LoadProcess::<UdpLoad>::start(&program, &bed.client)?.run(&load, watch, |_| ())?;
    let sum = |served: &UdpServed, of: fn(&BucketServed) -> u64| served.buckets.iter().map(of).sum::<u64>();
    let returned = loaded.total.returned;
    let served = server.settled(
        |served| sum(served, |bucket| bucket.seen),
        |seen, _| Ok(*seen >= returned),
    )?;
    let [right, samples] = [
        |bucket: &BucketServed| bucket.locality_right,
        |bucket: &BucketServed| bucket.locality_samples,
    ]
    .map(|of| sum(&served, of));
    let local = ratio(right as f64, samples as f64).context("no datagram was sampled: give more packets")?;
    let rate = ratio(returned as f64, loaded.sending_s);
    Ok((local, rate.context("nothing was sent")?))
}

/// A sender on each CPU, with flows to all buckets.
fn load(bed: &Bed, target: SocketAddr, steering: &Steering, packets: u64) -> anyhow::Result<UdpPlan> {
    let sources = SourceRequest {
        target: target.into(),
        pool: Some(Pool::from_iter([bed.client.address().into()])),
        align: Align::Even,
        by: AlignBy::Forward,
        sockets: FLOWS,
    };
    let workers = WorkerRequest {
        steering: Steerings {
            forward: Some(steering.clone()),
            reply: None,
        },
        buckets: None,
        cpus: steering.cpus.clone(),
        descriptor_limit: limits::open_descriptors()?,
    };
    let workers = sources.plan(&workers, Transport::Udp)?;
    Ok(UdpPlan {
        pace: Pace::Window { datagrams: WINDOW },
        until: Until {
            datagrams: Some(packets),
            ..Until::default()
        },
        ..UdpPlan::new(target, Probes::new(PAYLOAD_BYTES)?, workers)
    })
}

fn conclude(rows: &[Row]) -> Vec<String> {
    let of = |row: &Row| {
        let said = [&LOCAL, &RATIO].map(|metric| metric.words_with_unit(metric.of(row).unwrap_or_default()));
        format!(
            "{}: {} local, {} of the rate",
            row.label("steering"),
            said[0],
            said[1]
        )
    };
    let steered: Vec<String> = rows.iter().skip(1).rev().map(of).collect();
    vec![format!("{}.", steered.join("; "))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_conclusion_names_each_steering_with_its_locality_and_rate_the_driver_first() {
        let rows: Vec<Row> = [0.5, 0.25, 0.995, 1.0]
            .into_iter()
            .zip(CASES)
            .map(|(local, (name, _))| {
                let row = json!({"step": 0, "labels": {"steering": name}, "local_share": local, "of_none": 2.0 * local});
                serde_json::from_value(row).unwrap()
            })
            .collect();
        let expected = "cpumap in the driver: 100 % local, 2.00x of the rate; cpumap behind the driver: 99.5 % local, 1.99x of the \
            rate; RPS: 25.0 % local, 0.50x of the rate.";
        assert_eq!(conclude(&rows), [expected]);
    }
}
