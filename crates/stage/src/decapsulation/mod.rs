//! Takes packets and frames out of tunnels, so that they are hashed, looked up and merged by their own headers.
//!
//! Nothing is copied but the Ethernet header of a packet: the frame begins later. A frame inside (VXLAN, and GRE or GENEVE
//! that carry Ethernet) goes on as it is. A packet inside keeps the outer frame's Ethernet addresses and tags. Time to live
//! and DSCP are the inner ones; congestion marks are combined as RFC 6040 says.
//!
//! What is no tunnel that is entered passes unchanged, counted by the reason. Fragments pass too: they are reassembled
//! before.

mod counts;
mod ecn;
mod outer;
mod plan;

pub use counts::Counts;
pub use plan::Plan;

use crate::{Batch, Kinds, Stage, Work};
use corelane_packet::Editor;
use corelane_packet::ethernet::EtherType;
use corelane_packet::tunnel::{Kind, Tunnel};
use outer::{Inside, Obstacle};
use std::sync::Arc;

/// Takes frames out of tunnels.
#[derive(Debug)]
pub struct Decapsulation {
    plan: Plan,
    counts: Arc<Counts>,
}

impl Decapsulation {
    /// A stage that counts here.
    #[must_use]
    pub fn new(plan: Plan, counts: Arc<Counts>) -> Decapsulation {
        Decapsulation { plan, counts }
    }

    /// Takes tunnels off the frame at a place.
    fn unwrap<B: Batch>(&self, work: &mut Work<'_, B>, place: usize) {
        while let Some(kind) = self.unwrap_one(work, place) {
            self.counts.taken_out(kind).add(1);
        }
    }

    /// The kind of the tunnel that was taken off.
    fn unwrap_one<B: Batch>(&self, work: &mut Work<'_, B>, place: usize) -> Option<Kind> {
        let frame = work.frame(place);
        let outer = work.dissection(place).ok();
        let tunnel = match outer
            .as_ref()
            .map_or_else(|| Tunnel::of_labels(frame), Tunnel::of)?
        {
            Ok(tunnel) => tunnel,
            Err(reason) => {
                self.counts.passed(reason).add(1);
                return None;
            }
        };
        if !self.plan.kinds.contains(&tunnel.kind()) {
            return None;
        }
        if work.depth(place) >= self.plan.nesting {
            self.counts.too_deep.add(1);
            return None;
        }
        let inside = outer::inside(frame, outer.as_ref(), tunnel, self.plan.verify);
        let cause = match inside {
            Ok(inside) => {
                bring_out(work, place, &inside);
                return Some(tunnel.kind());
            }
            Err(Obstacle::NotReadable) => {
                self.counts.not_readable.add(1);
                return None;
            }
            Err(Obstacle::Checksum) => &self.counts.checksum,
            Err(Obstacle::TimeToLive) => &self.counts.ttl,
            Err(Obstacle::Ecn) => &self.counts.ecn,
        };
        work.drop(place, cause);
        None
    }
}

impl Stage for Decapsulation {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        if !work.kinds().has(Kinds::TUNNEL) {
            return;
        }
        for place in 0..work.len() {
            let is_ours = self.plan.link.is_none_or(|link| link == work.link(place));
            if work.goes_on(place) && is_ours {
                self.unwrap(work, place);
            }
        }
    }
}

/// Lets the frame at a place be what is inside.
#[inline(always)]
fn bring_out<B: Batch>(work: &mut Work<'_, B>, place: usize, inside: &Inside) {
    let Inside {
        start, end, ethernet, ..
    } = *inside;
    if inside.is_marked {
        let content = &mut work.frame_mut(place)[start..end];
        Editor::again(content, inside.layout).set_traffic_class(inside.class);
    }
    if ethernet > 0 {
        let ether_type = if inside.is_v6 {
            EtherType::IPV6
        } else {
            EtherType::IPV4
        };
        let frame = work.frame_mut(place);
        frame.copy_within(..ethernet, start - ethernet);
        frame[start - 2..start].copy_from_slice(&ether_type.0.to_be_bytes());
    }
    work.trim(place, start - ethernet..end);
    work.deepen(place);
}
