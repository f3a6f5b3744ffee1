//! One bucket's part of a worker: its stages, and the frames that are handed over to it.

use super::arrived::Arrived;
use corelane_rss::Bucket;
use corelane_stage::dispatch::{Protocol, Workstreams};
use corelane_stage::{Carried, Desk, Stage, Work};
use corelane_worker::mailbox::Inbox;
use std::mem;

/// One bucket.
pub struct Lane<S> {
    pub(super) bucket: Bucket,
    stage: S,
    pub(super) desk: Desk,
    /// By sender.
    pub(super) inboxes: Vec<Inbox<Carried>>,
    /// Where to look first.
    next: usize,
    /// Frames taken from the mailboxes that are not counted as handled yet, by protocol.
    taken: [u32; Protocol::COUNT],
}

impl<S: Stage> Lane<S> {
    /// The lane of a bucket with these stages, to which nothing is handed over.
    pub(super) fn new((bucket, stage): (Bucket, S)) -> Lane<S> {
        Lane {
            bucket,
            stage,
            desk: Desk::default(),
            inboxes: Vec::new(),
            next: 0,
            taken: [0; Protocol::COUNT],
        }
    }

    /// Runs another stage from now on, which takes over what the one before holds.
    pub(super) fn replan(&mut self, stage: S) {
        let old = mem::replace(&mut self.stage, stage);
        self.stage.take_over(old);
    }

    #[inline(always)]
    pub(super) fn run(&mut self, work: &mut Work<'_, Arrived<'_>>) {
        self.stage.run(work);
    }

    pub(super) fn end(&mut self, work: &mut Work<'_, Arrived<'_>>) {
        self.stage.end(work);
    }

    /// Whether frames were handed over.
    pub(super) fn has_mail(&self) -> bool {
        self.inboxes.iter().any(|inbox| !inbox.is_empty())
    }

    /// Adds up to `limit` frames that were handed over, in order of each sender; returns their number.
    pub(super) fn take(&mut self, work: &mut Work<'_, Arrived<'_>>, limit: usize) -> usize {
        let count = self.inboxes.len();
        let mut left = limit;
        for number in 0..count {
            let inbox = &mut self.inboxes[(self.next + number) % count];
            while left > 0 {
                let Some((carried, frame)) = inbox.take() else {
                    break;
                };
                work.take_over(&carried, frame);
                self.taken[carried.protocol as usize] += 1;
                left -= 1;
            }
        }
        self.next = (self.next + 1) % count.max(1);
        limit - left
    }

    /// Counts what was taken as handled.
    pub(super) fn has_handled(&mut self, streams: &Workstreams) {
        for (protocol, taken) in Protocol::ALL.into_iter().zip(mem::take(&mut self.taken)) {
            if taken > 0 {
                streams.took(self.bucket, protocol, taken);
            }
        }
    }
}
