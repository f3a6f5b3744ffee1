//! From samples of the tracepoints to records of waiting.

use std::collections::HashMap;

use perf_event::data::Sample;

use super::pairs::{Begun, Place, Record, Sums, Waiter, Waits};
use crate::ObserveError;
use crate::perf::Sink;
use crate::perf::tracepoint::{Field, Tracepoint};

/// `TRACE_FLAG_SOFTIRQ` of the kernel's `linux/trace_events.h`: the record was made while a softirq was served.
const SERVING_SOFTIRQ: u64 = 0x10;

/// Collects samples; equal call chains are stored once.
#[derive(Debug)]
pub(super) struct LockSink {
    begin_lock: Field,
    begin_flags: Field,
    begin_context: Field,
    end_lock: Field,
    processes: Vec<u32>,
    chains: HashMap<Box<[u64]>, usize>,
    waits: Waits,
}

impl LockSink {
    /// Finds the fields of `lock:contention_begin` and `lock:contention_end`. Waits of softirqs and of `processes` are
    /// watched; if there are no processes, all waits.
    pub(super) fn new(begin: &Tracepoint, end: &Tracepoint, processes: &[u32]) -> Result<Self, ObserveError> {
        Ok(Self {
            begin_lock: begin.field("lock_addr")?,
            begin_flags: begin.field("flags")?,
            begin_context: begin.field("common_flags")?,
            end_lock: end.field("lock_addr")?,
            processes: processes.to_vec(),
            chains: HashMap::new(),
            waits: Waits::default(),
        })
    }

    /// All waits, and the call chains by their numbers.
    pub(super) fn close(self) -> (Sums, Vec<Box<[u64]>>) {
        let mut chains = vec![Box::default(); self.chains.len()];
        for (chain, number) in self.chains {
            chains[number] = chain;
        }
        (self.waits.close(), chains)
    }

    fn is_watched(&self, process: Option<u32>) -> bool {
        self.processes.is_empty() || process.is_some_and(|process| self.processes.contains(&process))
    }

    fn chain(&mut self, addresses: &[u64]) -> usize {
        if let Some(number) = self.chains.get(addresses) {
            return *number;
        }
        let number = self.chains.len();
        self.chains.insert(addresses.into(), number);
        number
    }
}

impl Sink for LockSink {
    fn sample(&mut self, source: usize, sample: &Sample<'_>) {
        let time_ns = sample.time().unwrap_or(0);
        let waiter = match (sample.tid(), sample.cpu()) {
            (Some(thread @ 1..), _) => Waiter::Thread(thread),
            (_, cpu) => Waiter::Idle(cpu.unwrap_or(0)),
        };
        let raw = sample.raw().unwrap_or_default();
        // Each CPU has two rings: that of begins, then that of ends.
        let (lock, begun) = if source.is_multiple_of(2) {
            let in_softirq = self.begin_context.value(raw) & SERVING_SOFTIRQ != 0;
            let watched = in_softirq || self.is_watched(sample.pid());
            let place = watched.then(|| Place {
                chain: self.chain(sample.callchain().unwrap_or_default()),
                flags: self.begin_flags.value(raw),
            });
            (self.begin_lock, Some(Begun { place, in_softirq }))
        } else {
            (self.end_lock, None)
        };
        self.waits.take(Record {
            time_ns,
            waiter,
            lock: lock.value(raw),
            begun,
        });
    }

    fn batch_ends(&mut self) {
        self.waits.batch_ends();
    }
}
