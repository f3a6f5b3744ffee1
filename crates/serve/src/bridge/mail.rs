//! Frames that one bucket hands over to another. In: work, with frames to be handed over. Out: the same frames in the
//! mailbox of their bucket, whose worker is woken; what did not fit, counted. Nobody waits.

use corelane_packet::HashTypes;
use corelane_rss::{Bucket, IndirectionTable, Key, Toeplitz};
use corelane_stage::dispatch::{DispatchPlan, Protocol, Spread, Workstreams};
use corelane_stage::{Batch, Carried, Fate, Work};
use corelane_worker::mailbox::{Inbox, Outbox, mailbox};
use nix::sys::eventfd::{EfdFlags, EventFd};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of a mailbox per frame of its queue, and at least: an IP packet of the greatest length fits several times.
const BYTES_PER_FRAME: usize = 2048;
const FEWEST_BYTES: usize = 1 << 19;

/// How frames are spread over buckets, and dispatched to them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BucketsPlan {
    /// The key of the hash.
    pub key: Key,
    /// The fields that are hashed.
    pub hash_types: HashTypes,
    /// The bucket of each hash.
    pub table: IndirectionTable,
    /// The number of buckets: worker `w` has the buckets whose number modulo the workers is `w`.
    pub buckets: u16,
    /// Where frames are handled.
    pub dispatch: DispatchPlan,
}

impl BucketsPlan {
    /// What selects the bucket of a frame.
    #[must_use]
    pub fn spread(&self) -> Spread {
        Spread {
            toeplitz: Toeplitz::new(&self.key),
            hash_types: self.hash_types,
            table: self.table.clone(),
            buckets: self.buckets,
        }
    }
}

/// What all workers share.
#[derive(Debug)]
struct Exchange {
    streams: Arc<Workstreams>,
    /// By worker.
    bells: Vec<Bell>,
    /// Workers that still receive frames from links.
    receiving: AtomicUsize,
}

/// Wakes one worker. It waits until one of its links or the bell is readable, all descriptors of one table; an engine's
/// [`Waker`](corelane_worker::engine::Waker) reaches threads with tables of their own, by a signal, which takes longer.
#[derive(Debug)]
struct Bell {
    /// Whether the worker waits, or is about to.
    asleep: AtomicBool,
    event: EventFd,
}

/// The inboxes of a bucket, one per sender.
type Inboxes = Vec<Inbox<Carried>>;

/// One worker's mailboxes: from its buckets to all, and from all workers to its buckets.
pub struct Mail {
    exchange: Arc<Exchange>,
    worker: usize,
    /// Those of the worker's buckets, until it takes them.
    pub(super) inboxes: Vec<(Bucket, Inboxes)>,
    /// By bucket.
    outboxes: Vec<Outbox<Carried>>,
    /// Frames that the current work has for each bucket and protocol, then those that may be posted.
    room: Vec<[u32; Protocol::COUNT]>,
    /// Whether this worker still receives.
    receives: bool,
}

impl Mail {
    /// The mail of each worker.
    ///
    /// # Errors
    /// If the kernel refuses a descriptor.
    pub fn between(plan: &BucketsPlan, workers: usize) -> io::Result<Vec<Mail>> {
        let buckets = usize::from(plan.buckets);
        let bell = |_| {
            Ok(Bell {
                asleep: AtomicBool::new(false),
                event: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
            })
        };
        let exchange = Arc::new(Exchange {
            streams: Arc::new(Workstreams::new(buckets, plan.dispatch.limit)),
            bells: (0..workers).map(bell).collect::<io::Result<_>>()?,
            receiving: AtomicUsize::new(workers),
        });
        let bytes = (plan.dispatch.limit as usize * BYTES_PER_FRAME).max(FEWEST_BYTES);
        let mut inboxes: Vec<Inboxes> = (0..buckets).map(|_| Inboxes::new()).collect();
        let mut mails: Vec<Mail> = (0..workers)
            .map(|worker| {
                let outboxes = inboxes.iter_mut().map(|inboxes| {
                    let (outbox, inbox) = mailbox(bytes);
                    inboxes.push(inbox);
                    outbox
                });
                Mail {
                    exchange: Arc::clone(&exchange),
                    worker,
                    inboxes: Vec::new(),
                    outboxes: outboxes.collect(),
                    room: vec![[0; Protocol::COUNT]; buckets],
                    receives: true,
                }
            })
            .collect();
        for (bucket, inboxes) in (0..).map(Bucket::new).zip(inboxes) {
            mails[bucket.index() % workers].inboxes.push((bucket, inboxes));
        }
        Ok(mails)
    }

