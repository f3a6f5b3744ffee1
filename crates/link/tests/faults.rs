//! Faults befall frames as planned: each is counted, the same seed gives the same ones, and nothing else is lost.

use corelane_link::{FaultPlan, Faulty, FrameLayout, Injected, Link, memory};

const FRAMES: usize = 2000;

/// What arrives of numbered frames under a plan, and what befell them.
fn arrived(plan: FaultPlan) -> (Vec<Vec<u8>>, Injected) {
    let (mut left, right) = memory::pair(FrameLayout::default()).unwrap();
    let mut right = Faulty::new(right, plan);
    let mut came = Vec::new();
    for first in (0..FRAMES).step_by(100) {
        let frames: Vec<Vec<u8>> = (first..first + 100).map(frame).collect();
        assert_eq!(left.send(frames.iter().map(Vec::as_slice)).unwrap().taken, 100);
        came.extend(right.receive(256).unwrap().iter().map(<[u8]>::to_vec));
    }
    drop(left);
    while !right.is_ended() {
        came.extend(right.receive(256).unwrap().iter().map(<[u8]>::to_vec));
    }
    (came, right.injected())
}

fn frame(number: usize) -> Vec<u8> {
    let mut frame = (number as u32).to_be_bytes().to_vec();
    frame.resize(64, 0x5a);
    frame
}

fn number(frame: &[u8]) -> usize {
    u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize
}

#[test]
fn without_faults_everything_arrives_as_it_was() {
    let (came, injected) = arrived(FaultPlan::default());
    assert_eq!(came, (0..FRAMES).map(frame).collect::<Vec<_>>());
    assert_eq!(injected, Injected::default());
}

#[test]
fn the_same_seed_gives_the_same_faults_and_another_seed_others() {
    let plan = |seed| FaultPlan {
        seed,
        drop: 0.1,
        truncate: 0.1,
        corrupt: 0.1,
        duplicate: 0.1,
        reorder: 0.1,
        delay: 0.1,
        delay_bursts: 3,
    };
    assert_eq!(arrived(plan(7)), arrived(plan(7)));
    assert_ne!(arrived(plan(7)), arrived(plan(8)));
}

#[test]
fn dropped_and_duplicated_frames_account_for_what_came() {
    let (came, injected) = arrived(FaultPlan {
        seed: 1,
        drop: 0.2,
        duplicate: 0.1,
        ..FaultPlan::default()
    });
    assert!((300..500).contains(&injected.dropped), "{injected:?}");
    assert!((100..220).contains(&injected.duplicated), "{injected:?}");
    assert_eq!(
        came.len() as u64,
        FRAMES as u64 - injected.dropped + injected.duplicated
    );
    assert!(came.is_sorted_by_key(|frame| number(frame)));
}

#[test]
fn corrupted_frames_differ_in_one_bit_and_truncated_ones_in_length() {
    let (came, injected) = arrived(FaultPlan {
        seed: 1,
        corrupt: 0.3,
        ..FaultPlan::default()
    });
    let differing = |(sent, came): (usize, &Vec<u8>)| -> u32 {
        frame(sent)
            .iter()
            .zip(came)
            .map(|(sent, came)| (sent ^ came).count_ones())
            .sum()
    };
    let bits: Vec<u32> = came.iter().enumerate().map(differing).collect();
    assert!(bits.iter().all(|bits| *bits <= 1));
    assert_eq!(bits.iter().sum::<u32>() as u64, injected.corrupted);
    assert!(injected.corrupted > 400);

    let (came, injected) = arrived(FaultPlan {
        seed: 1,
        truncate: 0.3,
        ..FaultPlan::default()
    });
    assert_eq!(came.len(), FRAMES);
    assert_eq!(
        came.iter().filter(|frame| frame.len() < 64).count() as u64,
        injected.truncated
    );
}

#[test]
fn reordered_and_delayed_frames_come_late_but_come() {
    for plan in [
        FaultPlan {
            seed: 1,
            reorder: 0.2,
            ..FaultPlan::default()
        },
        FaultPlan {
            seed: 1,
            delay: 0.2,
            delay_bursts: 2,
            ..FaultPlan::default()
        },
    ] {
        let (mut came, injected) = arrived(plan);
        assert!(injected.reordered + injected.delayed > 200, "{injected:?}");
        assert!(!came.is_sorted_by_key(|frame| number(frame)));
        came.sort_by_key(|frame| number(frame));
        assert_eq!(came, (0..FRAMES).map(frame).collect::<Vec<_>>());
    }
}
