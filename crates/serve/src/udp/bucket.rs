//! Datagram handling of a worker: answers, counts, and samples the bucket that their hash selects.
//!
//! In: events of its engine, or single datagrams from a mailbox. Out: answers through the engine, counts in the
//! worker's own block, sampled flows in a ring that the control thread drains.

use super::answer::Answering;
use super::common::Common;
use super::counters::BucketCounters;
use super::describe::Describing;
use super::loops::Repeats;
use crate::loads::Sampler;
use crate::udp::Mode;
use corelane_rss::{Bucket, Tuple};
use corelane_worker::engine::{Datagram, Event, Handler, Id, Ops};
use corelane_worker::{CachePadded, Time};
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
    pub(super) sampled_flows: rtrb::Producer<Tuple>,
    pub(super) answering: Answering,
    /// `None` unless the table is rebalanced.
    pub(super) sampler: Option<Sampler>,
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
            describing.describe(std::iter::once(*datagram));
        }
        self.serve(ops, id, datagram);
    }

    fn serve(&mut self, ops: &mut Ops, id: Id, datagram: &Datagram<'_>) {
        self.counters.seen.add(1);
        self.counters.seen_bytes.add(datagram.payload.len() as u64);
        let sampled = self.sample(datagram);
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
        } else if common.destination(datagram).is_none() {
            self.counters.no_destination.add(1);
        } else if !common.plan.may_answer(datagram.peer.ip()) {
            self.counters.refused_peer.add(1);
        } else if common.echoes.includes(datagram.peer) {
            self.counters.refused_echo.add(1);
        } else if sampled && self.repeats.record(datagram.peer, datagram.payload) {
            self.counters.refused_loop.add(1);
        } else {
            let (socket, peer) = self.answering.way(ops, id, datagram);
            let (source, length) = (peer.and(datagram.destination), datagram.payload.len());
            let queued = ops.send_from(socket, source, peer, length, |out| {
                out.copy_from_slice(datagram.payload);
            });
            self.counters.queue_full.add(u64::from(queued.is_err()));
        }
    }

    /// Samples: periodically computes the bucket of a datagram by its hash. Returns whether this datagram was sampled.
    fn sample(&mut self, datagram: &Datagram<'_>) -> bool {
        self.until_sample -= 1;
        let sampled = self.until_sample == 0;
        if sampled {
            self.take_sample(datagram);
        }
        sampled
    }

    fn take_sample(&mut self, datagram: &Datagram<'_>) {
        self.samples = self.samples.saturating_add(1);
        self.until_sample = if self.samples < SAMPLED_AT_START {
            1
        } else {
            SAMPLE_INTERVAL
        };
        // Every bucket receives a copy of a broadcast.
        if datagram.broadcast {
            return;
        }
        let Some(tuple) = self.common.tuple(datagram) else {
            return;
        };
        if let Some(bucket) = self.bucket {
            let right = self.common.bucket_of(&tuple) == bucket;
            self.counters.steering_samples.add(1);
            self.counters.steering_right.add(u64::from(right));
        }
        // If the ring is full, only a sample is lost.
        let _ = self.sampled_flows.push(tuple);
    }
}

impl Handler for BucketHandler {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        match event {
            Event::Datagrams(datagrams) => {
                if let Some(describing) = &mut self.describing {
                    describing.describe(datagrams.clone());
                }
                for datagram in datagrams {
                    if let Some(sampler) = &mut self.sampler
                        && let Some(own) = self.common.destination(&datagram)
                    {
                        sampler.count(now, datagram.peer, own);
                    }
                    self.serve(ops, id, &datagram);
                }
            }
            Event::Closed(_) => self.answering.closed(id),
            // Failures are counted by the engine.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{Answers, UdpPlan};
    use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
    use corelane_worker::engine::simulated::{Network, NetworkSettings};
    use corelane_worker::engine::{Engine, EngineSettings};
    use std::collections::HashMap;
    use std::net::SocketAddr;
    use std::sync::mpsc;

