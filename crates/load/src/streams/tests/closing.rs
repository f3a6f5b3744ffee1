//! Connections after their last response: who closes them, when, and what happens to their ports.

use super::support::{Script, outcomes, plan, run_over};
use crate::sources::Ports;
use crate::streams::*;
use corelane_worker::engine::simulated::NetworkSettings;
use std::time::Duration;

/// The counts of a run of 100 requests, each on a connection of its own, from these ports; and how long it took.
fn run(ports: Ports, script: Script) -> (Tally<()>, Duration) {
    let mut plan = plan();
    plan.requests = Some(100);
    plan.pools[0].protocol.depth = 1;
    plan.pools[0].requests_a_connection = Some(1);
    plan.workers[0].shares[0].leases[0].ports = ports;
    let (outcome, _) = run_over(NetworkSettings::default(), plan, script, 65_536);
    let tally = outcome.groups.into_iter().next().unwrap().tally;
    assert_eq!(outcomes(&tally), [100, 100, 0, 0]);
    assert_eq!(tally.counts.connections.failed.total(), 0);
    (tally, outcome.running)
}

#[test]
fn a_server_that_leaves_closing_to_its_clients_is_not_waited_for() {
    let (tally, took) = run(Ports::Kernel, Script::Together(1));
    let counts = &tally.counts.connections;
    assert_eq!(
        (counts.opened, counts.closed_by_client, counts.closed_by_server),
        (100, 100, 0)
    );
    // Eight times it is given a moment, and once more of the 64 that follow.
    assert!(took < Duration::from_millis(100), "{took:?}");
}

#[test]
fn a_server_that_closes_first_keeps_the_connection_and_frees_the_port() {
    let (tally, took) = run(Ports::Listed(vec![7_001, 7_002]), Script::OneThenClose);
    let counts = &tally.counts.connections;
    assert_eq!((counts.opened, counts.closed_by_client), (100, 0));
    assert!(
        counts.closed_by_server >= 99 && took < Duration::from_millis(100),
        "{took:?}"
    );
}

#[test]
fn ports_do_not_run_out_where_the_client_closes_first() {
    let (tally, took) = run(
        Ports::Listed(vec![7_001, 7_002, 7_003, 7_004]),
        Script::Together(1),
    );
    assert_eq!(tally.counts.connections.closed_by_client, 100);
    assert!(took < Duration::from_millis(100), "{took:?}");
}
