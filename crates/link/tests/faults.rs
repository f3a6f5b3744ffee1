//! Faults are injected as planned: each is counted, the same seed gives the same faults, and no other frame is lost.

use corelane_link::{FaultPlan, FrameDirection, FrameLayout, Injected, Link, Wrapped, memory};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

const FRAMES: usize = 2000;
const MILLISECOND: Duration = Duration::from_millis(1);

/// A clock that the test advances.
#[derive(Clone)]
struct Clock(Rc<Cell<Instant>>);

impl Clock {
    fn new() -> Clock {
        Clock(Rc::new(Cell::new(Instant::now())))
    }

    fn advance(&self, time: Duration) {
        self.0.set(self.0.get() + time);
    }

    /// The clock as a link reads it.
    fn read(&self) -> impl FnMut() -> Instant {
        let clock = Rc::clone(&self.0);
        move || clock.get()
    }
}

/// Sends numbered frames under a plan, one burst per millisecond; returns the frames that arrive and the injected
/// faults.
fn arrived(plan: FaultPlan) -> (Vec<Vec<u8>>, Injected) {
    let (mut left, right) = memory::pair(FrameLayout::default()).unwrap();
    let clock = Clock::new();
    let mut right = Wrapped::faulty_by(right, plan, clock.read());
    let mut received = Vec::new();
    for first in (0..FRAMES).step_by(100) {
        let frames: Vec<Vec<u8>> = (first..first + 100).map(frame).collect();
        assert_eq!(left.send(frames.iter().map(Vec::as_slice)).unwrap().taken, 100);
        received.extend(right.receive(256).unwrap().iter().map(<[u8]>::to_vec));
        clock.advance(MILLISECOND);
    }
    drop(left);
    while !right.is_ended() {
        received.extend(right.receive(256).unwrap().iter().map(<[u8]>::to_vec));
        clock.advance(MILLISECOND);
    }
    assert_eq!(right.tally().received, received.len() as u64);
    (received, right.injected().unwrap())
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
    let (received, injected) = arrived(FaultPlan::default());
    assert_eq!(received, (0..FRAMES).map(frame).collect::<Vec<_>>());
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
        delayed: 0.1,
        delay: 3 * MILLISECOND,
        ..FaultPlan::default()
    };
    assert_eq!(arrived(plan(7)), arrived(plan(7)));
    assert_ne!(arrived(plan(7)), arrived(plan(8)));
}

#[test]
fn dropped_and_duplicated_frames_account_for_what_came() {
    let (received, injected) = arrived(FaultPlan {
        seed: 1,
        drop: 0.2,
        duplicate: 0.1,
        ..FaultPlan::default()
    });
    assert!((300..500).contains(&injected.dropped), "{injected:?}");
    assert!((100..220).contains(&injected.duplicated), "{injected:?}");
    assert_eq!(
        received.len() as u64,
        FRAMES as u64 - injected.dropped + injected.duplicated
    );
    assert!(received.is_sorted_by_key(|frame| number(frame)));
}

#[test]
fn corrupted_frames_differ_in_one_bit_and_truncated_ones_in_length() {
    let (received, injected) = arrived(FaultPlan {
        seed: 1,
        corrupt: 0.3,
        ..FaultPlan::default()
    });
    let differing = |(sent, received): (usize, &Vec<u8>)| -> u32 {
        frame(sent)
            .iter()
            .zip(received)
            .map(|(sent, received)| (sent ^ received).count_ones())
            .sum()
    };
    let bits: Vec<u32> = received.iter().enumerate().map(differing).collect();
    assert!(bits.iter().all(|bits| *bits <= 1));
    assert_eq!(bits.iter().sum::<u32>() as u64, injected.corrupted);
    assert!(injected.corrupted > 400);

    let (received, injected) = arrived(FaultPlan {
        seed: 1,
        truncate: 0.3,
        ..FaultPlan::default()
    });
    assert_eq!(received.len(), FRAMES);
    assert_eq!(
        received.iter().filter(|frame| frame.len() < 64).count() as u64,
        injected.truncated
    );
    assert!(injected.truncated > 400 && received.iter().all(|frame| frame.len() >= 14));
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
            delayed: 0.2,
            delay: 2 * MILLISECOND,
            ..FaultPlan::default()
        },
    ] {
        let (mut received, injected) = arrived(plan);
        assert!(injected.reordered + injected.delayed > 200, "{injected:?}");
        assert!(!received.is_sorted_by_key(|frame| number(frame)));
        received.sort_by_key(|frame| number(frame));
        assert_eq!(received, (0..FRAMES).map(frame).collect::<Vec<_>>());
    }
}

