//! Frames leave in the order and with the bytes that stages gave them: compared with a plain list.

use crate::common::Lent;
use corelane_measure::counter::Counter;
use corelane_packet::{HashTypes, Refusal};
use corelane_rss::{Key, Toeplitz};
use corelane_stage::{Batch, Desk, Fate, Kinds, Work};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// What a stage does with the frame at a place; places are numbers modulo their count.
#[derive(Clone, Debug)]
enum Step {
    Edit(usize, u8),
    Trim(usize, usize, usize),
    Replace(usize, Vec<u8>),
    /// Puts a copy of the frame at the second place behind the first, with a byte added.
    Insert(usize, usize, u8),
    Push(usize, Vec<u8>),
    Take(usize),
    Drop(usize),
    /// The stage is done.
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let (place, bytes) = (0..64_usize, vec(any::<u8>(), 0..5));
    prop_oneof![
        (place.clone(), any::<u8>()).prop_map(|(place, byte)| Step::Edit(place, byte)),
        (place.clone(), 0..4_usize, 0..4_usize).prop_map(|(place, start, end)| Step::Trim(place, start, end)),
        (place.clone(), bytes.clone()).prop_map(|(place, bytes)| Step::Replace(place, bytes)),
        (place.clone(), place.clone(), any::<u8>())
            .prop_map(|(after, of, byte)| Step::Insert(after, of, byte)),
        (0..3_usize, bytes).prop_map(|(link, bytes)| Step::Push(link, bytes)),
        place.clone().prop_map(Step::Take),
        place.prop_map(Step::Drop),
        Just(Step::Settle),
    ]
}

/// A frame of the plain list: its link, its bytes, and what is done with it.
type Plain = (usize, Vec<u8>, Fate);

/// The plain list, and the frames inserted behind each and at the end since the last settling.
struct Model {
    frames: Vec<Plain>,
    behind: Vec<Vec<Plain>>,
    pushed: Vec<Plain>,
}

impl Model {
    fn settle(&mut self) {
        let behind = std::mem::take(&mut self.behind);
        let settled = self.frames.drain(..).zip(behind);
        let mut frames: Vec<Plain> = settled
            .flat_map(|(frame, behind)| std::iter::once(frame).chain(behind))
            .collect();
        frames.append(&mut self.pushed);
        self.behind = vec![Vec::new(); frames.len()];
        self.frames = frames;
    }
}

fn both(work: &mut Work<'_, Lent>, model: &mut Model, step: &Step, dropped: &Counter) {
    let count = work.len();
    assert_eq!(count, model.frames.len());
    if count == 0 && !matches!(step, Step::Push(..) | Step::Settle) {
        return;
    }
    match step.clone() {
        Step::Edit(place, byte) => {
            if let Some(first) = work.frame_mut(place % count).first_mut() {
                *first = byte;
                model.frames[place % count].1[0] = byte;
            }
        }
        Step::Trim(place, start, end) => {
            let frame = &mut model.frames[place % count].1;
            let kept = start.min(frame.len())..end.max(start).min(frame.len());
            *frame = frame[kept.clone()].to_vec();
            work.trim(place % count, kept);
        }
        Step::Replace(place, bytes) => {
            work.replace(place % count, bytes.len(), |_, made| made.copy_from_slice(&bytes));
            model.frames[place % count].1 = bytes;
        }
        Step::Insert(after, of, byte) => {
            let (after, of) = (after % count, of % count);
            let length = work.frame(of).len();
            work.insert(after, length + 1, |view, made| {
                made[..length].copy_from_slice(view.frame(of));
                made[length] = byte;
            });
            let bytes = [&model.frames[of].1[..], &[byte]].concat();
            let link = model.frames[after].0;
            model.behind[after].push((link, bytes, Fate::Flood));
        }
        Step::Push(link, bytes) => {
            work.push(link, bytes.len(), |made| made.copy_from_slice(&bytes));
            model.pushed.push((link, bytes, Fate::Flood));
        }
        Step::Take(place) => {
            work.take(place % count);
            model.frames[place % count].2 = Fate::Gone;
        }
        Step::Drop(place) => {
            work.drop(place % count, dropped);
            model.frames[place % count].2 = Fate::Gone;
        }
        Step::Settle => {
            work.settle();
            model.settle();
        }
    }
}

fn seen(work: &Work<'_, Lent>) -> Vec<Plain> {
    let fate = |place: usize| work.fates().map_or(Fate::Flood, |fates| fates[place]);
    (0..work.len())
        .map(|place| (work.link(place), work.frame(place).to_vec(), fate(place)))
        .collect()
}

