//! Queues frames without observed hash or queue until they fill a batch: hashing a batch takes a fraction of the time
//! of hashing its frames one by one.

use super::order::Step;
use crate::rss_input::RssInput;
use corelane_rss::Toeplitz;

/// Inputs hashed at once: wide instructions process sixteen or more at a time.
const BATCH: usize = 64;

/// Callback for a batch: receives the hash of every frame and, for each tracked frame in order, its index and step.
pub(super) trait Take: FnMut(&[u32], &[(u32, Step)]) {}

impl<F: FnMut(&[u32], &[(u32, Step)])> Take for F {}

/// Queued inputs, by length.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    v4: Batch<8>,
    v4_ports: Batch<12>,
    v6: Batch<32>,
    v6_ports: Batch<36>,
}

impl Pending {
    /// Queues an input with the step of its frame. When the batch is full, passes it to `take`.
    #[inline(always)]
    pub fn push(&mut self, input: &RssInput, step: Step, toeplitz: &Toeplitz, take: impl Take) {
        let bytes = input.as_bytes();
        if let Ok(input) = bytes.try_into() {
            self.v4_ports.push(input, step, toeplitz, take);
        } else if let Ok(input) = bytes.try_into() {
            self.v6_ports.push(input, step, toeplitz, take);
        } else if let Ok(input) = bytes.try_into() {
            self.v4.push(input, step, toeplitz, take);
        } else if let Ok(input) = bytes.try_into() {
            self.v6.push(input, step, toeplitz, take);
        }
    }

    /// Whether the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.v4.count + self.v4_ports.count + self.v6.count + self.v6_ports.count == 0
    }

    /// Passes the queued inputs to `take` and keeps them queued.
    pub fn each(&self, toeplitz: &Toeplitz, mut take: impl Take) {
        self.v4.hashed(toeplitz, &mut take);
        self.v4_ports.hashed(toeplitz, &mut take);
        self.v6.hashed(toeplitz, &mut take);
        self.v6_ports.hashed(toeplitz, &mut take);
    }
}

/// Inputs of one length.
#[derive(Clone, Debug)]
struct Batch<const N: usize> {
    /// The first `count` are in use; below [`BATCH`].
    inputs: [[u8; N]; BATCH],
    count: usize,
    /// The first `followed` are in use; at most `count`.
    steps: [(u32, Step); BATCH],
    followed: usize,
}

impl<const N: usize> Default for Batch<N> {
    fn default() -> Batch<N> {
        Batch {
            inputs: [[0; N]; BATCH],
            count: 0,
            steps: [(0, Step::default()); BATCH],
            followed: 0,
        }
    }
}

impl<const N: usize> Batch<N> {
    #[inline(always)]
    fn push(&mut self, input: &[u8; N], step: Step, toeplitz: &Toeplitz, take: impl Take) {
        if !step.is_none() {
            self.steps[self.followed] = (self.count as u32, step);
            self.followed += 1;
        }
        self.inputs[self.count] = *input;
        self.count += 1;
        if self.count == BATCH {
            self.hashed(toeplitz, take);
            (self.count, self.followed) = (0, 0);
        }
    }

    #[inline(never)]
    fn hashed(&self, toeplitz: &Toeplitz, mut take: impl Take) {
        let mut hashes = [0; BATCH];
        let hashes = &mut hashes[..self.count];
        toeplitz.hash_inputs(&self.inputs[..self.count], hashes);
        take(hashes, &self.steps[..self.followed]);
    }
}
