//! A server that is lost during a run: gone or silent, for a time or for good.

use super::support::{Leave, Script, outcomes, plan, run_over};
use crate::contact::Span;
use crate::failure::Failure;
use crate::streams::*;
use corelane_worker::Time;
use corelane_worker::engine::simulated::NetworkSettings;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A time in which the server was lost, in milliseconds from the start of the run, and why it was gone.
type Lost = (u128, Option<u128>, Option<Failure>);

/// The counts of a run of so many seconds, and when the server was lost.
fn run(model: Model, seconds: f64, script: Script, delay: Duration) -> (Tally<()>, Vec<Lost>) {
    let mut plan = plan();
    (plan.requests, plan.phases[0].until.duration_s) = (None, Some(seconds));
    plan.timeouts.request_s = 60.0;
    plan.pools[0].model = model;
    plan.pools[0].protocol.depth = 1;
    plan.pools[0].connections = 4;
    plan.workers[0].shares[0].leases[0].connections = 4;
    let network = NetworkSettings {
        delay,
        ..NetworkSettings::default()
    };
    let (outcome, _) = run_over(network, plan, script, 65_536);
    let (start, running) = (outcome.start, outcome.running);
    let group = outcome.groups.into_iter().next().unwrap();
    let at = |time: Time| time.since(start).as_millis();
    let spans = group.contact.lost(start, start + running).into_iter();
    let spans =
        spans.map(|Span { since, until, gone }| (at(since), (until < Time::NEVER).then(|| at(until)), gone));
    (group.tally, spans.collect())
}

const OPEN: Model = Model::Open { per_second: 1_000.0 };
const CLOSED: Model = Model::Closed { think_s: 0.001 };

#[test]
fn what_is_due_without_a_server_fails() {
    let (tally, lost) = run(OPEN, 1.0, Script::Leaves(20, Leave::Dies, None), MS / 20);
    let counts = &tally.counts.requests;
    assert_eq!((outcomes(&tally), counts.unsent), ([1_000, 20, 980, 0], 0));
    assert!(counts.by_cause.of(Failure::Refused) >= 978, "{counts:?}");
    assert_eq!(counts.sent, 20 + counts.by_cause.of(Failure::ClosedEarly));
    let [(since, None, Some(Failure::Refused))] = lost[..] else {
        panic!("{lost:?}");
    };
    assert!((19..=21).contains(&since), "{since}");
}

#[test]
fn what_is_due_while_a_server_restarts_fails_and_the_rest_is_answered() {
    let away = Duration::from_millis(300);
    let (tally, lost) = run(OPEN, 1.0, Script::Leaves(20, Leave::Dies, Some(away)), MS / 20);
    let [begun, ok, failed, unfinished] = outcomes(&tally);
    assert_eq!(
        (begun + tally.counts.requests.unsent, ok + failed, unfinished),
        (1_000, begun, 0)
    );
    assert_eq!(tally.counts.requests.unsent, tally.counts.requests.unsent_at_end);
    let [(since, Some(until), Some(Failure::Refused))] = lost[..] else {
        panic!("{lost:?}");
    };
    // It tries again every tenth of a second.
    assert!(
        (19..=21).contains(&since) && (319..=425).contains(&until),
        "{lost:?}"
    );
    assert!(failed.abs_diff((until - since) as u64) <= 5, "{failed}: {lost:?}");
}

#[test]
fn a_closed_loop_knows_when_its_server_went() {
    let (tally, lost) = run(CLOSED, 1.0, Script::Leaves(20, Leave::Dies, None), MS / 20);
    assert_eq!(tally.counts.requests.ok, 20);
    assert!(
        matches!(lost[..], [(0..=20, None, Some(Failure::Refused))]),
        "{lost:?}"
    );
}

#[test]
fn a_server_that_answers_nothing_is_silent_until_it_answers() {
    for model in [OPEN, CLOSED] {
        let (_, lost) = run(model, 3.0, Script::Leaves(20, Leave::FallsSilent, None), MS / 20);
        assert!(matches!(lost[..], [(0..=21, None, None)]), "{lost:?}");
        let back = Some(Duration::from_millis(1_500));
        let (tally, lost) = run(model, 3.0, Script::Leaves(20, Leave::FallsSilent, back), MS / 20);
        assert!(
            matches!(lost[..], [(0..=21, Some(1_500..=1_530), None)]),
            "{lost:?}"
        );
        assert_eq!(tally.counts.requests.unfinished, 0);
        // Also while the last answers are awaited.
        let (_, lost) = run(model, 0.5, Script::Leaves(20, Leave::FallsSilent, back), MS / 20);
        assert!(
            matches!(lost[..], [(0..=21, Some(1_500..=1_530), None)]),
            "{lost:?}"
        );
    }
}

#[test]
fn a_server_that_is_slow_or_pauses_for_less_than_a_second_is_not_lost() {
    for model in [OPEN, CLOSED] {
        // Answers that take three seconds.
        let (tally, lost) = run(model, 10.0, Script::Together(1), 1_500 * MS);
        assert!(tally.counts.requests.ok > 0 && lost.is_empty(), "{lost:?}");
        let back = Some(Duration::from_millis(900));
        let (_, lost) = run(model, 3.0, Script::Leaves(20, Leave::FallsSilent, back), MS / 20);
        assert_eq!(lost, []);
    }
}
