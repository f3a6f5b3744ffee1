//! In-memory rings: two ends in one process, or in two processes over shared memory; frames never reach the kernel.
//!
//! [`pair`] makes both ends in this process, [`shared`] one end that waits for, or joins, another process. Both stand on
//! one mapping that holds two single-producer single-consumer lanes (`lane`), one a direction. A frame is received where the
//! other end wrote it, and can be edited there.

mod lane;
mod rendezvous;

use crate::burst::{Burst, Extent};
use crate::error::LinkError;
use crate::layout::FrameLayout;
use crate::link::Link;
use crate::system::mapping::Mapping;
use crate::tally::Tally;
use lane::{Consumer, Producer, Region};
use rendezvous::Presence;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

pub use rendezvous::shared;

/// One end of an in-memory ring.
#[derive(Debug)]
pub struct MemoryLink {
    name: String,
    region: Region,
    incoming: Consumer,
    outgoing: Producer,
    extents: Vec<Extent>,
    tally: Tally,
    /// Whether the process at the other end lives; both ends of [`pair`] are of one process.
    presence: Option<Presence>,
}

/// Both ends of a ring in this process. Each may go to a thread of its own.
///
/// # Errors
/// When there is no memory for the frames.
pub fn pair(layout: FrameLayout) -> Result<(MemoryLink, MemoryLink), LinkError> {
    let mapping = Mapping::anonymous(Region::bytes(layout)).map_err(|cause| LinkError::System {
        link: "memory".to_owned(),
        step: "mapping the ring's frames",
        cause,
    })?;
    let region = Region::create(Arc::new(mapping), layout);
    let second = MemoryLink::of_region("memory:1".to_owned(), region.clone(), 1, None);
    Ok((
        MemoryLink::of_region("memory:0".to_owned(), region, 0, None),
        second,
    ))
}

impl MemoryLink {
    fn of_region(name: String, region: Region, end: usize, presence: Option<Presence>) -> MemoryLink {
        MemoryLink {
            name,
            incoming: Consumer::new(region.clone(), 1 - end),
            outgoing: Producer::new(region.clone(), end),
            extents: Vec::with_capacity(region.layout().frames()),
            region,
            tally: Tally::default(),
            presence,
        }
    }

    /// How its frames lie.
    #[must_use]
    pub fn layout(&self) -> FrameLayout {
        self.region.layout()
    }

    fn corrupt(&self, what: &'static str) -> LinkError {
        LinkError::Corrupt {
            link: self.name.clone(),
            what,
        }
    }
}

impl Link for MemoryLink {
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        self.incoming.release();
        self.extents.clear();
        if let Err(what) = self.incoming.take(limit, &mut self.extents) {
            return Err(self.corrupt(what));
        }
        self.tally.count_received(&self.extents);
        // SAFETY: a consumer takes extents within the region, one buffer each; their producer does not touch those until
        // they are released, which the next call does, and no call comes while the burst borrows the link.
        Ok(unsafe { Burst::new(self.region.start(), &self.extents) })
    }

    #[inline]
    fn transmit(
        &mut self,
        count: usize,
        write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<usize, LinkError> {
        match self.outgoing.put(count, write) {
            Ok(put) => Ok(self.tally.count_sent(put)),
            Err(what) => Err(self.corrupt(what)),
        }
    }

    fn longest(&self) -> usize {
        self.region.layout().longest()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn is_ended(&self) -> bool {
        self.incoming.is_closed() && self.incoming.is_drained()
    }

    fn check(&mut self) -> Result<(), LinkError> {
        match &mut self.presence {
            None => Ok(()),
            // What the other process sent before it closed its end is taken first.
            Some(_) if self.incoming.is_closed() && !self.incoming.is_drained() => Ok(()),
            Some(presence) => presence.check(&self.name),
        }
    }
}

impl Drop for MemoryLink {
    fn drop(&mut self) {
        self.outgoing.close();
    }
}
