//! Which bucket handles a frame, and whether here or from its queue. In: frames, read. Out: frames that go on here, and
//! frames to be handed over; rows of counts, as `netstat -Q` prints them.
//!
//! The rules and names are those of FreeBSD's netisr(9), as the post "Receive side scaling: testing UDP throughput" shows
//! them at work: a *policy* chooses the bucket of a frame, a *method* whether the frame is handled here or queued.

mod plan;
mod spread;
mod streams;

pub use plan::{DispatchPlan, Given, Method, Policy, Protocol, ProtocolRule};
pub use spread::Spread;
pub use streams::{Row, Workstreams};

use crate::reassembly::owner;
use crate::{Batch, Stage, Work, stage_counts};
use corelane_packet::ethernet::EtherType;
use corelane_packet::{Dissection, Refusal};
use corelane_rss::{Bucket, Hash, HashFields};
use std::sync::Arc;

stage_counts! {
    /// Counts of the frames that a stage made of others, by what their new hash caused.
    pub struct Reinjected {
        /// Frames that needed no new hash: their parts have been selected by the same fields.
        Counted reused,
        /// Frames that were hashed again.
        Counted rehashed,
        /// Those of them whose bucket is this one.
        Counted kept,
        /// Those of them that were handed over to another bucket.
        Counted handed_over,
        /// Those of them that are of another bucket and were handled in this one, since the method is direct.
        Counted stayed,
    }
}

/// The dispatch of one bucket.
#[derive(Debug)]
pub struct Dispatch {
    own: Bucket,
    rules: [ProtocolRule; Protocol::COUNT],
    spread: Arc<Spread>,
    streams: Arc<Workstreams>,
    /// See [`Dispatch::with_owners`].
    has_owners: bool,
}

/// Frames handled here, by protocol.
#[derive(Default)]
struct Here {
    direct: [u64; Protocol::COUNT],
    hybrid: [u64; Protocol::COUNT],
}

impl Dispatch {
    /// The dispatch of a bucket.
    #[must_use]
    pub fn new(own: Bucket, plan: &DispatchPlan, spread: Arc<Spread>, streams: Arc<Workstreams>) -> Dispatch {
        Dispatch {
            own,
            rules: Protocol::ALL.map(|protocol| plan.rule(protocol)),
            spread,
            streams,
            has_owners: false,
        }
    }

    /// Whether fragments go to the bucket that owns their datagram ([`owner`]), with every method: otherwise they would not meet
    /// if they come to different ones.
    #[must_use]
    pub fn with_owners(self, has_owners: bool) -> Dispatch {
        Dispatch { has_owners, ..self }
    }

    /// Reads the frames that came, and hands over those that this bucket does not handle now. Frames that were handed over to
    /// it are only read.
    #[inline]
    pub fn arrivals<B: Batch>(&self, work: &mut Work<'_, B>) {
        let is_idle = !self.streams.is_scheduled(self.own);
        let mut here = Here::default();
        work.read();
        self.spread.hash_all(work);
        for place in 0..work.len() {
            if work.is_to_dispatch(place) {
                here.direct[Protocol::Ether as usize] += 1;
                self.dispatch(work, place, protocol(work, place), is_idle, &mut here);
            }
        }
        self.count(&here);
    }

    /// Reads the frames that stages made or changed, and hands over those of other buckets. If `reused`, a hash without ports
    /// is that of the frames that they were made of, so they are not hashed again, unless an owner made them.
    pub fn reinject<B: Batch>(&self, work: &mut Work<'_, B>, reused: bool, counts: &Reinjected) {
        let mut here = Here::default();
        let has_ports = |hash: Hash| hash.hash_type.fields() == HashFields::FourTuple;
        work.read();
        self.spread.hash_all(work);
        for place in 0..work.len() {
            if !work.is_to_dispatch(place) {
                continue;
            }
            if reused && !self.has_owners && !work.hash(place).is_some_and(has_ports) {
                counts.reused.add(1);
                work.dispatched(place);
                continue;
            }
            let protocol = match protocol(work, place) {
                Protocol::Ip => Protocol::IpDirect,
                Protocol::Ip6 => Protocol::Ip6Direct,
                other => other,
            };
            counts.rehashed.add(1);
            let chosen = self.dispatch(work, place, protocol, true, &mut here);
            let bucket = chosen.unwrap_or_else(|| self.bucket(work, place, protocol));
            let count = match work.goes_on(place) {
                _ if bucket == self.own => &counts.kept,
                true => &counts.stayed,
                false => &counts.handed_over,
            };
            count.add(1);
        }
        self.count(&here);
    }

    /// Hands a frame over unless it is handled here; returns its bucket, if that was needed.
    #[inline(always)]
    fn dispatch<B: Batch>(
        &self,
        work: &mut Work<'_, B>,
        place: usize,
        protocol: Protocol,
        is_idle: bool,
        here: &mut Here,
    ) -> Option<Bucket> {
        work.dispatched(place);
        let rule = self.rules[protocol as usize];
        let owner = match self.has_owners {
            true => self.owner(work, place),
            false => None,
        };
        if rule.method == Method::Direct && owner.is_none_or(|owner| owner == self.own) {
            here.direct[protocol as usize] += 1;
            return owner;
        }
        let bucket = owner.unwrap_or_else(|| self.bucket(work, place, protocol));
        if rule.method == Method::Hybrid && bucket == self.own && is_idle {
            here.hybrid[protocol as usize] += 1;
        } else {
            work.hand_over(place, bucket, protocol);
        }
        Some(bucket)
    }

    /// The bucket of the frame at a place, which is no fragment with an owner.
    #[inline(always)]
    fn bucket<B: Batch>(&self, work: &Work<'_, B>, place: usize, protocol: Protocol) -> Bucket {
        let policy = self.rules[protocol as usize].policy;
        self.spread.bucket(policy, work.hash(place), work.link(place))
    }

    /// The bucket that reassembles the fragment at a place.
    fn owner<B: Batch>(&self, work: &Work<'_, B>, place: usize) -> Option<Bucket> {
        let hash = owner(&work.dissection(place).ok()?, &self.spread.toeplitz)?;
        Some(self.spread.table.bucket(hash))
    }

    fn count(&self, here: &Here) {
        for protocol in Protocol::ALL {
            let (direct, hybrid) = (here.direct[protocol as usize], here.hybrid[protocol as usize]);
            if direct + hybrid > 0 {
                self.streams.ran(self.own, protocol, direct, hybrid);
            }
        }
    }
}

/// Reads headers for all stages, and hands over what other buckets handle.
impl Stage for Dispatch {
    #[inline]
    fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
        self.arrivals(work);
    }
}

/// The queue that the frame at a place belongs to.
#[inline(always)]
fn protocol<B: Batch>(work: &Work<'_, B>, place: usize) -> Protocol {
    match work.layout(place) {
        Some(layout) if layout.is_v6() => Protocol::Ip6,
        Some(_) => Protocol::Ip,
        None => without_packet(work.frame(place)),
    }
}

/// The queue of a frame without an IP header that can be read.
#[cold]
fn without_packet(frame: &[u8]) -> Protocol {
    match Dissection::of(frame) {
        Err(Refusal::NotIp { ether_type }) if ether_type == EtherType::ARP => Protocol::Arp,
        _ => Protocol::Other,
    }
}
