//! Puts frames into a VXLAN, or packets into GRE or IP: the way back of [`decapsulation`](crate::decapsulation).
//!
//! A VXLAN takes whole frames, tags included, into a new untagged frame. GRE and IP in IP take packets; the outer frame keeps
//! the Ethernet addresses and tags of the inner one. Addresses of Ethernet can be given for both: there is no ARP here. The
//! time to live inside is not counted down, as the forwarder is no router.

mod counts;
mod header;
mod plan;

pub use counts::Counts;
pub use plan::{DontFragment, Plan, PlanError, Wrap};

use crate::{Batch, Context, PlannedStage, Stage, Work};
use corelane_packet::ethernet::MacAddress;
use corelane_packet::{Dissection, HashTypes};
use corelane_rss::{Key, Toeplitz};
use header::{Headers, Inner};
use std::sync::Arc;

/// Bytes of an Ethernet header without tags, and of its two addresses.
const ETHERNET: usize = 14;
const ADDRESSES: usize = 12;

/// Puts frames into a tunnel.
#[derive(Debug)]
pub struct Encapsulation {
    plan: Plan,
    headers: Headers,
    counts: Arc<Counts>,
    toeplitz: Toeplitz,
    identifications: Identifications,
}

/// Identifications of the outer packet, or of its fragments: no two buckets give the same for one pair of addresses (RFC 6864,
/// section 4.3; RFC 8200, section 4.5).
#[derive(Debug)]
struct Identifications {
    next: u32,
    step: u32,
}

impl Identifications {
    fn next(&mut self) -> u32 {
        let next = self.next;
        self.next = next.wrapping_add(self.step);
        next
    }
}

impl Encapsulation {
    /// The stage of a bucket, which is one of `buckets`: it hashes with this key.
    #[must_use]
    pub fn new(plan: Plan, key: &Key, (bucket, buckets): (u16, u16), counts: Arc<Counts>) -> Encapsulation {
        Encapsulation {
            headers: Headers::of(plan.clone()),
            plan,
            counts,
            toeplitz: Toeplitz::new(key),
            identifications: Identifications {
                next: bucket.into(),
                step: buckets.into(),
            },
        }
    }

    fn wrap<B: Batch>(&mut self, work: &mut Work<'_, B>, place: usize) {
        let (frame, packet) = (work.frame(place), work.dissection(place).ok());
        let takes_frames = matches!(self.plan.wrap, Wrap::Vxlan { .. });
        let inner = packet.as_ref().map_or(Inner::NOT_IP, Inner::of);
        // The content, and the header of Ethernet before it.
        let (content, ethernet) = match &packet {
            _ if takes_frames && frame.len() >= ETHERNET => (0..frame.len(), ETHERNET),
            Some(packet) if packet.is_truncated() => return self.counts.truncated.add(1),
            Some(packet) => (
                packet.network_offset()..packet.packet_end(),
                packet.network_offset(),
            ),
            None => return self.counts.not_ip.add(1),
        };
        let start = ethernet + self.headers.length();
        let length = start + content.len();
        if length - ethernet > self.headers.longest() {
            return work.drop(place, &self.counts.too_long);
        }
        let hash = if takes_frames {
            self.hash(frame, packet.as_ref())
        } else {
            0
        };
        let identification = self.identifications.next();
        let (plan, headers) = (&self.plan, &self.headers);
        work.replace(place, length, |view, bytes| {
            let frame = view.frame(place);
            bytes[..ethernet].copy_from_slice(&frame[..ethernet]);
            bytes[ethernet - 2..ethernet].copy_from_slice(&headers.ether_type().0.to_be_bytes());
            for (mac, at) in [(plan.destination_mac, 0), (plan.source_mac, 6)] {
                if let Some(MacAddress(address)) = mac {
                    bytes[at..at + 6].copy_from_slice(&address);
                }
            }
            bytes[start..].copy_from_slice(&frame[content]);
            headers.write(&mut bytes[ethernet..], inner, hash, identification as u16);
        });
        // Who encapsulates is the source of the outer packet, and may cut it (RFC 8200, section 4.5).
        if self.plan.local.is_ipv6() {
            work.set_cut_as(place, identification);
        }
        self.counts.encapsulated.add(1);
    }

    /// The hash of a frame's flow (RFC 7348, section 5); of its Ethernet addresses, if it does not carry IP.
    fn hash(&self, frame: &[u8], packet: Option<&Dissection<'_>>) -> u32 {
        match packet.and_then(|packet| packet.rss_input(HashTypes::FOUR_TUPLE)) {
            Some(input) => input.hash(&self.toeplitz).value,
            None => self.toeplitz.hash_input(&frame[..ADDRESSES]),
        }
    }
}

impl Stage for Encapsulation {
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        for place in 0..work.len() {
            let is_ours = self.plan.link.is_none_or(|link| link == work.link(place));
            if work.goes_on(place) && is_ours {
                self.wrap(work, place);
            }
        }
    }

    fn take_over(&mut self, old: Encapsulation) {
        self.identifications = old.identifications;
    }
}

impl PlannedStage for Encapsulation {
    const NAME: &'static str = "encapsulate";
    const ABOUT: &'static str = "Put frames into a tunnel; settings: kind=vxlan|gre|ipip, vni=, key=, local=, remote=, source_mac=, \
        destination_mac=, dscp=, ttl=64, df=inherit|set|unset, link=";
    const VALUE: &'static str = "KIND,SETTINGS";
    const BARE: Option<&'static str> = Some("kind");
    type Plan = Plan;
    type Counts = Counts;

    fn of(plan: &Plan, context: &Context, counts: Arc<Counts>) -> Encapsulation {
        let bucket = context.bucket.index() as u16;
        Encapsulation::new(plan.clone(), &context.key, (bucket, context.buckets), counts)
    }
}
