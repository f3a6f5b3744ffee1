//! Takes packets and frames out of tunnels, so that they are hashed, looked up and merged by their own headers.
//!
//! Nothing is copied but the Ethernet header of a packet: the frame begins later. A frame inside (VXLAN, and GRE or GENEVE
//! that carry Ethernet) goes on as it is. A packet inside keeps the outer frame's Ethernet addresses and tags. Time to live
//! and DSCP are the inner ones; congestion marks are combined as RFC 6040 says.
//!
//! A packet of ESP is decrypted in place. What is inside is then the same as in any other tunnel, fragments and tunnels included.
//!
//! What is no tunnel that is entered passes unchanged, counted by the reason. Fragments pass too: they are reassembled
//! before.

mod counts;
mod ecn;
mod outer;
mod plan;

pub use counts::Counts;
pub use plan::{Keys, Plan};

use crate::esp::{Association, Opened};
use crate::seeds::{Seeds, mixed};
use crate::{Batch, Context, Kinds, PlannedStage, Stage, Work};
use corelane_measure::counter::Counter;
use corelane_packet::ethernet::EtherType;
use corelane_packet::tunnel::{Content, Kind, Tunnel};
use corelane_packet::{Addresses, Dissection, Editor};
use outer::{Inside, Obstacle};
use std::sync::Arc;

/// Takes frames out of tunnels.
#[derive(Debug)]
pub struct Decapsulation {
    plan: Plan,
    /// A bit for each kind of the plan.
    kinds: u32,
    seeds: Seeds,
    counts: Arc<Counts>,
}

impl Decapsulation {
    /// A stage that counts here. With the same seed, which is secret, all stages give a tunnel the same hash.
    #[must_use]
    pub fn new(plan: Plan, seed: u64, counts: Arc<Counts>) -> Decapsulation {
        Decapsulation {
            kinds: plan.kinds.iter().fold(0, |bits, kind| bits | bit(*kind)),
            plan,
            seeds: Seeds::new(seed),
            counts,
        }
    }

    /// Takes tunnels off the frame at a place.
    fn unwrap<B: Batch>(&self, work: &mut Work<'_, B>, place: usize) {
        loop {
            match self.unwrap_one(work, place) {
                Off::Another => {}
                Off::Last => return work.unwrapped(place),
                Off::Left(count) => {
                    count.add(1);
                    return work.unwrapped(place);
                }
                Off::Dropped(cause) => return work.drop(place, cause),
            }
        }
    }

