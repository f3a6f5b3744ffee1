//! The send queues of connections: one list of pieces per connection, over one outbox that holds all copies of a turn.
//!
//! Every pass empties the outbox: data that the kernel did not accept moves to memory owned by the connection. So a
//! peer that stops reading occupies only memory of its own connection.

use crate::engine::chains::{Chain, Chains};
use crate::system::memory::Pages;
use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

/// The location of queued bytes.
#[derive(Debug)]
pub(crate) enum Memory {
    /// In the outbox, for the rest of this pass.
    Outbox,
    /// In memory owned by the connection.
    Own(Vec<u8>),
    /// In static memory.
    Static(&'static [u8]),
    /// In shared memory.
    Shared(Arc<[u8]>),
    /// In a file.
    File(Arc<File>),
}

/// Bytes to be sent: `left` bytes from `start`.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) memory: Memory,
    pub(crate) start: u64,
    pub(crate) left: u64,
}

impl Piece {
    fn range(&self) -> Range<usize> {
        self.start as usize..(self.start + self.left) as usize
    }

    /// Whether the queue owns the bytes.
    fn is_copy(&self) -> bool {
        matches!(self.memory, Memory::Outbox | Memory::Own(_))
    }
}

/// The queue of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pieces: Chain,
    /// Bytes to be sent.
    pub(crate) bytes: u64,
    /// Of those, copies that the queue owns, modulo 2^32: a limit of them above 4 GiB is none.
    pub(crate) copied: u32,
    /// Of those, the first ones, which the kernel takes with the next submission; no more may be sent before that is
    /// settled.
    pub(crate) lent: u32,
}

impl Queue {
    pub(crate) const EMPTY: Self = Self {
        pieces: Chain::EMPTY,
        bytes: 0,
        copied: 0,
        lent: 0,
    };

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

/// Bytes whose address stays valid as long as the engine lives: in the outbox, or in static memory. Those in the outbox
/// are not overwritten between [`Outgoing::hold`] and [`Outgoing::leave`].
pub(crate) struct Stable<'a>(&'a [u8]);

impl Stable<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0
    }
}

/// The next data to be sent.
pub(crate) enum Front<'a> {
    /// The number of pieces of memory, in queue order; whether a file follows them.
    Memory(usize, bool),
    File {
        file: &'a File,
        offset: u64,
        left: u64,
    },
    Nothing,
}

/// The pieces of all connections.
#[derive(Debug)]
pub(crate) struct Outgoing {
    outbox: Pages,
    capacity: usize,
    filled: usize,
    /// The number of unsent pieces in the outbox, plus the holds on it.
    inside: u32,
    pieces: Chains<Piece>,
}

