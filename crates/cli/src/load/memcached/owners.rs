//! `--align owner`: asks the server which bucket owns a key, and at the end how often it was asked there.

use super::arguments::LoadMemcachedArguments;
use crate::outcome::{cannot_run, usage};
use corelane_load::memcached::{Memcached, PlannedOwners, Said};
use corelane_load::sources::{Align, WorkerRequest};
use corelane_measure::quantity;
use corelane_measure::share::Share;
use std::net::SocketAddr;
use std::time::Duration;

/// Time to wait for the server.
const PATIENCE: Duration = Duration::from_secs(5);

/// Completes a plan with `--align owner`: the steering and the owners are those that the server says.
pub fn complete(
    arguments: &LoadMemcachedArguments,
    target: Option<SocketAddr>,
    request: &mut WorkerRequest,
    protocol: &mut Memcached,
) -> anyhow::Result<()> {
    if arguments.sources.align != Some(Align::Owner) {
        return Ok(());
    }
    let refused = |what: &str| Err(usage("--align owner", what));
    let Some(target) = target.filter(|_| !arguments.tls) else {
        return refused("the server is asked over TCP without TLS: give its address and port");
    };
    if request.steering.forward.is_some() {
        return refused("the server says how it is steered: leave --steering out");
    }
    protocol
        .owned_alone()
        .map_err(|why| usage("--align owner", why))?;
    let owners = Said::by(target, PATIENCE).and_then(|said| said.owners());
    let owners = owners.map_err(|error| cannot_run(format!("--align owner: {error}")))?;
    protocol.owners = Some(PlannedOwners {
        seed: owners.seed,
        partitions: owners.partitions,
    });
    request.steering.forward = Some(owners.steering);
    Ok(())
}

/// With `--align owner`, what the server has counted so far.
pub fn locality(
    arguments: &LoadMemcachedArguments,
    target: Option<SocketAddr>,
) -> Option<(SocketAddr, Share)> {
    counted(
        target.filter(|_| {
            arguments.sources.align == Some(Align::Owner) && !arguments.foreground.result.dry_run
        })?,
    )
}

fn counted(target: SocketAddr) -> Option<(SocketAddr, Share)> {
    let said = Said::by(target, PATIENCE).ok()?;
    Some((target, said.locality()))
}

/// A note on what the server has counted since.
pub fn since(before: Option<(SocketAddr, Share)>) -> Vec<String> {
    let note = || {
        let (target, before) = before?;
        let (_, after) = counted(target)?;
        let meanwhile = Share {
            hits: after.hits.checked_sub(before.hits)?,
            samples: after.samples.checked_sub(before.samples)?,
        };
        let (all, share) = (meanwhile.samples, 100.0 * meanwhile.value()?);
        Some(format!(
            "the server counted {} keys meanwhile, {share:.1} % of them at the worker that owns them",
            quantity::count(all)
        ))
    };
    note().into_iter().collect()
}