    /// A server of two buckets.
    fn plan(address: SocketAddr) -> UdpPlan {
        let steering = Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            table: IndirectionTable::round_robin(128, 2).unwrap(),
            cpus: vec![0, 0],
            generation: 0,
        };
        UdpPlan::new(address, steering)
    }

    /// The handler of the first bucket.
    fn handler_of(plan: UdpPlan) -> BucketHandler {
        let address = plan.socket.address;
        let common = Common::new(plan, address);
        let counters = Arc::<CachePadded<BucketCounters>>::default();
        BucketHandler {
            bucket: Some(Bucket::new(0)),
            common: Arc::clone(&common),
            counters: Arc::clone(&counters),
            sampler: None,
            sampled_flows: rtrb::RingBuffer::new(1).0,
            answering: Answering {
                common,
                counters,
                worker: 0,
                opened: mpsc::channel().0,
                own: None,
                by_bucket: Vec::new(),
                by_flow: HashMap::new(),
            },
            describing: None,
            repeats: Repeats::new(),
            until_sample: 1,
            samples: 0,
        }
    }

    #[test]
    fn a_datagram_on_the_socket_of_another_peer_is_answered_to_its_own_peer() {
        let network = Network::new(NetworkSettings::default());
        let settings = EngineSettings {
            destinations: true,
            ..EngineSettings::default()
        };
        let mut engine = network.engine(&settings).unwrap();
        let [server, asked, first, second] =
            ["0.0.0.0:9000", "10.0.0.9:9000", "10.0.0.1:4000", "10.0.0.2:4000"]
                .map(|text| text.parse().unwrap());
        let mut open = |address| engine.ops().datagrams(network.socket(address).unwrap()).unwrap();
        let [own, of_first, client] = [server, asked, second].map(&mut open);
        let mut handler = handler_of(UdpPlan {
            answers: Answers::Connected,
            ..plan(server)
        });
        handler.answering.own = Some(own);
        // Not connected yet, this socket takes what any peer sends to its address.
        handler.answering.by_flow.insert((first, asked), of_first);
        let asking = engine.ops().send_to(client, Some(asked), 9, |out| out.fill(7));
        asking.unwrap();
        let mut answers = 0;
        while answers == 0 {
            let mut events = |ops: &mut Ops, now: Time, id: Id, event: Event<'_>| match event {
                Event::Datagrams(datagrams) if id == client => {
                    answers += datagrams.filter(|datagram| datagram.peer == asked).count();
                }
                event => handler.event(ops, now, id, event),
            };
            engine.turn(Time::NEVER, &mut events).unwrap();
        }
        let counted = handler.counters.answered_unconnected.get();
        assert_eq!((answers, counted, engine.ops().counters().sent), (1, 1, 2));
    }

    #[test]
    fn a_datagram_of_unknown_destination_is_counted_neither_answered_nor_a_sample() {
        for reported in [false, true] {
            let network = Network::new(NetworkSettings::default());
            let settings = EngineSettings {
                destinations: reported,
                ..EngineSettings::default()
            };
            let mut engine = network.engine(&settings).unwrap();
            let [server, client, asked] =
                ["0.0.0.0:9000", "10.0.0.1:4000", "10.0.0.9:9000"].map(|text| text.parse().unwrap());
            engine.ops().datagrams(network.socket(server).unwrap()).unwrap();
            let from = engine.ops().datagrams(network.socket(client).unwrap()).unwrap();
            engine.ops().receive(from, false);
            engine
                .ops()
                .send_to(from, Some(asked), 9, |out| out.fill(7))
                .unwrap();
            let mut handler = handler_of(plan(server));
            while handler.counters.seen.get() == 0 {
                engine.turn(Time::NEVER, &mut handler).unwrap();
            }
            let now = engine.now();
            engine.turn(now, &mut handler).unwrap();
            let counters = &handler.counters;
            let counted = [&counters.no_destination, &counters.steering_samples].map(|counter| counter.get());
            assert_eq!(counted, [u64::from(!reported), u64::from(reported)]);
            assert_eq!(engine.ops().counters().sent, 1 + u64::from(reported));
        }
    }
}
