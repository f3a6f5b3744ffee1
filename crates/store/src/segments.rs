//! The segments of the region: what each is used for, and the queues that they are in.

use std::ops::{Index, IndexMut};

/// No segment.
pub(crate) const NONE: u32 = u32::MAX;

/// A queue of segments with items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// New items.
    Small,
    /// Items that were read while they were in the small queue.
    Main,
    /// Segments of which less than half is alive.
    Sparse,
}

/// What a segment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Free,
    Index,
    /// Items are appended to it.
    Open,
    /// Full, and in a queue.
    Queued(Queue),
    /// Its items are being copied or evicted.
    Emptying,
    /// Has a later part of a large value.
    Part,
}

/// A segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) used_for: Use,
    /// Whether its items were read in the small queue: where it is, or was before it became sparse.
    pub(crate) home: Queue,
    /// Bytes that were appended.
    pub(crate) used: u32,
    /// Bytes of live and of reserved items.
    pub(crate) live: u32,
    /// The epoch in which it was opened: earlier ones are flushed.
    pub(crate) epoch: u32,
    /// Changes whenever its reservations end.
    pub(crate) generation: u32,
    /// Reservations in it that have not ended.
    pub(crate) reservations: u32,
    /// A second before which no item of it expires; `u32::MAX` for never.
    pub(crate) earliest: u32,
    /// The second until which it is not looked at for expired items.
    pub(crate) rests_until: u32,
    /// The next segment of a large value.
    pub(crate) chain: u32,
    before: u32,
    after: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
    segments: usize,
}

/// All segments.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    segments: Vec<Segment>,
    shift: u32,
    free: u32,
    free_segments: usize,
    /// Segments with reservations, and those that are chained to them.
    reserved_segments: usize,
    queues: [Ends; 3],
}

impl Segments {
    /// `count` free segments of 2^`shift` bytes.
    pub(crate) fn new(count: usize, shift: u32) -> Segments {
        let free = Segment {
            used_for: Use::Free,
            home: Queue::Small,
            used: 0,
            live: 0,
            epoch: 0,
            generation: 0,
            reservations: 0,
            earliest: u32::MAX,
            rests_until: 0,
            chain: NONE,
            before: NONE,
            after: NONE,
        };
        let empty = Ends {
            first: NONE,
            last: NONE,
            segments: 0,
        };
        let mut segments = Segments {
            segments: vec![free; count],
            shift,
            free: 0,
            free_segments: count,
            reserved_segments: 0,
            queues: [empty; 3],
        };
        for (number, segment) in segments.segments.iter_mut().enumerate() {
            segment.after = if number + 1 < count {
                number as u32 + 1
            } else {
                NONE
            };
        }
        segments
    }

