//! `corelane load udp`: the datagram generator in the foreground.

use crate::load::foreground::{ForegroundArguments, duration_s, gates};
use crate::load::live::{ForegroundLoad, Growing, View};
use crate::load::sources::{self, SourceArguments};
use crate::names::address;
use crate::outcome::{Outcome, cannot_run, usage};
use crate::shared::DatagramIoArguments;
use crate::values::{Choices, MOST_CONNECTIONS, count, count_to, duration, one_of, rate, size};
use clap::Args;
use corelane_host::inventory::devices_towards;
use corelane_load::pace::Pace;
use corelane_load::sources::{Align, PlannedWorker, SourceRequest, Transport, WorkerRequest};
use corelane_load::udp::{DatagramStart, LiveDatagrams, Probes, Skew, UdpLoad, UdpLoadError, UdpPlan, Until};
use corelane_measure::quantity;
use corelane_rss::Protocol;
use std::net::SocketAddr;
use std::time::Duration;

/// Deprecated spelling of `--align`, kept for compatibility.
const SPREADS: &Choices<Align> = &[
    ("even", Align::Kernel, "--align kernel"),
    ("buckets", Align::Bucket, "--align bucket"),
];

/// UDP datagrams; reports loss, duplicates, reordering and round-trip times
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  corelane load udp 127.0.0.1:8080 --rate 10k --duration 1s\n  \
    corelane load udp 127.0.0.1:8080 --window 32 --flows 8 --duration 2s --timeline run.jsonl\n  \
    corelane load udp 127.0.0.1:8080 --steering steering.json --align-by reply --duration 1s"
)]
#[command(mut_arg("fail_if", |gate| gate.help(gates("'p99 > 5ms' or 'lost > 0.1%'"))))]
pub struct LoadUdpArguments {
    /// Payload of each datagram, 16 to 65507 bytes
    #[arg(long, value_name = "SIZE", default_value = "510", value_parser = size)]
    pub size: u64,
    #[command(flatten)]
    pub datagrams: DatagramArguments,
}

/// Sources, target and schedule of datagrams, independent of the payload protocol.
#[derive(Debug, Args)]
pub struct DatagramArguments {
    /// Target, as ADDRESS:PORT, NAME:PORT or :PORT
    #[arg(value_parser = address)]
    pub target: SocketAddr,
    #[command(flatten)]
    pub sources: SourceArguments,
    #[arg(long, hide = true, conflicts_with = "align", value_parser = one_of(SPREADS))]
    pub spread: Option<Align>,
    /// Total number of flows, each a socket [default: one per worker, or per bucket with --steering]
    #[arg(long = "flows", alias = "sockets", value_name = "N", value_parser = count_to(MOST_CONNECTIONS))]
    pub sockets: Option<u64>,
    /// Traffic skew over the sockets: none, elephant:SHARE (one socket sends that share) or zipf:EXPONENT
    #[arg(long, value_name = "SKEW", default_value = "none")]
    pub skew: Skew,
    /// Open loop: datagrams per second over all workers, on a fixed schedule
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with = "window")]
    pub rate: Option<f64>,
    /// Keep this many unanswered datagrams per socket [default: flood]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub window: Option<u32>,
    /// Stop after this time [default: 10s, or when --count is reached]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Stop after this many datagrams
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    pub count: Option<u64>,
    /// Time without any answer to a flow after which its unanswered datagrams count as lost
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration)]
    pub loss_timeout: Duration,
    /// Do not wait for answers; for a server that sends none
    #[arg(long, conflicts_with = "window")]
    pub no_answers: bool,
    #[command(flatten)]
    pub io: DatagramIoArguments,
    #[command(flatten)]
    pub foreground: ForegroundArguments,
}

/// `corelane load udp`.
pub fn run(arguments: &LoadUdpArguments) -> Outcome {
    let probes = Probes::new(arguments.size as usize).map_err(|error| usage("--size", error))?;
    run_protocol(&arguments.datagrams, probes)
}

/// Sends datagrams of a protocol.
pub fn run_protocol<P: DatagramStart>(arguments: &DatagramArguments, protocol: P) -> Outcome {
    arguments
        .foreground
        .run::<UdpLoad<P>>(plan(arguments, protocol)?, Vec::new())
}