impl Outgoing {
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let capacity = bytes.clamp(65_536, u32::MAX as usize);
        Ok(Self {
            outbox: Pages::new(capacity)?,
            capacity,
            filled: 0,
            inside: 0,
            pieces: Chains::new(),
        })
    }

    pub(crate) fn memory(&self) -> &Pages {
        &self.outbox
    }

    /// Queues `length` bytes that `fill` writes. Consecutive writes of one connection become one piece. If the outbox
    /// has no room, the bytes go to memory owned by the connection.
    pub(crate) fn copy(&mut self, queue: &mut Queue, length: usize, fill: impl FnOnce(&mut [u8])) {
        if length == 0 {
            return;
        }
        let left = length as u64;
        if self.capacity - self.filled < length {
            let mut bytes = vec![0; length];
            fill(&mut bytes);
            let memory = Memory::Own(bytes);
            let start = 0;
            return self.refer(queue, Piece { memory, start, left });
        }
        let start = self.filled as u64;
        fill(self.outbox.bytes_mut(self.filled..self.filled + length));
        self.filled += length;
        if let Some(piece) = self.pieces.last_mut(&queue.pieces)
            && matches!(piece.memory, Memory::Outbox)
            && piece.start + piece.left == start
        {
            piece.left += left;
            queue.bytes += left;
            queue.copied = queue.copied.wrapping_add(left as u32);
            return;
        }
        self.inside += 1;
        let memory = Memory::Outbox;
        self.refer(queue, Piece { memory, start, left });
    }

    /// Queues a piece without copying it.
    pub(crate) fn refer(&mut self, queue: &mut Queue, piece: Piece) {
        if piece.left > 0 {
            queue.bytes += piece.left;
            let copied = if piece.is_copy() { piece.left as u32 } else { 0 };
            queue.copied = queue.copied.wrapping_add(copied);
            self.pieces.push(&mut queue.pieces, piece);
        }
    }

    /// The front of the queue: fills `slices` with the memory of the first pieces, up to a file.
    pub(crate) fn front<'a>(&'a self, queue: &Queue, slices: &mut [IoSlice<'a>]) -> Front<'a> {
        let mut count = 0;
        for piece in self.pieces.iter(&queue.pieces) {
            let memory: &'a [u8] = match &piece.memory {
                Memory::Outbox => self.outbox.bytes(piece.range()),
                Memory::Own(bytes) => &bytes[piece.range()],
                Memory::Static(bytes) => &bytes[piece.range()],
                Memory::Shared(bytes) => &bytes[piece.range()],
                Memory::File(file) if count == 0 => {
                    let (offset, left) = (piece.start, piece.left);
                    return Front::File { file, offset, left };
                }
                Memory::File(_) => return Front::Memory(count, true),
            };
            if count == slices.len() {
                return Front::Memory(count, false);
            }
            slices[count] = IoSlice::new(memory);
            count += 1;
        }
        if count == 0 {
            Front::Nothing
        } else {
            Front::Memory(count, false)
        }
    }

    /// The whole queue, if it is one piece of stable memory.
    pub(crate) fn whole(&self, queue: &Queue) -> Option<Stable<'_>> {
        let piece = self.pieces.only(&queue.pieces)?;
        match piece.memory {
            Memory::Outbox => Some(Stable(self.outbox.bytes(piece.range()))),
            Memory::Static(bytes) => Some(Stable(&bytes[piece.range()])),
            _ => None,
        }
    }

    /// Keeps the contents of the outbox until [`leave`](Self::leave); every hold needs one call.
    pub(crate) fn hold(&mut self) {
        self.inside += 1;
    }

    /// Removes `sent` bytes from the front of a queue.
    pub(crate) fn advance(&mut self, queue: &mut Queue, mut sent: u64) {
        if sent == queue.bytes {
            return self.clear(queue);
        }
        queue.bytes -= sent;
        while sent > 0 {
            let Some(piece) = self.pieces.first_mut(&queue.pieces) else {
                return;
            };
            let taken = sent.min(piece.left);
            piece.start += taken;
            piece.left -= taken;
            sent -= taken;
            let copied = if piece.is_copy() { taken as u32 } else { 0 };
            queue.copied = queue.copied.wrapping_sub(copied);
            if piece.left == 0 {
                self.drop_first(queue);
            }
        }
    }

    /// Moves a queue's pieces in the outbox to memory owned by the connection.
    pub(crate) fn keep(&mut self, queue: &Queue) {
        let (mut moved, outbox) = (0, &self.outbox);
        self.pieces.for_each_mut(&queue.pieces, |piece| {
            if matches!(piece.memory, Memory::Outbox) {
                let bytes = outbox.bytes(piece.range()).to_vec();
                (piece.memory, piece.start) = (Memory::Own(bytes), 0);
                moved += 1;
            }
        });
        (0..moved).for_each(|_| self.leave());
    }

    pub(crate) fn clear(&mut self, queue: &mut Queue) {
        while !queue.is_empty() {
            self.drop_first(queue);
        }
        *queue = Queue::EMPTY;
    }

    /// Drops what is queued behind the bytes that the kernel takes; returns the number of dropped bytes.
    pub(crate) fn cut(&mut self, queue: &mut Queue) -> u64 {
        let (bytes, lent) = (queue.bytes, queue.lent);
        let first = (lent > 0).then(|| self.pieces.pop(&mut queue.pieces));
        self.clear(queue);
        if let Some(piece) = first.flatten() {
            let left = u64::from(lent);
            self.refer(queue, Piece { left, ..piece });
            queue.lent = lent;
        }
        bytes - queue.bytes
    }

    /// Drops what is queued on a connection that has ended, and keeps the number of these bytes, and of those lent.
    pub(crate) fn abandon(&mut self, queue: &mut Queue) {
        let Queue { bytes, lent, .. } = *queue;
        self.clear(queue);
        (queue.bytes, queue.lent) = (bytes, lent);
    }

    fn drop_first(&mut self, queue: &mut Queue) {
        let piece = self.pieces.pop(&mut queue.pieces);
        if piece.is_some_and(|piece| matches!(piece.memory, Memory::Outbox)) {
            self.leave();
        }
    }

    /// Removes a piece or hold from the outbox; after the last one, all of its memory is free again.
    pub(crate) fn leave(&mut self) {
        self.inside -= 1;
        if self.inside == 0 {
            self.filled = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn front(outgoing: &Outgoing, queue: &Queue) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 4];
        match outgoing.front(queue, &mut slices) {
            Front::Memory(count, _) => slices[..count].iter().flat_map(|slice| slice.to_vec()).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn writes_that_follow_each_other_are_one_piece() {
        let mut outgoing = Outgoing::new(0).unwrap();
        let (mut one, mut other) = (Queue::EMPTY, Queue::EMPTY);
        for byte in 0..3 {
            outgoing.copy(&mut one, 2, |room| room.fill(byte));
        }
        assert_eq!(outgoing.pieces.len(), 1);
        outgoing.copy(&mut other, 1, |room| room.fill(9));
        outgoing.copy(&mut one, 1, |room| room.fill(7));
        assert_eq!(outgoing.pieces.len(), 3);
        assert_eq!(front(&outgoing, &one), [0, 0, 1, 1, 2, 2, 7]);
        outgoing.clear(&mut one);
        outgoing.clear(&mut other);
        assert_eq!((outgoing.filled, outgoing.inside), (0, 0));
    }

    #[test]
    fn what_the_outbox_has_no_room_for_goes_to_memory_of_its_own() {
        let mut outgoing = Outgoing::new(0).unwrap();
        let mut queue = Queue::EMPTY;
        outgoing.copy(&mut queue, 65_536, |room| room.fill(1));
        outgoing.copy(&mut queue, 2, |room| room.fill(2));
        assert_eq!((queue.bytes, queue.copied, outgoing.inside), (65_538, 65_538, 1));
        outgoing.advance(&mut queue, 65_536);
        assert_eq!((outgoing.filled, outgoing.inside), (0, 0));
        assert_eq!(front(&outgoing, &queue), [2, 2]);
    }

    proptest! {
        #[test]
        fn bytes_leave_in_the_order_in_which_they_were_queued(
            steps in prop::collection::vec((0..5u8, 0..3_000usize), 1..80)
        ) {
            let mut outgoing = Outgoing::new(0).unwrap();
            let mut queue = Queue::EMPTY;
            let mut expected: std::collections::VecDeque<u8> = std::collections::VecDeque::new();
            static PATTERN: [u8; 3_000] = [0xa5; 3_000];
            for (number, (kind, amount)) in steps.into_iter().enumerate() {
                let bytes = vec![number as u8; amount];
                match kind {
                    0 => {
                        outgoing.copy(&mut queue, amount, |room| room.copy_from_slice(&bytes));
                        expected.extend(&bytes);
                    }
                    1 => {
                        let (memory, left) = (Memory::Static(&PATTERN), amount as u64);
                        outgoing.refer(&mut queue, Piece { memory, start: 0, left });
                        expected.extend(&PATTERN[..amount]);
                    }
                    2 => {
                        let range = amount / 3..amount;
                        expected.extend(&bytes[range.clone()]);
                        let (start, left) = (range.start as u64, range.len() as u64);
                        outgoing.refer(&mut queue, Piece { memory: Memory::Shared(bytes.into()), start, left });
                    }
                    3 => outgoing.keep(&queue),
                    _ => {
                        let seen = front(&outgoing, &queue);
                        let sent = amount.min(seen.len());
                        let next: Vec<u8> = expected.drain(..sent).collect();
                        prop_assert_eq!(&seen[..sent], next);
                        outgoing.advance(&mut queue, sent as u64);
                    }
                }
                prop_assert_eq!(queue.bytes, expected.len() as u64);
                prop_assert_eq!(queue.is_empty(), expected.is_empty());
            }
        }
    }
}
