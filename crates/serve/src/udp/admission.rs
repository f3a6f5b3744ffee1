//! Which datagrams are passed to the service of a worker: rules refuse those that must not be answered. All are counted, and
//! a sample is checked for the bucket that its hash selects.
//!
//! In: datagrams. Out: counts in the worker's own block, sampled flows in a ring that the control thread drains.

use super::cause::DropCause;
use super::common::Common;
use super::counters::BucketCounters;
use super::loop_guard::Repeats;
use super::service::DatagramService;
use crate::check::Check;
use crate::reflection::UNANSWERED_PORTS;
use corelane_rss::Tuple;
use corelane_worker::engine::Datagram;
use corelane_worker::sampling::Sampler;
use corelane_worker::{CachePadded, Time};
use std::sync::Arc;

/// The admission of one worker's datagrams.
pub(super) struct Admission {
    common: Arc<Common>,
    counters: Arc<CachePadded<BucketCounters>>,
    pub(super) check: Check,
    sampler: Sampler,
    sampled_flows: rtrb::Producer<Tuple>,
    repeats: Repeats,
}

impl Admission {
    pub(super) fn new(
        common: Arc<Common>,
        counters: Arc<CachePadded<BucketCounters>>,
        check: Check,
        sampled_flows: rtrb::Producer<Tuple>,
    ) -> Self {
        Self {
            common,
            counters,
            sampler: check.sampler(),
            check,
            sampled_flows,
            repeats: Repeats::new(),
        }
    }

    /// Counts a datagram; returns whether the service gets it. A call to it costs 1 % of the worker's instructions.
    #[inline(always)]
    pub(super) fn admits<S: DatagramService>(&mut self, now: Time, datagram: &Datagram<'_>) -> bool {
        self.counters.seen.add(1);
        self.counters.seen_bytes.add(datagram.payload.len() as u64);
        let sampled = self.sampler.is_due().then(|| self.sample(now, datagram));
        !S::ANSWERS || self.may_be_answered(datagram, sampled)
    }

    /// Whether no rule forbids an answer; `sampled`: it is a sample that stands for so many.
    #[inline(always)]
    fn may_be_answered(&mut self, datagram: &Datagram<'_>, sampled: Option<u32>) -> bool {
        let (common, port) = (&self.common, datagram.peer.port());
        let refused = if UNANSWERED_PORTS.contains(&port) || port == common.address.port() {
            DropCause::RefusedPort
        } else if datagram.broadcast {
            // Every socket of the group received a copy (RFC 1122 3.3.6 has the general rule).
            DropCause::RefusedBroadcast
        } else if datagram.truncated {
            DropCause::Truncated
        } else if common.destination(datagram).is_none() {
            DropCause::NoDestination
        } else if !common.plan.may_answer(datagram.peer.ip()) {
            DropCause::RefusedPeer
        } else if common.echoes.includes(datagram.peer) {
            DropCause::RefusedEcho
        } else if sampled.is_some_and(|stands_for| self.repeats.record(datagram, stands_for)) {
            DropCause::RefusedLoop
        } else {
            return true;
        };
        self.counters.dropped[refused as usize].add(1);
        false
    }

    /// Samples a datagram: checks its bucket and adds its load; returns for how many it stands.
    #[cold]
    fn sample(&mut self, now: Time, datagram: &Datagram<'_>) -> u32 {
        let stands_for = self.sampler.take(now);
        // Every bucket receives a copy of a broadcast.
        if !datagram.broadcast
            && let Some(tuple) = self.common.tuple(datagram)
        {
            self.check.sample(&tuple, u64::from(stands_for));
            // If the ring is full, only a sample is lost.
            let _ = self.sampled_flows.push(tuple);
        }
        stands_for
    }
}
