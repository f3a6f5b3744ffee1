//! Verifies that frames arrived on the queue that their hash selects. The input is frames with the hash and queue that
//! a device reported, or a log of hashes and queues. The [`Report`] gives the frames of each bucket, the misplaced
//! frames, and the likely causes.
//!
//! The rule is the device's configuration: key, enabled hash types and indirection table. Recomputing the hash of every
//! frame in software once revealed a network interface that delivered to the wrong ring ("UDP RSS update: ixgbe(4)
//! turned out to have issues.."). Memory use is bounded for any input.

mod cause;
mod dialect;
mod ledger;
pub mod log;
mod misplaced;
mod order;
mod pending;
mod report;
mod suspects;

pub use cause::Cause;
pub use dialect::Dialect;
pub use order::Reordering;
pub use report::{BucketReport, CauseCount, Misplacement, Report};

use crate::dissection::Dissection;
use crate::refusal::Refusal;
use crate::rss_input::{HashTypes, RssInput};
use corelane_rss::{Bucket, IndirectionTable, InputError, Key, Steering, Toeplitz, Transform};
use ledger::Ledger;
use misplaced::{Misplaced, Row};
use order::{Order, Step};
use pending::{Pending, Take};
use serde::Serialize;
use std::fmt;
use suspects::{Dialects, Examiner, Suspects};

/// A receive ring of a device, counted from zero. Bucket `n` of the indirection table is served by queue `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Queue(pub u16);

impl Queue {
    /// Whether this is the queue of `bucket`.
    #[must_use]
    #[inline]
    pub fn serves(self, bucket: Bucket) -> bool {
        usize::from(self.0) == bucket.index()
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// RSS configuration of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The hash key.
    pub key: Key,
    /// The enabled hash types.
    pub hash_types: HashTypes,
    /// How the ends of a flow are mixed before hashing.
    pub transform: Transform,
    /// The indirection table; the bucket number is the queue number.
    pub table: IndirectionTable,
}

impl Rule {
    /// The default configuration of a device with this many queues: the key of the verification suite, 128 entries that
    /// name the queues in turn (82599 datasheet, 7.1.2.8), hashed addresses, and ports for TCP. Used for a log without
    /// information about its device.
    pub fn of_queues(queues: u16) -> Result<Rule, InputError> {
        const ENTRIES: usize = 128;
        Ok(Rule {
            key: Key::VERIFICATION,
            hash_types: HashTypes::DRIVER_DEFAULT,
            transform: Transform::Plain,
            table: IndirectionTable::round_robin(ENTRIES, queues.into())?,
        })
    }
}

impl From<&Steering> for Rule {
    fn from(steering: &Steering) -> Rule {
        Rule {
            key: steering.key.clone(),
            hash_types: HashTypes::of_fields(steering.hash_fields),
            transform: Transform::Plain,
            table: steering.table.clone(),
        }
    }
}

/// Observations about one frame besides its bytes. Missing values are not verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The hash that the device reported.
    pub hash: Option<u32>,
    /// The queue on which the frame arrived.
    pub queue: Option<Queue>,
    /// A sequence number that the sender increments per frame of the flow, for example from the payload. It is used to
    /// detect late frames; TCP has its own.
    pub sequence: Option<u32>,
}

/// Compares frames with a rule.
#[derive(Debug)]
pub struct Verifier {
    rule: Rule,
    toeplitz: Toeplitz,
    dialects: Dialects,
    ledger: Ledger,
    misplaced: Misplaced,
    order: Order,
    pending: Pending,
    frames: u64,
    refused: u64,
    not_hashed: u64,
    cut_short: u64,
}

impl Verifier {
    /// A new verifier of this rule.
    #[must_use]
    pub fn new(rule: &Rule) -> Verifier {
        Verifier {
            rule: rule.clone(),
            toeplitz: Toeplitz::new(&rule.key),
            dialects: Dialect::ALL.map(|dialect| (dialect, dialect.toeplitz(&rule.key))),
            ledger: Ledger::new(rule.table.size()),
            misplaced: Misplaced::default(),
            order: Order::default(),
            pending: Pending::default(),
            frames: 0,
            refused: 0,
            not_hashed: 0,
            cut_short: 0,
        }
    }

    /// Verifies an Ethernet frame. A frame without IP, to which no enabled hash type applies, or that was captured without
    /// the bytes that are hashed, is only counted.
    pub fn frame(&mut self, frame: &[u8], observed: Observed) {
        self.frames += 1;
        match Dissection::of_plain_v4(frame) {
            // Separate, so that the compiler can specialise the code for such frames.
            Some(dissection) if self.rule.transform == Transform::Plain => {
                self.dissected(dissection, Transform::Plain, observed);
            }
            _ => self.any_frame(frame, observed),
        }
    }

