//! `corelane load memcached --udp`: the plan that the flags describe.

use super::arguments::{LoadMemcachedArguments, prefilled};
use super::owners;
use crate::load::foreground::duration_s;
use crate::load::live::ForegroundLoad as _;
use crate::load::sources;
use crate::names::Server;
use crate::outcome::{Outcome, cannot_run, usage};
use corelane_load::Generator;
use corelane_load::memcached::{MemcachedUdpLoad, MemcachedUdpPlan};
use corelane_load::pace::Pace;
use corelane_load::sources::Transport;
use corelane_load::udp::Until;
use corelane_measure::quantity;
use corelane_proto::memcached::udp::HEADER_BYTES;
use corelane_rss::Protocol;
use std::net::SocketAddr;

/// Most bytes of a datagram (RFC 768, over IPv4).
const LARGEST_DATAGRAM: usize = 65_507;

/// `corelane load memcached --udp`.
pub fn run(arguments: &LoadMemcachedArguments) -> Outcome {
    let plan = plan(arguments)?;
    let note = arguments.prefills().then(|| prefill(plan.clone())).transpose()?;
    let before = owners::locality(arguments, Some(plan.target));
    arguments
        .foreground
        .run_and::<MemcachedUdpLoad>(plan, note.into_iter().collect(), || owners::since(before))
}

fn plan(arguments: &LoadMemcachedArguments) -> anyhow::Result<MemcachedUdpPlan> {
    let (mut protocol, target) = (arguments.protocol(), target(&arguments.target)?);
    let (request, most) = (protocol.request_bytes(), LARGEST_DATAGRAM - HEADER_BYTES);
    if request > most {
        let [request, most] = [request, most].map(|bytes| quantity::count(bytes as u64));
        let what = format!("a request of up to {request} bytes does not fit a datagram, which has {most}");
        return Err(usage("--value-size, --multi-get", what));
    }
    let sources = arguments
        .sources
        .request(target.into(), arguments.connections as usize)?;
    let mut request = arguments.foreground.workers(Some(target.ip()), Protocol::Udp)?;
    owners::complete(arguments, Some(target), &mut request, &mut protocol)?;
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
fn prefill(plan: MemcachedUdpPlan) -> anyhow::Result<String> {
    let keys = plan.protocol.keys;
    let load = MemcachedUdpLoad::start(plan.filling()).map_err(MemcachedUdpLoad::refused)?;
    let report = load.finish()?;
    if let Some(why) = report.outcome.failed_because {
        return Err(cannot_run(format!("--prefill: {why}")));
    }
    let total = &report.total;
    let refused: u64 = total.errors.values().sum();
    let stored = (total.returned - refused.min(total.returned), total.sent);
    Ok(prefilled(keys, stored, report.sending_s, ""))
}
