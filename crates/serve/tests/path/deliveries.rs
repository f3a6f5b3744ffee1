//! Datagrams in fragments through buckets of several workers, with faults: each is delivered whole, once, on the bucket that
//! its final hash names; or its frames were harmed on a link, or are counted under a name.

use super::outcome::{run, scenario};
use super::simulation::{Arrival, Scenario};
use corelane_link::{FaultPlan, FrameDirection};
use corelane_packet::HashTypes;
use corelane_stage::dispatch::Method;
use corelane_stage::reassembly::Placement;
use std::time::Duration;

#[test]
fn without_faults_every_datagram_is_delivered_whole_and_once_wherever_its_fragments_meet() {
    for seed in 1..=40 {
        let scenario = meeting(seed, FaultPlan::default());
        let outcome = run(&scenario);
        assert_eq!(outcome.simulation.count("timeout"), 0, "{scenario:?}");
        assert_eq!(outcome.delivered.len(), 400, "{scenario:?}");
        assert!(
            outcome.delivered.values().all(|times| *times == 1),
            "{scenario:?}"
        );
    }
}

/// Every fault after which a frame does not come, or not as it was sent, or late.
const FAULTS: FaultPlan = FaultPlan {
    seed: 0,
    direction: FrameDirection::Received,
    drop: 0.03,
    truncate: 0.01,
    corrupt: 0.0,
    duplicate: 0.0,
    reorder: 0.05,
    delayed: 0.05,
    delay: Duration::from_millis(5),
};

/// A scenario in which fragments meet.
fn meeting(seed: u64, faults: FaultPlan) -> Scenario {
    let mut scenario = scenario(seed, faults);
    if scenario.at == Placement::Arrival && scenario.method == Method::Direct {
        // Fragments that come apart do not meet: nothing moves them.
        scenario.arrival = Arrival::Rss;
    }
    scenario
}

#[test]
fn only_those_datagrams_are_missing_of_which_a_frame_was_harmed_and_the_counts_of_the_causes_are_their_frames()
 {
    let mut lost = 0;
    for seed in 1..=40 {
        let scenario = meeting(seed, FAULTS);
        let outcome = run(&scenario);
        let (missing, simulation) = (outcome.missing(), &outcome.simulation);
        assert_eq!(missing, outcome.harmed(), "{scenario:?}");
        let (fragments, came) = outcome.fragments_of(&missing);
        let injected = simulation.injected();
        assert_eq!(
            fragments,
            injected.dropped + injected.truncated + came,
            "{scenario:?}"
        );
        let mut dropped = simulation.dropped();
        // A whole datagram that was cut short passes, as does what was cut within its headers.
        let mut drop = |cause| dropped.remove(cause).unwrap_or_default();
        let cut = drop("reassemble_truncated") + outcome.unidentified;
        assert_eq!(cut, injected.truncated, "{scenario:?}");
        assert_eq!(drop("reassemble_timeout"), came, "{scenario:?}");
        assert!(dropped.is_empty(), "{scenario:?}: {dropped:?}");
        lost += missing.len();
    }
    assert!(lost > 600, "{lost}: faults had an effect");
}

#[test]
fn of_datagrams_that_a_full_queue_loses_every_frame_is_counted_as_refused_or_too_late() {
    let mut lost = 0;
    for seed in 1..=40 {
        let scenario = Scenario {
            limit: 4,
            // What is made of fragments does not move again.
            hash_types: HashTypes::TWO_TUPLE,
            at: Placement::Arrival,
            method: [Method::Deferred, Method::Hybrid][seed as usize % 2],
            ..scenario(seed, FaultPlan::default())
        };
        let outcome = run(&scenario);
        let (missing, simulation) = (outcome.missing(), &outcome.simulation);
        let (fragments, came) = outcome.fragments_of(&missing);
        let mut dropped = simulation.dropped();
        let counted = ["queue_full", "reassemble_timeout"].map(|cause| dropped.remove(cause));
        let counted: u64 = counted.into_iter().flatten().sum();
        assert_eq!((fragments, came), (came, counted), "{scenario:?}");
        assert!(dropped.is_empty(), "{scenario:?}: {dropped:?}");
        lost += missing.len();
    }
    assert!(lost > 600, "{lost}: queues were full");
}

#[test]
fn with_every_fault_full_queues_and_other_plans_no_datagram_is_delivered_more_often_than_it_came() {
    let faults = FaultPlan {
        corrupt: 0.02,
        duplicate: 0.05,
        ..FAULTS
    };
    let (mut lost, mut in_others) = (0, 0);
    for seed in 1..=60 {
        let scenario = Scenario {
            limit: 12,
            replans: true,
            ..meeting(seed, faults)
        };
        let outcome = run(&scenario);
        let harmed = outcome.harmed();
        for (name, times) in &outcome.delivered {
            // Not all bits are covered by a checksum: one that was harmed may be as good, and be repeated.
            let most = if harmed.contains(name) {
                2
            } else {
                outcome.times_it_came(name)
            };
            assert!(*times <= most, "{name:?} of {scenario:?}");
        }
        let missing = outcome.missing();
        // All frames of these came: a queue refused one, or one that was harmed ruined it.
        let unharmed = missing.difference(&harmed).count() as u64;
        let mut dropped = outcome.simulation.dropped();
        for cause in ["timeout", "truncated", "duplicate", "checksum"] {
            dropped.remove(&format!("reassemble_{cause}"));
        }
        assert!(unharmed <= dropped.values().sum(), "{scenario:?}: {dropped:?}");
        (lost, in_others) = (lost + missing.len(), in_others + unharmed);
    }
    assert!(
        lost > 600 && in_others > 100,
        "{lost}, {in_others}: faults had an effect"
    );
}

#[test]
fn a_repeated_fragment_makes_no_second_datagram() {
    let faults = FaultPlan {
        duplicate: 0.2,
        ..FaultPlan::default()
    };
    for seed in 1..=30 {
        let scenario = Scenario {
            at: Placement::Owner,
            ..scenario(seed, faults)
        };
        let outcome = run(&scenario);
        assert_eq!(outcome.delivered.len(), 400, "{scenario:?}");
        for (name, fragments) in &outcome.fragments {
            let most = if fragments.len() > 1 { 1 } else { 2 };
            assert!(outcome.delivered[name] <= most, "{scenario:?}");
        }
    }
}

#[test]
fn under_two_fields_a_flow_stays_in_order_and_under_four_it_is_seen_where_it_does_not() {
    let mut overtaken = 0;
    for seed in 1..=40 {
        let of = |hash_types, method| Scenario {
            hash_types,
            method,
            at: Placement::Arrival,
            arrival: Arrival::Rss,
            ..scenario(seed, FaultPlan::default())
        };
        for method in [Method::Direct, Method::Deferred, Method::Hybrid] {
            let scenario = of(HashTypes::TWO_TUPLE, method);
            let outcome = run(&scenario);
            assert_eq!((outcome.overtaken, outcome.handed_over), (0, 0), "{scenario:?}");
        }
        overtaken += run(&of(HashTypes::FOUR_TUPLE, Method::Hybrid)).overtaken;
    }
    println!("overtaken under four fields: {overtaken} of {}", 40 * 400);
}

#[test]
fn the_same_seed_gives_the_same_frames() {
    let faults = FaultPlan {
        drop: 0.05,
        reorder: 0.1,
        ..FaultPlan::default()
    };
    for seed in 1..=10 {
        let scenario = scenario(seed, faults);
        let [first, second] = [0, 1].map(|_| run(&scenario).simulation.delivered);
        assert!(first == second, "{scenario:?}");
    }
}