    /// Bytes of a segment.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        1 << self.shift
    }

    /// The segment of a location.
    #[inline(always)]
    pub(crate) fn of(&self, location: usize) -> u32 {
        (location >> self.shift) as u32
    }

    /// The first byte of a segment.
    #[inline(always)]
    pub(crate) fn start(&self, number: u32) -> usize {
        (number as usize) << self.shift
    }

    /// The byte behind a segment.
    #[inline(always)]
    pub(crate) fn end(&self, number: u32) -> usize {
        (number as usize + 1) << self.shift
    }

    /// The address of the byte of a large value behind `address - 1`: in the next segment of the chain after the last one of a
    /// segment.
    #[inline(always)]
    pub(crate) fn follow(&self, address: usize) -> usize {
        let number = self.of(address - 1);
        if address == self.end(number) {
            self.start(self[number].chain)
        } else {
            address
        }
    }

    /// Bytes from an address on to the end of its segment.
    #[inline(always)]
    pub(crate) fn room(&self, address: usize) -> usize {
        self.bytes() - (address & (self.bytes() - 1))
    }

    pub(crate) fn count(&self) -> usize {
        self.segments.len()
    }

    pub(crate) fn free(&self) -> usize {
        self.free_segments
    }

    /// Segments with reservations, and those that are chained to them.
    pub(crate) fn reserved(&self) -> usize {
        self.reserved_segments
    }

    pub(crate) fn queued(&self, queue: Queue) -> usize {
        self.queues[queue as usize].segments
    }

    /// The oldest segment of a queue.
    pub(crate) fn first(&self, queue: Queue) -> Option<u32> {
        let first = self.queues[queue as usize].first;
        (first != NONE).then_some(first)
    }

    /// Takes a free segment.
    pub(crate) fn take(&mut self, used_for: Use, home: Queue, epoch: u32) -> Option<u32> {
        let number = self.free;
        if number == NONE {
            return None;
        }
        self.free = self[number].after;
        self.free_segments -= 1;
        let generation = self[number].generation;
        self[number] = Segment {
            used_for,
            home,
            used: 0,
            live: 0,
            epoch,
            generation,
            reservations: 0,
            earliest: u32::MAX,
            rests_until: 0,
            chain: NONE,
            before: NONE,
            after: NONE,
        };
        Some(number)
    }

    /// Frees a segment, and those that are chained to it.
    pub(crate) fn release(&mut self, number: u32) {
        self.unlink(number);
        let mut next = number;
        while next != NONE {
            let free = self.free;
            let segment = &mut self[next];
            segment.used_for = Use::Free;
            segment.generation = segment.generation.wrapping_add(1);
            segment.after = free;
            self.free = next;
            self.free_segments += 1;
            next = self[next].chain;
        }
    }

    /// Moves a segment to the end of a queue.
    pub(crate) fn enqueue(&mut self, number: u32, queue: Queue) {
        self.unlink(number);
        let last = self.queues[queue as usize].last;
        let segment = &mut self[number];
        segment.used_for = Use::Queued(queue);
        segment.before = last;
        segment.after = NONE;
        if queue != Queue::Sparse {
            segment.home = queue;
        }
        match last {
            NONE => self.queues[queue as usize].first = number,
            last => self[last].after = number,
        }
        self.queues[queue as usize].last = number;
        self.queues[queue as usize].segments += 1;
    }

    /// Chains a segment to the last one of a reservation.
    pub(crate) fn chain(&mut self, last: u32, next: u32) {
        self[last].chain = next;
        self.reserved_segments += 1;
    }

    /// A reservation in a segment begins.
    #[inline]
    pub(crate) fn hold(&mut self, number: u32) {
        let reservations = &mut self[number].reservations;
        *reservations += 1;
        if *reservations == 1 {
            self.reserved_segments += self.chained(number);
        }
    }

    /// A reservation in a segment ends.
    #[inline]
    pub(crate) fn let_go(&mut self, number: u32) {
        let reservations = &mut self[number].reservations;
        *reservations -= 1;
        if *reservations == 0 {
            self.reserved_segments -= self.chained(number);
        }
    }

    /// Segments in the chain of a segment, with itself.
    pub(crate) fn chained(&self, number: u32) -> usize {
        let next = |number: &u32| Some(self[*number].chain).filter(|next| *next != NONE);
        std::iter::successors(Some(number), next).count()
    }

    /// Takes a segment out of its queue to be emptied. Reservations in it end.
    pub(crate) fn withdraw(&mut self, number: u32) {
        self.unlink(number);
        if self[number].reservations > 0 {
            self[number].reservations = 0;
            self.reserved_segments -= self.chained(number);
        }
        let segment = &mut self[number];
        segment.used_for = Use::Emptying;
        segment.generation = segment.generation.wrapping_add(1);
    }

    /// Takes a segment out of its queue, if it is in one.
    fn unlink(&mut self, number: u32) {
        let Segment {
            used_for: Use::Queued(queue),
            before,
            after,
            ..
        } = self[number]
        else {
            return;
        };
        match before {
            NONE => self.queues[queue as usize].first = after,
            before => self[before].after = after,
        }
        match after {
            NONE => self.queues[queue as usize].last = before,
            after => self[after].before = before,
        }
        self.queues[queue as usize].segments -= 1;
    }

    /// Says that the item at a location expires then (0: never).
    #[inline(always)]
    pub(crate) fn expires(&mut self, location: usize, expiry: u32) {
        let number = self.of(location);
        // 0 - 1 wraps to the latest second: never.
        let before = expiry.wrapping_sub(1);
        let segment = &mut self[number];
        if before < segment.earliest.wrapping_sub(1) {
            segment.earliest = expiry;
        }
    }
}

impl Index<u32> for Segments {
    type Output = Segment;

    #[inline(always)]
    fn index(&self, number: u32) -> &Segment {
        &self.segments[number as usize]
    }
}

impl IndexMut<u32> for Segments {
    #[inline(always)]
    fn index_mut(&mut self, number: u32) -> &mut Segment {
        &mut self.segments[number as usize]
    }
}
