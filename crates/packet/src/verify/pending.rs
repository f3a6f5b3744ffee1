//! Frames of which no hash and no queue was observed, put aside until there are enough of them to hash at once: a batch
//! takes a fraction of the time of its frames one by one. Inputs enter, and the steps of flows that are followed; hashes
//! leave, and the steps with theirs.

use super::order::Step;
use crate::rss_input::RssInput;
use corelane_rss::Toeplitz;

/// Inputs hashed at once: wide instructions take sixteen or more at a time.
const BATCH: usize = 64;

/// What becomes of a batch: it gets the hash of every frame; and of the frames that are followed, in order, which it is and
/// its step.
pub(super) trait Take: FnMut(&[u32], &[(u32, Step)]) {}

impl<F: FnMut(&[u32], &[(u32, Step)])> Take for F {}

/// Inputs put aside, by their length.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    v4: Batch<8>,
    v4_ports: Batch<12>,
    v6: Batch<32>,
    v6_ports: Batch<36>,
}

impl Default for Pending {
    fn default() -> Pending {
        Pending {
            v4: Batch::new(),
            v4_ports: Batch::new(),
            v6: Batch::new(),
            v6_ports: Batch::new(),
        }
    }
}

impl Pending {
    /// Puts an input aside, and the step that its frame is in its flow; when that makes a batch, `take` gets it.
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

    /// Is nothing put aside?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.v4.count + self.v4_ports.count + self.v6.count + self.v6_ports.count == 0
    }

    /// Gives `take` what is still put aside, which stays so.
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
    /// The first `count` are taken; below [`BATCH`].
    inputs: [[u8; N]; BATCH],
    count: usize,
    /// The first `followed` are taken; at most `count`.
    steps: [(u32, Step); BATCH],
    followed: usize,
}

impl<const N: usize> Batch<N> {
    fn new() -> Batch<N> {
        Batch {
            inputs: [[0; N]; BATCH],
            count: 0,
            steps: [(0, Step::default()); BATCH],
            followed: 0,
        }
    }

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
