//! Datagram handling of a worker: answers, counts, and samples the bucket that their hash selects.
//!
//! In: events of its engine, or single datagrams from a mailbox. Out: answers through the engine, counts in the
//! worker's own block, sampled flows in a ring that the control thread drains.

use super::answer::Answering;
use super::counters::BucketCounters;
use super::describe::Describing;
use super::loops::Repeats;
use super::plan::Common;
use crate::udp::Mode;
use corelane_rss::Bucket;
use corelane_worker::engine::{Datagram, Event, Handler, Id, Ops};
use corelane_worker::{CachePadded, Time};
use std::net::SocketAddr;
use std::sync::Arc;

/// Datagrams per sample. A prime, so that flows in rotation are all sampled.
const SAMPLE_INTERVAL: u32 = 251;

/// Number of datagrams sampled without an interval at the start, so that short runs are checked too.
const SAMPLED_AT_START: u32 = 64;

/// Ports that are never answered: 0 is invalid, and echo (7), quotd (17) and chargen (19) answer answers (RFC 862, 865,
/// 864), which would loop forever.
const UNANSWERED_PORTS: [u16; 4] = [0, 7, 17, 19];

/// Event handler of a worker's engine.
pub(super) struct BucketHandler {
    /// The bucket whose datagrams it should receive; `None` if the model does not assign buckets.
    pub(super) bucket: Option<Bucket>,
    pub(super) common: Arc<Common>,
    pub(super) counters: Arc<CachePadded<BucketCounters>>,
    pub(super) sampled_flows: rtrb::Producer<SocketAddr>,
    pub(super) answering: Answering,
    /// `None` unless flow metadata was requested.
    pub(super) describing: Option<Describing>,
    pub(super) repeats: Repeats,
    /// Datagrams until the next sample; 1 at the start.
    pub(super) until_sample: u32,
    pub(super) samples: u32,
}

impl BucketHandler {
    /// Handles a datagram from a mailbox; answers it on the socket of `id` if the server answers.
    pub(super) fn take(&mut self, ops: &mut Ops, id: Id, datagram: &Datagram<'_>) {
        if let Some(describing) = &mut self.describing {
            describing.describe(std::iter::once(datagram.peer));
        }
        self.serve(ops, id, datagram);
    }

    fn serve(&mut self, ops: &mut Ops, id: Id, datagram: &Datagram<'_>) {
        self.counters.seen.add(1);
        self.counters.seen_bytes.add(datagram.payload.len() as u64);
        let sampled = self.sample(datagram.peer);
        if self.common.plan.mode == Mode::Echo {
            self.answer(ops, id, datagram, sampled);
        }
    }

    /// Answers a datagram unless a rule forbids it.
    fn answer(&mut self, ops: &mut Ops, id: Id, datagram: &Datagram<'_>, sampled: bool) {
        let (common, port) = (&self.common, datagram.peer.port());
        if UNANSWERED_PORTS.contains(&port) || port == common.address.port() {
            self.counters.refused_port.add(1);
        } else if datagram.broadcast {
            // Every socket of the group received a copy (RFC 1122 3.3.6 has the general rule).
            self.counters.refused_broadcast.add(1);
        } else if datagram.truncated {
            self.counters.truncated.add(1);
        } else if !common.plan.may_answer(datagram.peer.ip()) {
            self.counters.refused_peer.add(1);
        } else if common.echoes.includes(datagram.peer) {
            self.counters.refused_echo.add(1);
        } else if sampled && self.repeats.record(datagram.peer, datagram.payload) {
            self.counters.refused_loop.add(1);
        } else {
            let (socket, peer) = self.answering.way(ops, id, datagram.peer);
            let length = datagram.payload.len();
            let queued = ops.send_to(socket, peer, length, |out| {
                out.copy_from_slice(datagram.payload);
            });
            self.counters.queue_full.add(u64::from(queued.is_err()));
        }
    }

    /// Samples: periodically computes the bucket of a datagram by its hash. Returns whether this datagram was sampled.
    fn sample(&mut self, peer: SocketAddr) -> bool {
        self.until_sample -= 1;
        let sampled = self.until_sample == 0;
        if sampled {
            self.take_sample(peer);
        }
        sampled
    }

    fn take_sample(&mut self, peer: SocketAddr) {
        self.samples = self.samples.saturating_add(1);
        self.until_sample = if self.samples < SAMPLED_AT_START {
            1
        } else {
            SAMPLE_INTERVAL
        };
        // On a wildcard socket the destination address is unknown, and therefore the hash.
        if self.common.address.ip().is_unspecified() {
            return;
        }
        let Some(selected) = self.common.bucket_of(peer) else {
            return;
        };
        if let Some(bucket) = self.bucket {
            self.counters.steering_samples.add(1);
            self.counters.steering_right.add(u64::from(selected == bucket));
        }
        // If the ring is full, only a sample is lost.
        let _ = self.sampled_flows.push(peer);
    }
}

impl Handler for BucketHandler {
    fn event(&mut self, ops: &mut Ops, _now: Time, id: Id, event: Event<'_>) {
        match event {
            Event::Datagrams(datagrams) => {
                if let Some(describing) = &mut self.describing {
                    describing.describe(datagrams.clone().map(|datagram| datagram.peer));
                }
                for datagram in datagrams {
                    self.serve(ops, id, &datagram);
                }
            }
            Event::Closed(_) => self.answering.closed(id),
            // Failures are counted by the engine.
            _ => {}
        }
    }
}
