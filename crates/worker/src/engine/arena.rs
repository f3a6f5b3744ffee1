//! The send buffer memory: one mapping of 64 KiB blocks.
//!
//! A payload lies within one block, and the payloads of one run are contiguous, so that a run of datagrams is one piece
//! of memory. A block is free again when all of it was sent; the block freed last is used first, because it is still in
//! the cache. A blocked peer therefore occupies only the blocks of its datagrams, not the whole arena.

use crate::system::memory::Pages;
use std::io;

/// Bytes of a block: the largest UDP datagram (65,507 bytes over IPv4, 65,527 over IPv6) fits.
pub(crate) const BLOCK_BYTES: usize = 65_536;

/// The alignment of a new run: a cache line.
const ALIGNMENT: usize = 64;

#[derive(Debug)]
pub(crate) struct Arena {
    memory: Pages,
    /// The number of unsent runs per block.
    live: Vec<u32>,
    free: Vec<u32>,
    current: u32,
    /// Bytes used in the current block.
    filled: usize,
}

impl Arena {
    /// An arena of `bytes`, rounded up to whole blocks; at least one block.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let blocks = bytes.div_ceil(BLOCK_BYTES).max(1);
        let count = u32::from(u16::try_from(blocks).map_err(|_| {
            let text = format!("arena_bytes is {bytes}: lower it below 4 GiB");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?);
        Ok(Self {
            memory: Pages::new(blocks * BLOCK_BYTES)?,
            live: vec![0; blocks],
            free: (1..count).rev().collect(),
            current: 0,
            filled: 0,
        })
    }

    pub(crate) fn memory(&self) -> &Pages {
        &self.memory
    }

    pub(crate) fn bytes_mut(&mut self, start: usize, length: usize) -> &mut [u8] {
        self.memory.bytes_mut(start..start + length)
    }

    /// Reserves a new run of `length` bytes, at most a block; returns its offset. None if the arena is full.
    pub(crate) fn reserve(&mut self, length: usize) -> Option<usize> {
        debug_assert!(length <= BLOCK_BYTES);
        let aligned = self.filled.next_multiple_of(ALIGNMENT);
        // An empty payload uses a cache line too, so that the arena bounds the number of queued datagrams.
        let length = length.max(1);
        let within = if aligned + length <= BLOCK_BYTES {
            aligned
        } else {
            self.current = self.free.pop()?;
            0
        };
        self.filled = within + length;
        self.live[self.current as usize] += 1;
        Some(self.current as usize * BLOCK_BYTES + within)
    }

    /// Extends the run that ends at `end` by `length` bytes, if nothing follows it and the block has room.
    pub(crate) fn extend(&mut self, end: usize, length: usize) -> bool {
        // If the current block is empty, the end of a full block before it would equal the current position.
        let fits = self.filled > 0
            && end == self.current as usize * BLOCK_BYTES + self.filled
            && self.filled + length <= BLOCK_BYTES;
        if fits {
            self.filled += length;
        }
        fits
    }

    /// Records that the run at `start` was split into `runs` runs.
    pub(crate) fn split(&mut self, start: usize, runs: u32) {
        self.live[start / BLOCK_BYTES] += runs - 1;
    }

    /// Releases a run.
    pub(crate) fn release(&mut self, start: usize) {
        let block = start / BLOCK_BYTES;
        self.live[block] -= 1;
        if self.live[block] > 0 {
            return;
        }
        if block == self.current as usize {
            self.filled = 0;
        } else {
            self.free.push(block as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ops::Range;

    #[test]
    fn a_full_arena_has_room_again_once_a_block_is_released() {
        let mut arena = Arena::new(2 * BLOCK_BYTES).unwrap();
        let first = arena.reserve(BLOCK_BYTES).unwrap();
        let second = arena.reserve(BLOCK_BYTES).unwrap();
        assert_eq!(arena.reserve(1), None);
        arena.release(first);
        assert_eq!(arena.reserve(1), Some(first));
        assert_eq!(arena.reserve(BLOCK_BYTES), None);
        arena.release(second);
        assert_eq!(arena.reserve(BLOCK_BYTES), Some(second));
    }

    #[test]
    fn empty_payloads_fill_the_arena_too() {
        let mut arena = Arena::new(1).unwrap();
        let mut taken = 0;
        while arena.reserve(0).is_some() {
            taken += 1;
        }
        assert_eq!(taken, BLOCK_BYTES / ALIGNMENT);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Reserve(usize),
        Extend(usize),
        Release(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..=BLOCK_BYTES).prop_map(Step::Reserve),
            (0..3_000usize).prop_map(Step::Reserve),
            (1..3_000usize).prop_map(Step::Extend),
            any::<usize>().prop_map(Step::Release),
        ]
    }

    proptest! {
        #[test]
        fn runs_never_overlap_nor_cross_a_block(steps in prop::collection::vec(step(), 1..200)) {
            let mut arena = Arena::new(4 * BLOCK_BYTES).unwrap();
            let mut runs: Vec<Range<usize>> = Vec::new();
            for step in steps {
                match step {
                    Step::Reserve(length) => {
                        if let Some(start) = arena.reserve(length) {
                            runs.push(start..start + length);
                        }
                    }
                    Step::Extend(length) => {
                        if let Some(run) = runs.last_mut() && run.start < run.end && arena.extend(run.end, length) {
                            run.end += length;
                        }
                    }
                    Step::Release(which) => {
                        if !runs.is_empty() {
                            let run = runs.remove(which % runs.len());
                            arena.release(run.start);
                        }
                    }
                }
                for (index, run) in runs.iter().enumerate() {
                    prop_assert!(run.start == run.end || run.start / BLOCK_BYTES == (run.end - 1) / BLOCK_BYTES);
                    for other in &runs[index + 1..] {
                        prop_assert!(run.end <= other.start || other.end <= run.start, "{run:?} {other:?}");
                    }
                }
            }
        }
    }
}