    /// The buckets of this worker.
    #[must_use]
    pub fn buckets(&self) -> Vec<Bucket> {
        self.inboxes.iter().map(|(bucket, _)| *bucket).collect()
    }

    /// The counts of all queues.
    #[must_use]
    pub fn streams(&self) -> &Arc<Workstreams> {
        &self.exchange.streams
    }

    /// Whether no worker receives any more, and nothing waits or is being handled.
    pub(super) fn is_over(&self) -> bool {
        self.exchange.receiving.load(Ordering::SeqCst) == 0 && self.exchange.streams.is_settled()
    }

    /// Posts the frames that the work hands over, and wakes the workers of their buckets.
    pub(super) fn post<B: Batch>(&mut self, work: &Work<'_, B>, fates: &[Fate]) {
        let handed_over = || {
            (0..).zip(fates).filter_map(|(place, fate)| match *fate {
                Fate::HandOver(bucket, protocol) => Some((place, bucket, protocol)),
                _ => None,
            })
        };
        let mut is_empty = true;
        for (_, bucket, protocol) in handed_over() {
            self.room[bucket.index()][protocol as usize] += 1;
            is_empty = false;
        }
        if is_empty {
            return;
        }
        let streams = &self.exchange.streams;
        for (bucket, room) in (0..).map(Bucket::new).zip(&mut self.room) {
            for (protocol, room) in Protocol::ALL.into_iter().zip(room) {
                if *room > 0 {
                    *room = streams.reserve(bucket, protocol, *room);
                }
            }
        }
        for (place, bucket, protocol) in handed_over() {
            let room = &mut self.room[bucket.index()][protocol as usize];
            if *room == 0 {
                continue;
            }
            *room -= 1;
            let carried = work.carried(place, protocol);
            let posted = self.outboxes[bucket.index()].post(carried, work.frame(place));
            if posted.is_err() {
                streams.give_back(bucket, protocol, 1);
            }
        }
        let workers = self.exchange.bells.len();
        for (_, bucket, _) in handed_over() {
            self.exchange.bells[bucket.index() % workers].ring();
        }
    }

    /// Says once that this worker receives no more frames.
    pub(super) fn receives_no_more(&mut self) {
        if std::mem::take(&mut self.receives) {
            self.exchange.receiving.fetch_sub(1, Ordering::SeqCst);
            self.exchange.bells.iter().for_each(Bell::ring);
        }
    }

    /// Says that the worker is about to wait, unless it has mail; whoever posts from now on rings.
    pub(super) fn is_about_to_wait(&self, has_mail: impl FnOnce() -> bool) -> bool {
        let bell = &self.exchange.bells[self.worker];
        bell.asleep.store(true, Ordering::SeqCst);
        let waits = !has_mail();
        if !waits {
            bell.asleep.store(false, Ordering::SeqCst);
        }
        waits
    }

    /// The wait is over.
    pub(super) fn is_awake(&self) {
        let bell = &self.exchange.bells[self.worker];
        bell.asleep.store(false, Ordering::SeqCst);
        // Nothing to be read if it was not rung.
        let _ = bell.event.read();
    }

    /// What becomes readable when the worker has mail.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.exchange.bells[self.worker].event.as_fd()
    }
}

/// A worker that ended, in whatever way, receives no more.
impl Drop for Mail {
    fn drop(&mut self) {
        self.receives_no_more();
    }
}

impl Bell {
    fn ring(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            // It can only fail if it was rung 2^64 times.
            let _ = self.event.write(1);
        }
    }
}
