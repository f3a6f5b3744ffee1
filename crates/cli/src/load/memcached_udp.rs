//! `corelane load memcached --udp`: the flags that only it has, the plan that they describe, and the generator in the foreground.

use super::foreground::duration_s;
use super::live::ForegroundLoad as _;
use super::memcached::{LoadMemcachedArguments, prefilled, protocol};
use super::sources;
use crate::names::Server;
use crate::outcome::{Outcome, cannot_run, usage};
use crate::shared::DatagramIoArguments;
use crate::values::duration;
use clap::{Arg, Args};
use corelane_load::Generator;
use corelane_load::memcached::{MemcachedUdpLoad, MemcachedUdpPlan};
use corelane_load::pace::Pace;
use corelane_load::sources::Transport;
use corelane_load::udp::Until;
use corelane_measure::quantity;
use corelane_proto::memcached::udp::HEADER_BYTES;
use corelane_rss::Protocol;
use std::net::SocketAddr;
use std::time::Duration;

/// Requests in datagrams.
#[derive(Debug, Args)]
pub struct UdpArguments {
    /// Send each request as one datagram; every connection is a UDP socket
    #[arg(long, conflicts_with_all = NOT_OVER_UDP)]
    pub udp: bool,
    /// Closed loop over UDP: keep this many unanswered requests per socket
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=256), conflicts_with = "rate")]
    pub window: u32,
    /// Time without any answer to a UDP socket after which its unanswered requests count as lost
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration)]
    pub loss_timeout: Duration,
    #[command(flatten)]
    pub io: DatagramIoArguments,
}

/// What only connections have.
const NOT_OVER_UDP: [&str; 12] = [
    "pipeline",
    "think",
    "gather",
    "connect_timeout",
    "timeout",
    "addresses",
    "tls",
    "insecure",
    "ca",
    "certificate",
    "private_key",
    "resumption",
];

/// Most bytes of a datagram (RFC 768, over IPv4).
const LARGEST_DATAGRAM: usize = 65_507;

/// Unanswered requests per socket while keys are stored ahead of a run: few enough for the receive buffer of any server.
const PREFILL_WINDOW: u32 = 8;

/// The flag with its condition, if only datagrams have it.
pub fn only(argument: Arg) -> Arg {
    match argument.get_id().as_str() {
        "window" | "loss_timeout" | "batch" | "gso" | "gro" => argument.requires("udp"),
        _ => argument,
    }
}

/// `corelane load memcached --udp`.
pub fn run(arguments: &LoadMemcachedArguments) -> Outcome {
    let plan = plan(arguments)?;
    let note = arguments.prefills().then(|| prefill(plan.clone())).transpose()?;
    arguments
        .foreground
        .run::<MemcachedUdpLoad>(plan, note.into_iter().collect())
}

fn plan(arguments: &LoadMemcachedArguments) -> anyhow::Result<MemcachedUdpPlan> {
    let (protocol, target) = (protocol(arguments), target(&arguments.target)?);
    let (request, most) = (protocol.request_bytes(), LARGEST_DATAGRAM - HEADER_BYTES);
    if request > most {
        let [request, most] = [request, most].map(|bytes| quantity::count(bytes as u64));
        let what = format!("a request of up to {request} bytes does not fit a datagram, which has {most}");
        return Err(usage("--value-size, --multi-get", what));
    }
    let sources = arguments
        .sources
        .request(target.into(), arguments.connections as usize)?;
    let request = arguments.foreground.workers(Some(target.ip()), Protocol::Udp)?;
    let workers = sources
        .plan(&request, Transport::Udp)
        .map_err(|error| sources::refuse(&error))?;
    let (udp, placing) = (&arguments.udp, &arguments.foreground.placing);
    Ok(MemcachedUdpPlan {
        pace: match arguments.rate {
            Some(per_second) => Pace::Rate { per_second },
            None => Pace::Window {
                datagrams: udp.window,
            },
        },
        until: Until {
            duration_s: duration_s(arguments.duration, arguments.requests.is_some()),
            datagrams: arguments.requests,
        },
        loss_timeout_s: udp.loss_timeout.as_secs_f64(),
        drain_s: Some(arguments.drain.as_secs_f64()),
        engine: udp.io.engine.engine,
        settings: udp.io.settings(placing),
        memory: placing.memory,
        steering: request.steering.of_plan(sources.align),
        ..MemcachedUdpPlan::new(target, protocol, workers)
    })
}

fn target(server: &Server) -> anyhow::Result<SocketAddr> {
    match server {
        Server::Ip(target) => Ok(target.first()),
        Server::Unix(_) => Err(usage("--udp", "a Unix socket has no datagrams of memcached")),
    }
}

/// Stores every key once; returns a note on that.
fn prefill(mut plan: MemcachedUdpPlan) -> anyhow::Result<String> {
    let keys = plan.protocol.keys;
    plan.protocol.prefill = true;
    plan.pace = Pace::Window {
        datagrams: PREFILL_WINDOW,
    };
    plan.until = Until {
        duration_s: None,
        datagrams: Some(keys),
    };
    let load = MemcachedUdpLoad::start(plan).map_err(MemcachedUdpLoad::refused)?;
    let report = load.finish()?;
    if let Some(why) = report.outcome.failed_because {
        return Err(cannot_run(format!("--prefill: {why}")));
    }
    let total = &report.total;
    let refused: u64 = total.errors.values().sum();
    let stored = (total.returned - refused.min(total.returned), total.sent);
    Ok(prefilled(keys, stored, report.sending_s, ""))
}