#[test]
fn a_delay_holds_every_frame_until_its_time_and_a_descriptor_does_not_tell_of_them() {
    let (mut left, right) = memory::pair(FrameLayout::default()).unwrap();
    let clock = Clock::new();
    let plan = FaultPlan {
        delayed: 1.0,
        delay: 5 * MILLISECOND,
        ..FaultPlan::default()
    };
    let mut right = Wrapped::faulty_by(right, plan, clock.read());
    left.send([frame(0).as_slice()].into_iter()).unwrap();
    assert_eq!(right.receive(16).unwrap().len(), 0);
    clock.advance(4 * MILLISECOND);
    left.send([frame(1).as_slice()].into_iter()).unwrap();
    drop(left);
    assert_eq!(right.receive(16).unwrap().len(), 0);
    assert_eq!((right.injected().unwrap().held, right.is_ended()), (2, false));
    right.check().unwrap();
    clock.advance(MILLISECOND);
    assert_eq!(right.receive(16).unwrap().frame(0), frame(0));
    clock.advance(4 * MILLISECOND);
    assert_eq!(right.receive(16).unwrap().frame(0), frame(1));
    assert_eq!((right.injected().unwrap().held, right.is_ended()), (0, true));
}

#[test]
fn a_frame_that_nothing_overtakes_comes_after_10_ms_and_is_not_counted() {
    let (mut left, right) = memory::pair(FrameLayout::default()).unwrap();
    let clock = Clock::new();
    let plan = FaultPlan {
        reorder: 1.0,
        ..FaultPlan::default()
    };
    let mut right = Wrapped::faulty_by(right, plan, clock.read());
    left.send([frame(0).as_slice()].into_iter()).unwrap();
    assert_eq!(right.receive(16).unwrap().len(), 0);
    clock.advance(10 * MILLISECOND);
    assert_eq!(right.receive(16).unwrap().len(), 1);
    assert_eq!(right.injected().unwrap().reordered, 0);
    left.send([frame(1), frame(2)].iter().map(Vec::as_slice)).unwrap();
    let received: Vec<usize> = right.receive(16).unwrap().iter().map(number).collect();
    assert_eq!((received, right.injected().unwrap().reordered), (vec![2, 1], 1));
}

#[test]
fn what_is_held_back_is_bounded_and_the_rest_waits_in_the_link() {
    /// The same number as in `wrapper/fault.rs`.
    const MOST_HELD: u64 = 65_536;
    let (mut left, right) = memory::pair(FrameLayout::default()).unwrap();
    let clock = Clock::new();
    let plan = FaultPlan {
        delayed: 1.0,
        delay: MILLISECOND,
        ..FaultPlan::default()
    };
    let mut right = Wrapped::faulty_by(right, plan, clock.read());
    let frames: Vec<Vec<u8>> = (0..100).map(frame).collect();
    let mut sent = 0;
    loop {
        let taken = left.send(frames.iter().map(Vec::as_slice)).unwrap().taken as u64;
        sent += taken;
        assert_eq!(right.receive(256).unwrap().len(), 0);
        assert!(right.injected().unwrap().held <= MOST_HELD);
        if taken == 0 {
            break;
        }
    }
    assert_eq!(right.injected().unwrap().held, MOST_HELD);
    clock.advance(MILLISECOND);
    let mut received = 0;
    while received < sent {
        received += right.receive(256).unwrap().len() as u64;
        clock.advance(MILLISECOND);
    }
    assert_eq!(right.injected().unwrap().held, 0);
}

#[test]
fn faults_of_what_is_sent_befall_no_received_frame_and_account_for_what_leaves() {
    let (left, mut right) = memory::pair(FrameLayout::new(256, 1920, 64).unwrap()).unwrap();
    let clock = Clock::new();
    let plan = FaultPlan {
        seed: 5,
        direction: FrameDirection::Sent,
        drop: 0.1,
        truncate: 0.1,
        duplicate: 0.1,
        reorder: 0.1,
        delayed: 0.1,
        delay: 3 * MILLISECOND,
        ..FaultPlan::default()
    };
    let mut left = Wrapped::faulty_by(left, plan, clock.read());
    let frames: Vec<Vec<u8>> = (0..FRAMES).map(frame).collect();
    let (mut taken, mut received) = (0, Vec::new());
    while taken < FRAMES {
        // More at once than the ring can hold, so that some wait for space.
        let rest = frames[taken..].iter().take(700);
        taken += left.send(rest.map(Vec::as_slice)).unwrap().taken;
        received.extend(right.receive(64).unwrap().iter().map(<[u8]>::to_vec));
        clock.advance(MILLISECOND);
    }
    while left.injected().unwrap().held > 0 {
        left.check().unwrap();
        received.extend(right.receive(64).unwrap().iter().map(<[u8]>::to_vec));
        clock.advance(MILLISECOND);
    }
    received.extend(right.receive(256).unwrap().iter().map(<[u8]>::to_vec));
    let injected = left.injected().unwrap();
    for (name, count) in injected.by_name() {
        let planned = !["corrupted", "held"].contains(&name.as_str());
        assert_eq!(count > 100, planned, "{name}: {count}");
    }
    assert_eq!(
        received.len() as u64,
        FRAMES as u64 - injected.dropped + injected.duplicated
    );
    assert_eq!(left.tally().sent, received.len() as u64);
    let mut numbers: Vec<usize> = received.iter().map(|frame| number(frame)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len() as u64, FRAMES as u64 - injected.dropped);

    right.send(frames[..200].iter().map(Vec::as_slice)).unwrap();
    assert_eq!(left.receive(256).unwrap().len(), 200);
}
