//! A link whose frames are counted by somebody else than itself: by what is seen through it.

use crate::burst::Burst;
use crate::error::LinkError;
use crate::link::Link;
use crate::tally::Tally;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A link, and what passed it in each direction, which any thread may read while it runs.
#[derive(Debug)]
pub struct Counted<L> {
    inner: L,
    counts: Arc<Counts>,
}

/// What passed a [`Counted`] link. One thread writes, any may read.
#[derive(Debug, Default)]
pub struct Counts {
    received: AtomicU64,
    received_bytes: AtomicU64,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
}

impl Counts {
    /// The counts as last written; those that only the link itself knows are 0.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally {
            received: self.received.load(Ordering::Relaxed),
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            ..Tally::default()
        }
    }
}

impl<L> Counted<L> {
    /// Counts from now on.
    #[must_use]
    pub fn new(inner: L) -> Counted<L> {
        Counted {
            inner,
            counts: Arc::default(),
        }
    }

    /// The counts, to be read from anywhere.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }
}

/// Adds without a locked instruction: only the link's thread writes.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(count),
        Ordering::Relaxed,
    );
}

impl<L: Link> Link for Counted<L> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        let burst = self.inner.receive(limit)?;
        add(&self.counts.received, burst.len() as u64);
        add(
            &self.counts.received_bytes,
            burst.iter().map(|frame| frame.len() as u64).sum(),
        );
        Ok(burst)
    }

    fn transmit(
        &mut self,
        count: usize,
        mut write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<usize, LinkError> {
        let mut bytes = 0;
        let taken = self.inner.transmit(count, |number, buffer| {
            let length = write(number, buffer).min(buffer.len());
            bytes += length as u64;
            length
        })?;
        add(&self.counts.sent, taken as u64);
        add(&self.counts.sent_bytes, bytes);
        Ok(taken)
    }

    fn longest(&self) -> usize {
        self.inner.longest()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    fn tally(&self) -> Tally {
        self.inner.tally()
    }

    fn is_ended(&self) -> bool {
        self.inner.is_ended()
    }

    fn check(&mut self) -> Result<(), LinkError> {
        self.inner.check()
    }
}
