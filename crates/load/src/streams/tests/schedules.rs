//! Requests on a schedule that are late or never sent, by the reason.

use super::support::{Script, outcomes, plan, run, run_over};
use crate::streams::*;
use corelane_worker::engine::simulated::NetworkSettings;
use std::time::Duration;

/// The counts of a run of three seconds at 100 requests per second, each answered after 50 ms, on this many connections.
fn scheduled(connections: usize) -> RequestCounts<()> {
    let mut plan = plan();
    (plan.requests, plan.phases[0].until.duration_s) = (None, Some(3.0));
    plan.pools[0].model = Model::Open { per_second: 100.0 };
    plan.pools[0].protocol.depth = 1;
    plan.pools[0].connections = connections;
    plan.workers[0].shares[0].leases[0].connections = connections;
    let network = NetworkSettings {
        delay: Duration::from_millis(25),
        ..NetworkSettings::default()
    };
    let (outcome, _) = run_over(network, plan, Script::Together(1), 65_536);
    let tally = outcome.groups.into_iter().next().unwrap().tally;
    assert_eq!(outcomes(&tally)[2..], [0, 0]);
    tally.counts.requests
}

#[test]
fn what_a_slow_server_delays_waits_for_a_connection() {
    let counts = scheduled(1);
    // One at a time, each for 50 ms: 60 of 300.
    assert!((59..=61).contains(&counts.begun), "{counts:?}");
    assert_eq!(counts.begun + counts.unsent, 300);
    // All but the first found the connection busy.
    assert_eq!(counts.waited_for_connection, counts.begun - 1);
    assert_eq!((counts.unsent_waiting, counts.unsent_late), (counts.unsent, 0));
    // Enough connections for the same server.
    let counts = scheduled(8);
    assert_eq!(
        (counts.begun + counts.unsent_at_end, counts.unsent),
        (300, counts.unsent_at_end)
    );
    assert!(
        counts.waited_for_connection == 0 && counts.unsent <= 1,
        "{counts:?}"
    );
}

#[test]
fn a_worker_without_a_connection_of_a_pool_has_no_part_of_its_schedule() {
    let mut plan = plan();
    (plan.requests, plan.phases[0].until.duration_s) = (None, Some(1.0));
    plan.pools[0].model = Model::Open { per_second: 100.0 };
    plan.workers[0].shares[0].leases.clear();
    let (tally, _) = run(plan, Script::Together(1), 65_536);
    assert_eq!((outcomes(&tally), tally.counts.requests.unsent), ([0; 4], 0));
}
