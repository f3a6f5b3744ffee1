//! Requests in flight as a pipeline.

use super::support::{BYTES, Script, outcomes, plan, run, run_over};
use crate::failure::Failure;
use crate::streams::*;
use corelane_worker::engine::simulated::NetworkSettings;

#[test]
fn a_closed_loop_keeps_eight_in_flight_answered_in_order_in_pieces_of_any_size() {
    // The server answers only eight together, so fewer in flight would time out.
    for piece in (1..20).chain([65_536]) {
        let (tally, most) = run(plan(), Script::Together(8), piece);
        assert_eq!((outcomes(&tally), most), ([24, 24, 0, 0], 8), "{piece}");
        assert_eq!(tally.counts.connections.opened, 1);
        assert_eq!(tally.counts.bytes.received, 24 * BYTES as u64);
    }
}

#[test]
fn answers_out_of_order_are_wrong_and_no_answer_fails_all_in_flight() {
    let (tally, _) = run(plan(), Script::Swapped, 65_536);
    assert_eq!(tally.counts.requests.by_cause.of(Failure::WrongBody), 24);
    let (tally, _) = run(plan(), Script::Silent, 65_536);
    assert_eq!(outcomes(&tally), [24, 0, 24, 0]);
    assert_eq!(tally.counts.requests.by_cause.of(Failure::RequestTimeout), 24);
}

#[test]
fn a_close_in_the_middle_fails_what_is_in_flight_and_the_next_connection_goes_on() {
    for piece in [1, 7, BYTES, 65_536] {
        let (outcome, _) = run_over(NetworkSettings::default(), plan(), Script::ThreeThenClose, piece);
        let group = outcome.groups.into_iter().next().unwrap();
        let (tally, shared) = (group.tally, group.shared);
        assert_eq!(
            shared.part,
            Some(Part {
                place: 0,
                of: 1,
                bucket: None
            })
        );
        assert_eq!(
            shared.numbers, tally.counts.requests.begun,
            "{piece}: every request is chosen once"
        );
        let [begun, ok, failed, unfinished] = outcomes(&tally);
        assert_eq!((begun, ok + failed, unfinished), (24, 24, 0), "{piece}");
        let counts = &tally.counts;
        assert_eq!(
            counts.requests.by_cause.of(Failure::ClosedEarly) % 8,
            0,
            "{piece}"
        );
        assert!(counts.connections.closed_by_server >= 2 && ok == 3 * counts.connections.closed_by_server);
    }
}

#[test]
fn what_follows_the_last_answer_ends_the_connection() {
    let mut plan = plan();
    plan.requests = Some(8);
    let (tally, _) = run(plan, Script::OneMore, 65_536);
    assert_eq!(outcomes(&tally), [8, 8, 0, 0]);
    assert_eq!(tally.counts.connections.unasked_bytes, 1);
}

#[test]
fn a_connection_makes_no_more_requests_than_planned_and_pauses_when_all_are_answered() {
    let mut limited = plan();
    limited.pools[0].requests_a_connection = Some(6);
    let (tally, most) = run(limited, Script::Together(6), 65_536);
    assert_eq!((outcomes(&tally), most), ([24, 24, 0, 0], 6));
    assert_eq!(tally.counts.connections.opened, 4);
    let mut thinking = plan();
    thinking.pools[0].model = Model::Closed { think_s: 1.0 };
    let (tally, most) = run(thinking, Script::Together(8), 65_536);
    assert_eq!((outcomes(&tally), most), ([24, 24, 0, 0], 8));
}

#[test]
fn an_open_loop_counts_from_when_each_request_was_due() {
    let mut plan = plan();
    plan.pools[0].model = Model::Open { per_second: 1_000.0 };
    let (tally, most) = run(plan, Script::Together(8), 65_536);
    assert_eq!((outcomes(&tally), most), ([24, 24, 0, 0], 8));
    let latency = tally.histograms.latency.summary().unwrap();
    // The first of eight waits for seven more, one per millisecond; the last for none.
    assert!(
        latency.max_ns >= 7_000_000 && latency.max_ns < 8_000_000,
        "{latency:?}"
    );
    assert!(latency.min_ns < 1_000_000, "{latency:?}");
    assert_eq!(tally.counts.requests.waited_for_connection, 0);
}

#[test]
fn the_last_answers_are_awaited_as_long_as_they_keep_coming() {
    let mut plan = plan();
    plan.requests = Some(8);
    plan.phases[0].until.duration_s = Some(0.5);
    (plan.timeouts.request_s, plan.timeouts.drain_s) = (60.0, 3.0);
    let (tally, _) = run(plan.clone(), Script::OneASecond, 65_536);
    assert_eq!(outcomes(&tally), [8, 8, 0, 0]);
    assert_eq!(tally.counts.requests.ok_late, 8);
    let (tally, _) = run(plan.clone(), Script::Silent, 65_536);
    assert_eq!(outcomes(&tally), [8, 0, 0, 8]);
    // Ten times that long at most.
    (plan.requests, plan.pools[0].protocol.depth, plan.timeouts.drain_s) = (Some(24), 24, 1.5);
    let (tally, _) = run(plan, Script::OneASecond, 65_536);
    let [begun, answered, _, unfinished] = outcomes(&tally);
    assert_eq!((begun, answered + unfinished), (24, 24));
    assert!((15..=17).contains(&answered), "{answered}");
}
