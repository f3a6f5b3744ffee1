//! The upper limit of lookup rates: reads one word of a random cache line per key, and sums them.

use crate::batch::{Prefetch, blocks};
use crate::memory::{Line, MemoryError, Placement, Region, Word, prefetch};
use std::net::Ipv4Addr;

/// Memory of which one random line is read per key, and nothing else. No table that reads one line per lookup can be
/// faster on this machine, except by chance.
pub struct RandomLines {
    lines: Region<Line>,
}

impl RandomLines {
    /// This many bytes, rounded up to lines; each line is written once, so that each has memory of its own.
    ///
    /// # Errors
    /// If there is no memory, or the node does not exist.
    pub fn new(bytes: usize, placement: Placement) -> Result<RandomLines, MemoryError> {
        let lines = Region::<Line>::zeroed(bytes.div_ceil(size_of::<Line>()).max(1), placement)?;
        for (number, line) in lines.iter().enumerate() {
            line.0[0].set(number as u64 + 1);
        }
        Ok(RandomLines { lines })
    }

    /// Reads one line per key, with prefetching. Keys should be random: their highest bits choose the line.
    #[must_use]
    pub fn read(&self, keys: &[Ipv4Addr], ahead: Prefetch) -> u64 {
        for key in &keys[..ahead.distance().unwrap_or(0).min(keys.len())] {
            prefetch(self.line(*key));
        }
        blocks(keys, &[], ahead).fold(0, |sum, block| {
            let mut ahead = block.ahead.into_iter().flatten();
            let words = block.keys.iter().map(|key| {
                if let Some(ahead) = ahead.next() {
                    prefetch(self.line(*ahead));
                }
                self.line(*key).0[0].get()
            });
            words.fold(sum, u64::wrapping_add)
        })
    }

    /// Reads a line for each key, in batches of `batch` keys (at least one): all lines of a batch are prefetched, then
    /// read.
    #[must_use]
    pub fn read_in_batches(&self, keys: &[Ipv4Addr], batch: usize) -> u64 {
        keys.chunks(batch.max(1)).fold(0, |sum, batch| {
            for key in batch {
                prefetch(self.line(*key));
            }
            let words = batch.iter().map(|key| self.line(*key).0[0].get());
            words.fold(sum, u64::wrapping_add)
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.lines.bytes()
    }

    #[inline(always)]
    fn line(&self, key: Ipv4Addr) -> &Line {
        &self.lines[((u64::from(key.to_bits()) * self.lines.len() as u64) >> 32) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_reading_reads_the_same_lines() {
        let limit = RandomLines::new(1_000_000, Placement::default()).unwrap();
        let keys: Vec<_> = (0..10_000_u32)
            .map(|key| Ipv4Addr::from_bits(key.wrapping_mul(0x9e37_79b1)))
            .collect();
        let sum = limit.read(&keys, Prefetch::None);
        assert_ne!(sum, 0);
        assert_eq!(limit.read(&keys, Prefetch::Ahead(32)), sum);
        for batch in [0, 1, 32, 20_000] {
            assert_eq!(limit.read_in_batches(&keys, batch), sum);
        }
    }
}