proptest! {
    #[test]
    fn any_steps_give_what_a_plain_list_has(
        batches in vec((vec((0..3_usize, vec(any::<u8>(), 0..6)), 0..6), vec(step(), 0..24)), 1..4),
    ) {
        let (mut desk, dropped) = (Desk::default(), Counter::new());
        let (mut drops, mut adds) = (0, 0);
        for (frames, steps) in batches {
            let mut lent = Lent(frames.clone());
            let mut model = Model {
                behind: vec![Vec::new(); frames.len()],
                frames: frames.into_iter().map(|(link, bytes)| (link, bytes, Fate::Flood)).collect(),
                pushed: Vec::new(),
            };
            let mut work = Work::new(&mut desk, &mut lent, Instant::now());
            for step in steps.iter().chain([&Step::Settle]) {
                let is_for_a_frame = !work.is_empty();
                both(&mut work, &mut model, step, &dropped);
                match step {
                    Step::Drop(_) if is_for_a_frame => drops += 1,
                    Step::Insert(..) if is_for_a_frame => adds += 1,
                    Step::Push(..) => adds += 1,
                    _ => (),
                }
                prop_assert_eq!(&seen(&work), &model.frames);
            }
            prop_assert_eq!((dropped.get(), work.has_added()), (drops, adds > 0));
            adds = 0;
        }
    }
}

#[test]
fn a_batch_without_frames_has_no_place_until_one_is_added() {
    let (mut desk, mut lent) = (Desk::default(), Lent(Vec::new()));
    let mut work = Work::new(&mut desk, &mut lent, Instant::now());
    assert!(work.is_empty());
    work.push(2, 3, |bytes| bytes.copy_from_slice(b"abc"));
    assert!(work.is_empty(), "it has a place once the stage is done");
    work.settle();
    assert_eq!(seen(&work), [(2, b"abc".to_vec(), Fate::Flood)]);
}

/// A UDP datagram without content, with an identifier, a place in its datagram, and a destination port.
pub fn datagram(flags: u16, port: u16) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00, 0x45, 0, 0, 28, 0, 7]);
    frame.extend(flags.to_be_bytes());
    frame.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 8, 0, 0]);
    frame
}

/// Frames of a capture: each has its number of milliseconds as its time.
struct Captured(Lent, Instant);

impl Batch for Captured {
    fn frames(&self) -> usize {
        self.0.frames()
    }

    fn frame(&self, number: usize) -> &[u8] {
        self.0.frame(number)
    }

    fn frame_mut(&mut self, number: usize) -> &mut [u8] {
        self.0.frame_mut(number)
    }

    fn link(&self, number: usize) -> usize {
        self.0.link(number)
    }

    fn time(&self, number: usize) -> Option<Instant> {
        Some(self.1 + Duration::from_millis(number as u64))
    }
}

#[test]
fn headers_are_read_once_and_again_when_a_frame_changed() {
    const MORE_FRAGMENTS: u16 = 0x2000;
    let (mut desk, start) = (Desk::default(), Instant::now());
    let frames = [datagram(0, 53), datagram(MORE_FRAGMENTS, 53), vec![0; 20]];
    let mut captured = Captured(Lent(frames.map(|frame| (0, frame)).into()), start);
    let later = start + Duration::from_secs(1);
    let mut work = Work::new(&mut desk, &mut captured, later);
    let toeplitz = Toeplitz::new(&Key::VERIFICATION);
    work.read();
    for place in 0..2 {
        let input = work.dissection(place).unwrap().rss_input(HashTypes::ALL);
        let hash = input.unwrap().hash(&toeplitz);
        work.set_hash(place, hash);
    }
    assert!(work.kinds().has(Kinds::FRAGMENT) && !work.kinds().has(Kinds::TCP | Kinds::TUNNEL));
    assert_eq!(work.dissection(0).unwrap().ports().unwrap().destination, 53);
    assert!(matches!(work.dissection(2), Err(Refusal::NotIp { .. })));
    let known = |work: &Work<'_, Captured>, place| {
        let time = work.time(place).duration_since(start).as_millis();
        (work.hash(place).is_some(), work.depth(place), time)
    };
    let all = |work: &Work<'_, Captured>| {
        (0..work.len())
            .map(|place| known(work, place))
            .collect::<Vec<_>>()
    };
    let lent = [(true, 0, 0), (true, 0, 1), (false, 0, 2)];
    assert_eq!(all(&work), lent);

    // The first begins with VXLAN's port now, the second is put behind it once more, and the end gets one without a link's time.
    work.came_out(0, 1);
    work.replace(0, 42, |_, bytes| bytes.copy_from_slice(&datagram(0, 4789)));
    work.insert(0, 42, |view, bytes| bytes.copy_from_slice(view.frame(1)));
    work.push(0, 42, |bytes| bytes.copy_from_slice(&datagram(0, 80)));
    work.settle();
    let changed = [(false, 1, 0), (false, 1, 0), lent[1], lent[2], (false, 0, 1000)];
    assert_eq!(all(&work), changed);
    let unread = |work: &Work<'_, Captured>| {
        let unread = (0..work.len()).filter(|place| work.is_unread(*place));
        unread.collect::<Vec<_>>()
    };
    assert_eq!(unread(&work), [0, 1, 4]);
    work.read();
    assert_eq!(unread(&work), [0; 0]);
    assert!(work.kinds().has(Kinds::TUNNEL));
    assert_eq!(work.dissection(0).unwrap().ports().unwrap().destination, 4789);
    assert_eq!(work.dissection(4).unwrap().ports().unwrap().destination, 80);
}