    #[inline(always)]
    fn unwrap_one<B: Batch>(&self, work: &mut Work<'_, B>, place: usize) -> Off<'_> {
        let frame = work.frame(place);
        let outer = work.dissection(place).ok();
        let outer = outer.as_ref();
        let tunnel = match outer.map_or_else(|| Tunnel::of_labels(frame), Tunnel::of) {
            None => return Off::Last,
            Some(Err(reason)) => return Off::Left(self.counts.passed(reason)),
            Some(Ok(tunnel)) if self.kinds & bit(tunnel.kind()) == 0 => return Off::Last,
            Some(Ok(tunnel)) => tunnel,
        };
        if work.depth(place) >= self.plan.nesting {
            return Off::Left(&self.counts.too_deep);
        }
        if tunnel.content() == Content::Encrypted {
            return self.decrypt(work, place, tunnel);
        }
        let accepted = outer.map_or(Ok(()), |outer| outer::accept(outer, tunnel, self.plan.verify));
        let inside = accepted.and_then(|()| outer::inside(frame, outer, tunnel, tunnel.inside()));
        self.came_out(work, place, tunnel, inside)
    }

    /// Decrypts the packet of ESP at a place, and takes out what is inside.
    #[inline(never)]
    fn decrypt<B: Batch>(&self, work: &mut Work<'_, B>, place: usize, tunnel: Tunnel) -> Off<'_> {
        let Ok(outer) = work.dissection(place) else {
            return Off::Last;
        };
        let Some(association) = self.association(&outer, tunnel) else {
            return Off::Left(&self.counts.esp_no_key);
        };
        if outer.is_truncated() {
            return Off::Left(&self.counts.not_readable);
        }
        if let Err(obstacle) = outer::accept(&outer, tunnel, self.plan.verify) {
            return self.came_out(work, place, tunnel, Err(obstacle));
        }
        let encrypted = tunnel.inside();
        let start = encrypted.start;
        let Opened { at, is_v6 } = match association.open(&mut work.frame_mut(place)[encrypted]) {
            Ok(opened) => opened,
            Err(reason) => return Off::Dropped(self.counts.closed(reason)),
        };
        // Headers before the content are as before.
        let (frame, outer) = (work.frame(place), work.dissection(place).ok());
        let at = start + at.start..start + at.end;
        match outer::inside(frame, outer.as_ref(), tunnel, at) {
            Ok(inside) if inside.is_v6 != is_v6 => Off::Dropped(&self.counts.not_tunnel_mode),
            Err(Obstacle::NotReadable) => Off::Dropped(&self.counts.not_tunnel_mode),
            inside => self.came_out(work, place, tunnel, inside),
        }
    }

    /// The association of a packet of ESP, if there is a key of it.
    fn association(&self, outer: &Dissection<'_>, tunnel: Tunnel) -> Option<&Association> {
        let spi = outer.frame()[tunnel.inside()].first_chunk()?;
        let keys = self.plan.keys.as_ref()?;
        keys.associations
            .get(u32::from_be_bytes(*spi), outer.destination())
    }

    /// The hash of the tunnels that a frame is taken out of with this one: their kinds, ends and identifiers.
    #[inline(always)]
    fn hash<B: Batch>(&self, work: &Work<'_, B>, place: usize, tunnel: Tunnel) -> u32 {
        let [a, b, c, ..] = self.seeds.0;
        let name = u64::from(work.tunnel(place)) << 32 | u64::from(tunnel.identifier(work.frame(place)));
        let hash = mixed(name ^ a, tunnel.kind() as u64 ^ b);
        let ends = work.dissection(place).map(|outer| match outer.addresses() {
            Addresses::V4(both) => {
                let [source, destination] = both.map(|end| u64::from(u32::from_ne_bytes(end)));
                mixed(hash ^ source << 32 ^ destination, c)
            }
            Addresses::V6(both) => {
                let (words, _) = both.as_flattened().as_chunks();
                let words = words.iter().map(|word| u64::from_ne_bytes(*word));
                words.fold(hash, |hash, word| mixed(hash ^ word, c))
            }
        });
        // None is 0.
        (ends.unwrap_or(hash) as u32).max(1)
    }

    /// Lets the frame at a place be what is inside, if nothing prevents that.
    #[inline(always)]
    fn came_out<B: Batch>(
        &self,
        work: &mut Work<'_, B>,
        place: usize,
        tunnel: Tunnel,
        inside: Result<Inside, Obstacle>,
    ) -> Off<'_> {
        match inside {
            Ok(inside) => {
                let hash = self.hash(work, place, tunnel);
                bring_out(work, place, &inside);
                work.came_out(place, hash);
                self.counts.taken_out(tunnel.kind()).add(1);
                match inside.is_tunnel {
                    true => Off::Another,
                    false => Off::Last,
                }
            }
            Err(Obstacle::NotReadable) => Off::Left(&self.counts.not_readable),
            Err(Obstacle::Checksum) => Off::Dropped(&self.counts.checksum),
            Err(Obstacle::TimeToLive) => Off::Dropped(&self.counts.ttl),
            Err(Obstacle::Ecn) => Off::Dropped(&self.counts.ecn),
        }
    }
}

/// What came of a tunnel.
enum Off<'a> {
    /// It was taken off, and there is another one.
    Another,
    /// There is none, or none any more, that is taken off.
    Last,
    /// The frame is left in it, and counted here.
    Left(&'a Counter),
    /// The frame is dropped, and counted here.
    Dropped(&'a Counter),
}

fn bit(kind: Kind) -> u32 {
    1 << kind as u32
}

impl Stage for Decapsulation {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        if !work.kinds().has(Kinds::TUNNEL) {
            return;
        }
        for place in 0..work.len() {
            let is_ours = self.plan.link.is_none_or(|link| link == work.link(place));
            if work.goes_on(place) && is_ours && !work.is_unwrapped(place) {
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
    if let Some((layout, _)) = inside.headers.filter(|_| inside.is_marked) {
        let content = &mut work.frame_mut(place)[start..end];
        Editor::again(content, layout).set_traffic_class(inside.class);
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
    if let Some((layout, kinds)) = inside.headers.filter(|_| ethernet == 0) {
        work.keep_headers(place, layout, kinds);
    }
}

impl PlannedStage for Decapsulation {
    const NAME: &'static str = "decapsulate";
    const ABOUT: &'static str = "Take frames out of tunnels (IP in IP, GRE, VXLAN, GENEVE, MPLS, ESP); settings: nesting=4, verify=true, link=, keys=FILE (of ESP)";
    type Plan = Plan;
    type Counts = Counts;

    fn of(plan: &Plan, context: &Context, counts: Arc<Counts>) -> Decapsulation {
        Decapsulation::new(plan.clone(), context.seed, counts)
    }
}
