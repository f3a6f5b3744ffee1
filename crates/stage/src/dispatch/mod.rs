//! Which bucket handles a frame, and whether here or from its queue. In: frames, read. Out: frames that go on here, and
//! frames to be handed over; rows of counts, as `netstat -Q` prints them.
//!
//! The rules and names are those of FreeBSD's netisr(9), as the post "Receive side scaling: testing UDP throughput" shows
//! them at work: a *policy* chooses the bucket of a frame, a *method* whether the frame is handled here or queued.

mod plan;
mod streams;

pub use plan::{DispatchPlan, Given, Method, Policy, Protocol, ProtocolRule};
pub use streams::{Row, Workstreams};

use crate::reassembly::owner;
use crate::{Batch, Stage, Work, stage_counts};
use corelane_packet::ethernet::EtherType;
use corelane_packet::{Addresses, Dissection, HashTypes, Refusal};
use corelane_rss::{Bucket, Hash, HashFields, IndirectionTable, Toeplitz};
use std::sync::Arc;

/// How frames are spread over buckets: the hash and its table.
#[derive(Clone, Debug)]
pub struct Spread {
    /// The compiled key.
    pub toeplitz: Toeplitz,
    /// The fields that are hashed.
    pub hash_types: HashTypes,
    /// The bucket of each hash.
    pub table: IndirectionTable,
    /// The number of buckets; the table names none beyond.
    pub buckets: u16,
}

impl Spread {
    /// The hash of a packet; `None` if no type that is enabled fits it.
    #[must_use]
    #[inline]
    pub fn hash(&self, packet: &Dissection<'_>) -> Option<Hash> {
        let input = packet.rss_input(self.hash_types)?;
        Some(input.hash(&self.toeplitz))
    }

    /// The bucket of a frame from a link. Without a hash it is that of the link, whatever the policy.
    #[must_use]
    #[inline]
    pub fn bucket(&self, policy: Policy, hash: Option<Hash>, link: usize) -> Bucket {
        match (policy, hash) {
            (Policy::Cpu, Some(hash)) => self.table.bucket(hash.value),
            (Policy::Flow, Some(hash)) => Bucket::new((hash.value % u32::from(self.buckets)) as u16),
            _ => Bucket::new((link % usize::from(self.buckets)) as u16),
        }
    }
}

stage_counts! {
    /// Counts of the frames that a stage made of others, by what their new hash caused.
    pub struct Reinjected {
        /// Frames that needed no new hash: their parts have been selected by the same fields.
        Counted reused,
        /// Frames that were hashed again.
        Counted rehashed,
        /// Those of them whose bucket is this one.
        Counted kept,
        /// Those of them that another bucket handles.
        Counted handed_over,
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

/// What dispatching depends on.
#[derive(Clone, Copy)]
struct Read {
    protocol: Protocol,
    hash: Option<Hash>,
    /// The bucket that reassembles it.
    owner: Option<Bucket>,
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
        work.read(|work, place| {
            if !work.was_queued(place) {
                let read = self.read(work.dissection(place));
                work.set_hash(place, read.hash);
                here.direct[Protocol::Ether as usize] += 1;
                self.dispatch(work, place, read, is_idle, &mut here);
            }
        });
        self.count(&here);
    }

    /// Reads the frames that stages made or changed, and hands over those of other buckets. If `reused`, a hash without ports
    /// is that of the frames that they were made of, so they are not hashed again, unless an owner made them.
    #[inline]
    pub fn reinject<B: Batch>(&self, work: &mut Work<'_, B>, reused: bool, counts: &Reinjected) {
        let mut here = Here::default();
        let has_ports = |hash: Hash| hash.hash_type.fields() == HashFields::FourTuple;
        work.read(|work, place| {
            let mut read = self.read(work.dissection(place));
            work.set_hash(place, read.hash);
            read.protocol = match read.protocol {
                Protocol::Ip => Protocol::IpDirect,
                Protocol::Ip6 => Protocol::Ip6Direct,
                other => other,
            };
            if reused && !self.has_owners && !read.hash.is_some_and(has_ports) {
                counts.reused.add(1);
                return;
            }
            counts.rehashed.add(1);
            let stays = self.dispatch(work, place, read, true, &mut here);
            let count = if stays { &counts.kept } else { &counts.handed_over };
            count.add(1);
        });
        self.count(&here);
    }

    #[inline(always)]
    fn read(&self, headers: Result<Dissection<'_>, Refusal>) -> Read {
        let without_hash = |protocol| Read {
            protocol,
            hash: None,
            owner: None,
        };
        match headers {
            Ok(packet) => Read {
                protocol: match packet.addresses() {
                    Addresses::V4(_) => Protocol::Ip,
                    Addresses::V6(_) => Protocol::Ip6,
                },
                hash: self.spread.hash(&packet),
                owner: match self.has_owners && packet.is_part() {
                    true => owner(&packet, &self.spread.toeplitz).map(|hash| self.spread.table.bucket(hash)),
                    false => None,
                },
            },
            Err(Refusal::NotIp { ether_type }) if ether_type == EtherType::ARP => without_hash(Protocol::Arp),
            Err(_) => without_hash(Protocol::Other),
        }
    }

    /// Whether a frame is handled here; if not, it is handed over.
    #[inline(always)]
    fn dispatch<B: Batch>(
        &self,
        work: &mut Work<'_, B>,
        place: usize,
        read: Read,
        is_idle: bool,
        here: &mut Here,
    ) -> bool {
        let protocol = read.protocol;
        let rule = self.rules[protocol as usize];
        if rule.method == Method::Direct && read.owner.is_none_or(|owner| owner == self.own) {
            here.direct[protocol as usize] += 1;
            return true;
        }
        let chosen = || self.spread.bucket(rule.policy, read.hash, work.link(place));
        let bucket = read.owner.unwrap_or_else(chosen);
        if rule.method == Method::Hybrid && bucket == self.own && is_idle {
            here.hybrid[protocol as usize] += 1;
            return true;
        }
        work.hand_over(place, bucket, protocol);
        false
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
