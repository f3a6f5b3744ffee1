//! Datagram handling of a worker: what is admitted goes to the service, whose answers are sent.
//!
//! In: events of its engine, or single datagrams from a mailbox. Out: answers through the engine.

use super::admission::Admission;
use super::answer::Answering;
use super::describe::Describing;
use super::service::{DatagramAnswers, DatagramService};
use corelane_worker::Time;
use corelane_worker::engine::{Datagram, Event, Handler, Id, Ops};

/// Event handler of a worker's engine.
pub(super) struct BucketHandler<S> {
    pub(super) service: S,
    pub(super) admission: Admission,
    pub(super) answering: Answering,
    /// `None` unless flow metadata was requested.
    pub(super) describing: Option<Describing>,
}

impl<S: DatagramService> BucketHandler<S> {
    /// Serves a batch, whose answers leave on the socket of `id` unless a flow has another.
    pub(super) fn serve<'a>(
        &mut self,
        ops: &mut Ops,
        now: Time,
        id: Id,
        datagrams: impl Iterator<Item = Datagram<'a>> + Clone,
    ) {
        if let Some(describing) = &mut self.describing {
            describing.describe(datagrams.clone());
        }
        let admission = &mut self.admission;
        let requests = datagrams.filter(|datagram| admission.admits::<S>(now, datagram));
        let mut answers = DatagramAnswers {
            answering: &mut self.answering,
            ops,
            socket: id,
        };
        self.service.serve(now, requests, &mut answers);
    }
}

impl<S: DatagramService> Handler for BucketHandler<S> {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        match event {
            Event::Datagrams(datagrams) => self.serve(ops, now, id, datagrams),
            Event::Closed(_) => self.answering.closed(id),
            // Failures are counted by the engine.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;
    use crate::udp::cause::DropCause;
    use crate::udp::common::Common;
    use crate::udp::counters::BucketCounters;
    use crate::udp::service::Echo;
    use crate::udp::{Answers, UdpPlan};
    use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering};
    use corelane_worker::CachePadded;
    use corelane_worker::engine::simulated::{Network, NetworkSettings};
    use corelane_worker::engine::{Engine, EngineSettings};
    use std::collections::HashMap;
    use std::net::SocketAddr;
    use std::sync::{Arc, mpsc};

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
    fn handler_of(plan: UdpPlan) -> BucketHandler<Echo> {
        let address = plan.socket.address;
        let common = Common::new(plan, address);
        let counters = Arc::<CachePadded<BucketCounters>>::default();
        let check = Check {
            bucket: Some(Bucket::new(0)),
            steerer: Arc::clone(&common.steerer),
            checked: Arc::default(),
            loads: None,
        };
        let sampled_flows = rtrb::RingBuffer::new(1).0;
        BucketHandler {
            service: Echo,
            admission: Admission::new(Arc::clone(&common), Arc::clone(&counters), check, sampled_flows),
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
        let counted = handler.answering.counters.answered_unconnected.get();
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
            while handler.answering.counters.seen.get() == 0 {
                engine.turn(Time::NEVER, &mut handler).unwrap();
            }
            let now = engine.now();
            engine.turn(now, &mut handler).unwrap();
            let counters = &handler.answering.counters;
            let counted = [
                &counters.dropped[DropCause::NoDestination as usize],
                &handler.admission.check.checked.samples,
            ]
            .map(|counter| counter.get());
            assert_eq!(counted, [u64::from(!reported), u64::from(reported)]);
            assert_eq!(engine.ops().counters().sent, 1 + u64::from(reported));
        }
    }
}