impl<P: DatagramStart> ForegroundLoad for UdpLoad<P> {
    /// Converts an error to a usage error that names the flag at fault.
    fn refused(error: UdpLoadError) -> anyhow::Error {
        match error {
            UdpLoadError::Sources(error) => sources::refuse(&error),
            UdpLoadError::Source { .. } => usage("--sources", error),
            UdpLoadError::Engine(_) => cannot_run(format!("--engine: {error}")),
            error => error.into(),
        }
    }

    fn devices(plan: &Self::Plan) -> Vec<String> {
        devices_towards([plan.target.ip()].into_iter())
    }

    fn view(&self) -> Option<View> {
        let stage = match (self.is_opening(), self.sending_ended()) {
            (true, _) => {
                let sockets = quantity::count(self.plan().sockets() as u64);
                format!("opening {sockets} sockets")
            }
            (false, true) => "waiting for the last answers".to_owned(),
            (false, false) => "sending".to_owned(),
        };
        Some(View {
            stage,
            left: self.left(),
            growing: vec![
                Growing::of(self, &LiveDatagrams::SENT),
                Growing::of(self, &LiveDatagrams::RETURNED),
            ],
            facts: Vec::new(),
        })
    }
}

fn plan<P>(arguments: &DatagramArguments, protocol: P) -> anyhow::Result<UdpPlan<P>> {
    let target = Some(arguments.target.ip());
    let request = arguments.foreground.workers(target, Protocol::Udp)?;
    let pace = match (arguments.rate, arguments.window) {
        (Some(per_second), _) => Pace::Rate { per_second },
        (None, Some(datagrams)) => Pace::Window { datagrams },
        (None, None) => Pace::Flood,
    };
    let (workers, notes, align) = sources(arguments, &request)?;
    let plan = UdpPlan {
        pace,
        until: Until {
            duration_s: duration_s(arguments.duration, arguments.count.is_some()),
            datagrams: arguments.count,
        },
        answers: !arguments.no_answers,
        loss_timeout_s: arguments.loss_timeout.as_secs_f64(),
        engine: arguments.io.engine.engine,
        settings: arguments.io.settings(&arguments.foreground.placing),
        memory: arguments.foreground.placing.memory,
        notes,
        steering: request.steering.of_plan(align),
        ..UdpPlan::new(arguments.target, protocol, workers)
    };
    Ok(plan.skewed(arguments.skew))
}

/// The workers and their sources, with notes on them. Without any flag for sources, every bucket of a known steering
/// gets as many sockets as the others.
fn sources(
    arguments: &DatagramArguments,
    workers: &WorkerRequest,
) -> anyhow::Result<(Vec<PlannedWorker>, Vec<String>, Align)> {
    let given = arguments.spread.or(arguments.sources.align()?);
    let request = arguments.sources.request(arguments.target.into(), 0)?;
    let buckets = workers.steering.buckets(request.by);
    let plan = |align, natural: usize| {
        let sockets = arguments.sockets.map_or(natural, |sockets| sockets as usize);
        let request = SourceRequest {
            align,
            sockets,
            ..request.clone()
        };
        request.plan(workers, Transport::Udp)
    };
    let cpus = workers.cpus.len();
    let chosen = arguments.sockets.is_some() || arguments.sources.sources.is_some();
    let unknown = match (given, buckets) {
        (Some(align), _) => {
            let natural = buckets.filter(|_| align != Align::Kernel).unwrap_or(cpus);
            let planned = plan(align, natural).map_err(|error| sources::refuse(&error))?;
            return Ok((planned, Vec::new(), align));
        }
        (None, Some(buckets)) => match plan(Align::Even, buckets * cpus.div_ceil(buckets)) {
            Ok(planned) => return Ok((planned, Vec::new(), Align::Even)),
            Err(error) => Some(format!("not every bucket of the target gets datagrams: {error}")),
        },
        (None, None) if chosen => None,
        (None, None) => {
            Some("the target's buckets are unknown (--steering), so some may get no datagram".to_owned())
        }
    };
    let planned = plan(Align::Kernel, cpus).map_err(|error| sources::refuse(&error))?;
    Ok((planned, unknown.into_iter().collect(), Align::Kernel))
}
