//! Tables that are compared, and the limit of reading them.

use corelane_host::HostError;
use corelane_host::counters::ThreadClock;
use corelane_measure::counters::Counters;
use corelane_table::limit::RandomLines;
use corelane_table::{ExactMap, MemoryError, Placement, Prefetch, Seed, Value};
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// The exact map of these addresses.
///
/// # Errors
/// If there is no memory for it.
pub fn exact(entries: &[Ipv4Addr], seed: u64) -> Result<ExactMap<Ipv4Addr>, MemoryError> {
    let mut map = ExactMap::with_capacity(entries.len(), Seed(seed), Placement::default())?;
    let members: Vec<_> = entries.iter().map(|entry| (*entry, Value::MEMBER)).collect();
    map.insert_all(&members)?;
    Ok(map)
}

/// How [`lines_per_s`] reads.
#[derive(Debug, Clone, Copy)]
pub enum Reading {
    /// Batches of this many lines, each prefetched before it is read.
    Batches(usize),
    /// Line by line, with this prefetching.
    Rolling(Prefetch),
}

/// Lines read at once.
const LINES_AT_ONCE: usize = 1 << 16;

/// Reads the lines of these keys in turn for `duration`; returns how many per second of the time in which the thread
/// had its CPU.
///
/// # Errors
/// If the times of the thread cannot be read.
pub fn lines_per_s(
    lines: &RandomLines,
    keys: &[Ipv4Addr],
    reading: Reading,
    duration: Duration,
) -> Result<f64, HostError> {
    let clock = ThreadClock::of_this_thread();
    let (mut read, mut begun, mut before) = (0, Instant::now(), clock.read()?);
    for (index, keys) in keys.chunks(LINES_AT_ONCE).cycle().enumerate() {
        if index == 1 {
            // The first piece fetched page tables.
            (read, begun, before) = (0, Instant::now(), clock.read()?);
        }
        black_box(match reading {
            Reading::Batches(batch) => lines.read_in_batches(keys, batch),
            Reading::Rolling(prefetch) => lines.read(keys, prefetch),
        });
        read += keys.len();
        if index > 0 && begun.elapsed() >= duration {
            break;
        }
    }
    let waited = Duration::from_nanos(clock.read()?.since(&before).waited_ns);
    Ok(read as f64 / begun.elapsed().saturating_sub(waited).as_secs_f64())
}
