//! Reassembles the pieces of information about a frame.

use super::ReceivedFrame;
use std::collections::{HashMap, VecDeque};

/// The information that one socket provides about every frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Piece {
    /// Its bytes.
    Frame,
    /// Five bits of its hash, starting with this one.
    Hash(u32),
    /// Five bits of its queue's number, starting with this one. The kernel counts queues from one; zero means none.
    Queue(u32),
    /// Five bits of the number of the CPU that the kernel received it on, starting with this one.
    Cpu(u32),
    /// The bucket that this steering program returns for it, below 32.
    Bucket(usize),
}

impl Piece {
    const BITS: u32 = 5;

    /// The bits of one piece. The maximum, 31 plus one, is a length that the shortest frame has.
    pub(super) const MASK: u32 = (1 << Piece::BITS) - 1;

    /// Bits of the numbers of queues and CPUs that are read.
    const NUMBER_BITS: u32 = 10;

    /// The steering programs whose pieces, with those of the device, have one bit each in [`Waiting::came`].
    pub(super) const MOST_PROGRAMS: usize =
        (u32::BITS - 1 - u32::BITS.div_ceil(Piece::BITS) - 2 * Piece::NUMBER_BITS.div_ceil(Piece::BITS))
            as usize;

    /// With this many steering programs.
    pub(super) fn all(programs: usize) -> impl Iterator<Item = Piece> {
        let parts = |bits: u32| (0..bits).step_by(Piece::BITS as usize);
        let hash = parts(u32::BITS).map(Piece::Hash);
        let queue = parts(Piece::NUMBER_BITS).map(Piece::Queue);
        let cpu = parts(Piece::NUMBER_BITS).map(Piece::Cpu);
        let device = [Piece::Frame].into_iter().chain(hash).chain(queue).chain(cpu);
        device.chain((0..programs).map(Piece::Bucket))
    }
}

/// Maximum number of frames that wait for pieces: somewhat more than fit the sockets' buffers.
const MOST_WAITING: usize = 1 << 16;

/// Frames are identified by their timestamp in nanoseconds, or by a hash of their head.
type Mark = u64;

/// Incomplete frames.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Number of steering programs.
    programs: usize,
    pub(super) waiting: HashMap<Mark, Waiting>,
    /// In the order in which their first pieces arrived.
    order: VecDeque<Mark>,
    pub(super) incomplete: u64,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    bytes: Option<Vec<u8>>,
    hash: u32,
    queue: u32,
    cpu: u32,
    buckets: Vec<u16>,
    /// One bit per piece that arrived, in the order of [`Piece::all`].
    came: u32,
    /// A piece arrived twice: two frames have the same mark.
    twice: bool,
}

impl Pieces {
    pub(super) fn new(programs: usize) -> Pieces {
        Pieces {
            programs,
            ..Pieces::default()
        }
    }

    /// Adds a piece of the frame with this mark, with its value and its bytes; returns the frame once it is complete.
    pub(super) fn add(
        &mut self,
        piece: Piece,
        mark: Mark,
        value: u32,
        bytes: &[u8],
    ) -> Option<ReceivedFrame> {
        if !self.waiting.contains_key(&mark) {
            self.make_room();
            self.order.push_back(mark);
        }
        let waiting = self.waiting.entry(mark).or_default();
        waiting.buckets.resize(self.programs, 0);
        let mut all = Piece::all(self.programs);
        let place = all.position(|other| other == piece).unwrap_or(0);
        waiting.twice |= waiting.came >> place & 1 == 1;
        waiting.came |= 1 << place;
        let value = value & Piece::MASK;
        match piece {
            Piece::Frame => waiting.bytes = Some(bytes.to_vec()),
            Piece::Hash(shift) => waiting.hash |= value << shift,
            Piece::Queue(shift) => waiting.queue |= value << shift,
            Piece::Cpu(shift) => waiting.cpu |= value << shift,
            Piece::Bucket(program) => waiting.buckets[program] = value as u16,
        }
        if waiting.twice || waiting.came.count_ones() < Piece::all(self.programs).count() as u32 {
            return None;
        }
        let whole = self.waiting.remove(&mark)?;
        let queue = whole.queue.checked_sub(1);
        let frame = whole.bytes.map(|bytes| ReceivedFrame {
            bytes,
            hash: whole.hash,
            queue: queue.and_then(|queue| u16::try_from(queue).ok()),
            cpu: whole.cpu,
            buckets: whole.buckets,
        });
        self.incomplete += u64::from(frame.is_none());
        frame
    }

    fn make_room(&mut self) {
        // Completed frames are still in `order`.
        while self.order.len() >= MOST_WAITING {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            self.incomplete += u64::from(self.waiting.remove(&oldest).is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of a frame with these values, as the sockets deliver them. Two programs return buckets 3 and 31.
    fn values(hash: u32, queue: u32, cpu: u32) -> Vec<(Piece, u32)> {
        let value = |piece| match piece {
            Piece::Frame => 0,
            Piece::Hash(shift) => hash >> shift & Piece::MASK,
            Piece::Queue(shift) => queue >> shift & Piece::MASK,
            Piece::Cpu(shift) => cpu >> shift & Piece::MASK,
            Piece::Bucket(program) => [3, 31][program],
        };
        Piece::all(2).map(|piece| (piece, value(piece))).collect()
    }

    #[test]
    fn frames_are_complete_once_all_pieces_came_in_any_order() {
        let frame = [7; 60];
        for (hash, queue, cpu) in [
            (0, 0, 0),
            (u32::MAX, 1, 1023),
            (0x51cc_c178, 1023, 1),
            (1 << 31, 33, 32),
        ] {
            let mut pieces = Pieces::new(2);
            let mut parts = values(hash, queue, cpu);
            parts.rotate_left(3);
            let (last, others) = parts.split_last().unwrap();
            for (piece, value) in others {
                assert_eq!(pieces.add(*piece, 5, *value, &frame), None);
            }
            let whole = pieces.add(last.0, 5, last.1, &frame).unwrap();
            assert_eq!(
                (whole.hash, whole.queue, whole.cpu),
                (hash, queue.checked_sub(1).map(|queue| queue as u16), cpu)
            );
            assert_eq!((whole.bytes.as_slice(), whole.buckets), (&frame[..], vec![3, 31]));
            assert!(pieces.waiting.is_empty());
        }
    }

    #[test]
    fn the_most_programs_have_a_bit_each() {
        assert_eq!(Piece::all(Piece::MOST_PROGRAMS).count(), u32::BITS as usize);
    }

    #[test]
    fn two_frames_of_one_mark_are_not_mixed() {
        let mut pieces = Pieces::new(2);
        for _ in 0..2 {
            for (piece, value) in values(3, 1, 0).into_iter().take(5) {
                assert_eq!(pieces.add(piece, 5, value, &[0; 60]), None);
            }
        }
        for (piece, value) in values(3, 1, 0).into_iter().skip(5) {
            assert_eq!(pieces.add(piece, 5, value, &[0; 60]), None);
        }
    }

    #[test]
    fn frames_that_stay_incomplete_are_counted_and_forgotten() {
        let mut pieces = Pieces::default();
        for moment in 0..MOST_WAITING as u64 + 10 {
            pieces.add(Piece::Frame, moment, 0, &[0; 60]);
        }
        assert_eq!((pieces.incomplete, pieces.waiting.len()), (10, MOST_WAITING));
    }
}
