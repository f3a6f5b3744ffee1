//! In-memory rings: two ends in one process, or in two processes over shared memory; frames never reach the kernel.
//!
//! [`pair`] makes both ends in this process, [`shared`] one end that waits for, or joins, another process. Both use one
//! mapping with two single-producer single-consumer lanes (`lane`), one per direction. A frame is received where the other
//! end wrote it, and can be edited there.

mod lane;
mod rendezvous;

use crate::burst::Burst;
use crate::error::LinkError;
use crate::layout::FrameLayout;
use crate::link::{Link, Port, WriteFrame};
use crate::system::mapping::Mapping;
use lane::{Lane, Region};
use rendezvous::Presence;
use std::sync::Arc;

pub use rendezvous::shared;

/// One end of an in-memory ring.
#[derive(Debug)]
pub struct MemoryLink {
    port: Port,
    incoming: Lane,
    outgoing: Lane,
    /// The process at the other end; `None` for the ends of a [`pair`].
    presence: Option<Presence>,
}

/// Both ends of a ring in this process. Each may be used by its own thread.
///
/// # Errors
/// If there is no memory for the frames.
pub fn pair(layout: FrameLayout) -> Result<(MemoryLink, MemoryLink), LinkError> {
    let mapping = Mapping::anonymous(Region::bytes(layout))
        .map_err(|cause| LinkError::Failed(format!("memory: mapping the ring's frames: {cause}")))?;
    let region = Region::create(Arc::new(mapping), layout);
    let end = |end: usize| MemoryLink::of_region(format!("memory:{end}"), &region, end, None);
    Ok((end(0), end(1)))
}

impl MemoryLink {
    fn of_region(name: String, region: &Region, end: usize, presence: Option<Presence>) -> MemoryLink {
        MemoryLink {
            port: Port::new(name, region.layout.longest(), region.layout),
            incoming: region.lane(1 - end),
            outgoing: region.lane(end),
            presence,
        }
    }

    /// The layout of its frames.
    #[must_use]
    pub fn layout(&self) -> FrameLayout {
        self.incoming.region.layout
    }
}

impl Link for MemoryLink {
    fn port(&self) -> &Port {
        &self.port
    }

    #[inline]
    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        self.incoming.release();
        self.port.extents.clear();
        let taken = self.incoming.take(limit, &mut self.port.extents);
        taken.map_err(|what| LinkError::corrupt(&self.port.name, what))?;
        self.port.tally.count_received(&self.port.extents);
        // SAFETY: a consumer takes extents within the region, one buffer each; their producer does not touch those until
        // they are released, which the next call does, and no call comes while the burst borrows the link.
        Ok(unsafe { Burst::new(self.incoming.region.mapping.start(), &self.port.extents) })
    }

    #[inline]
    fn transmit(&mut self, count: usize, write: impl WriteFrame) -> Result<usize, LinkError> {
        let put = self.outgoing.put(count, write);
        let put = put.map_err(|what| LinkError::corrupt(&self.port.name, what))?;
        Ok(self.port.tally.count_sent(put))
    }

    fn is_ended(&self) -> bool {
        self.incoming.is_closed() && self.incoming.is_drained()
    }

    fn check(&mut self) -> Result<(), LinkError> {
        let Some(presence) = &mut self.presence else {
            return Ok(());
        };
        // Frames that the other process sent before it closed its end are delivered first. It closes the lane before the
        // connection, so the lane is looked at after the connection.
        let (checked, incoming) = (presence.check(&self.port.name), &self.incoming);
        checked.or_else(|lost| match incoming.is_closed() && !incoming.is_drained() {
            true => Ok(()),
            false => Err(lost),
        })
    }
}

impl Drop for MemoryLink {
    fn drop(&mut self) {
        self.outgoing.close();
    }
}