    #[inline(never)]
    fn any_frame(&mut self, frame: &[u8], observed: Observed) {
        match Dissection::of_hashed(frame, self.rule.hash_types) {
            Ok(dissection) => self.dissected(dissection, self.rule.transform, observed),
            Err(Refusal::Truncated { .. }) => self.cut_short += 1,
            Err(_) => self.refused += 1,
        }
    }

    #[inline(always)]
    fn dissected(&mut self, dissection: Dissection, transform: Transform, observed: Observed) {
        let Some(mut input) = dissection.rss_input(self.rule.hash_types) else {
            self.not_hashed += 1;
            return;
        };
        if transform != Transform::Plain {
            input = input.mixed(transform);
        }
        let step = Step::of(&dissection, observed.sequence);
        if observed.hash.is_none() && observed.queue.is_none() && !dissection.is_part() {
            let take = taking(&self.rule.table, &mut self.ledger, &mut self.order);
            self.pending.push(&input, step, &self.toeplitz, take);
            return;
        }
        // The queued frames arrived earlier.
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            let take = taking(&self.rule.table, &mut self.ledger, &mut self.order);
            pending.each(&self.toeplitz, take);
        }
        self.judge(&dissection, &input, step, observed);
    }

    /// Compares a frame with its observations.
    #[inline(always)]
    fn judge(&mut self, dissection: &Dissection, input: &RssInput, step: Step, observed: Observed) {
        let hash = self.toeplitz.hash_input(input.as_bytes());
        let whole_hash = self.whole_hash(dissection, hash);
        self.order.take(whole_hash, step, observed.queue);
        if !self.settle(hash, observed) {
            self.examine(hash, observed, Some(dissection));
        }
    }

    /// Searches for the cause of a misplaced frame of which only hash and queue are known.
    #[cold]
    fn examine(&mut self, hash: u32, observed: Observed, packet: Option<&Dissection>) {
        let examiner = Examiner {
            rule: &self.rule,
            toeplitz: &self.toeplitz,
            dialects: &self.dialects,
        };
        let key = misplaced::Key {
            hash,
            actual: observed.queue.expect("only a frame with a queue is misplaced"),
            reported: observed.hash,
            detail: packet.map_or(0, |dissection| examiner.detail(dissection)),
        };
        self.misplaced.count(key, || Row {
            entry: examiner.rule.table.entry(hash),
            suspects: match packet.filter(|_| observed.hash != Some(hash)) {
                Some(dissection) => examiner.examine(dissection, observed),
                None => Suspects::NONE,
            },
            flow: packet.map(Dissection::tuple),
        });
    }

    /// Verifies the queue of a frame by the hash that the device computed; the hash is assumed to be correct.
    pub fn pair(&mut self, hash: u32, queue: Queue) {
        self.frames += 1;
        let observed = Observed {
            queue: Some(queue),
            ..Observed::default()
        };
        if !self.settle(hash, observed) {
            self.examine(hash, observed, None);
        }
    }

    /// The report so far.
    #[must_use]
    pub fn report(&self) -> Report {
        let (mut ledger, mut order) = (self.ledger.clone(), self.order.clone());
        let take = taking(&self.rule.table, &mut ledger, &mut order);
        self.pending.each(&self.toeplitz, take);
        Report::new(self, &ledger, order.reordering)
    }

    /// The hash that the packet would have if it were not fragmented: the same as the other packets of its flow. A
    /// later fragment has none.
    #[inline(always)]
    fn whole_hash(&self, dissection: &Dissection, hash: u32) -> u32 {
        if !dissection.is_fragment() {
            return hash;
        }
        let whole = dissection.rss_input_if_whole(self.rule.hash_types);
        whole.map_or(hash, |input| {
            self.toeplitz
                .hash_input(input.mixed(self.rule.transform).as_bytes())
        })
    }

    /// Enters a frame in the ledger; returns true if it is not misplaced.
    #[inline]
    fn settle(&mut self, hash: u32, observed: Observed) -> bool {
        let entry = self.rule.table.entry(hash);
        let bucket = self.rule.table.bucket(hash);
        self.ledger.enter(entry, hash, bucket, observed, self.frames);
        observed.queue.is_none_or(|queue| queue.serves(bucket))
    }
}

/// Enters batches of frames without observed hash or queue.
fn taking(table: &IndirectionTable, ledger: &mut Ledger, order: &mut Order) -> impl Take {
    |hashes, steps| {
        for hash in hashes {
            ledger.see(table.entry(*hash));
        }
        for (which, step) in steps {
            order.take(hashes[*which as usize], *step, None);
        }
    }
}
