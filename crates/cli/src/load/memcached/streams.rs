//! `corelane load memcached` over TCP, TLS or a Unix socket: the plan that the flags describe.

use super::arguments::{LoadMemcachedArguments, prefilled};
use super::owners;
use crate::load::foreground::duration_s;
use crate::load::live::ForegroundLoad as _;
use crate::load::sources;
use crate::outcome::{Outcome, cannot_run};
use corelane_load::Generator;
use corelane_load::memcached::{
    MemcachedLoad, MemcachedPlan, Model, PlannedPhase, PlannedPool, Timeouts, Until,
};
use corelane_load::sources::Transport;
use corelane_rss::Protocol;
use corelane_worker::engine::Remote;

/// `corelane load memcached`, over connections.
pub fn run(arguments: &LoadMemcachedArguments) -> Outcome {
    let plan = plan(arguments)?;
    let prefills = arguments.prefills();
    let note = prefills.then(|| prefill(plan.clone())).transpose()?;
    let before = owners::locality(arguments, plan.pools[0].target.address());
    arguments
        .foreground
        .run_and::<MemcachedLoad>(plan, note.into_iter().collect(), || owners::since(before))
}

/// Stores every key of every server once; returns a note on that.
fn prefill(plan: MemcachedPlan) -> anyhow::Result<String> {
    let keys = plan.pools[0].protocol.keys;
    let load = MemcachedLoad::start(plan.filling()).map_err(MemcachedLoad::refused)?;
    let report = load.finish()?;
    if let Some(why) = report.outcome.failed_because {
        return Err(cannot_run(format!("--prefill: {why}")));
    }
    let requests = &report.counts.requests;
    let causes = format!(": {}", requests.by_cause.causes());
    Ok(prefilled(
        keys,
        (requests.ok, requests.begun),
        report.running_s,
        &causes,
    ))
}

fn plan(arguments: &LoadMemcachedArguments) -> anyhow::Result<MemcachedPlan> {
    let most = (arguments.connections, arguments.foreground.result.dry_run);
    let (target, others) = (arguments.addresses).remotes(&arguments.target, arguments.tls, most)?;
    let (mut request, mut protocol) = (
        arguments
            .foreground
            .workers(target.address().map(|address| address.ip()), Protocol::Tcp)?,
        arguments.protocol(),
    );
    owners::complete(arguments, target.address(), &mut request, &mut protocol)?;
    let sources = arguments
        .sources
        .request(target.clone(), arguments.connections as usize)?;
    let workers = sources
        .plan_all(&others, &request, Transport::Tcp)
        .map_err(|error| sources::refuse(&error))?;
    let all = std::iter::once(target).chain(others.into_iter().map(Remote::from));
    let tls = arguments.trust.in_server(&arguments.target, arguments.tls);
    let pools = PlannedPool::of_targets(all, &workers, |target, connections| PlannedPool {
        tls: tls.clone(),
        model: model(arguments, connections),
        ..PlannedPool::new(target, protocol.clone(), connections)
    });
    let plan = MemcachedPlan::new(pools, 0.0, &workers);
    Ok(MemcachedPlan {
        phases: vec![PlannedPhase::hold(Until {
            duration_s: duration_s(arguments.duration, arguments.requests.is_some()),
            ..Until::default()
        })],
        requests: arguments.requests,
        timeouts: Timeouts {
            connect_s: arguments.connect_timeout.as_secs_f64(),
            first_byte_s: arguments.timeout.as_secs_f64(),
            request_s: arguments.timeout.as_secs_f64(),
            drain_s: arguments.drain.as_secs_f64(),
            ..Timeouts::default()
        },
        engine: arguments.udp.io.engine.engine,
        memory: arguments.foreground.placing.memory,
        buffer_memory: arguments.foreground.placing.buffer_memory,
        steering: request.steering.of_plan(sources.align),
        ..plan.gathering(arguments.gather)
    })
}

/// The pace of a pool with so many of the connections.
fn model(arguments: &LoadMemcachedArguments, connections: usize) -> Model {
    match arguments.rate {
        Some(per_second) => Model::Open {
            per_second: per_second * connections as f64 / arguments.connections as f64,
        },
        None => Model::Closed {
            think_s: arguments.think.unwrap_or_default().as_secs_f64(),
        },
    }
}
