//! What a worker checks of its connections: whether the bucket that accepted each is the one that its hash selects, and
//! its CPU the one that received it; with a policy of rebalancing, the load of each entry of the table. Of datagrams, a sample.

use crate::check::Check;
use crate::service::Watch;
use corelane_rss::Tuple;
use corelane_worker::Time;
use corelane_worker::engine::{Datagrams, Event, Id, Ops, Slots};
use corelane_worker::sampling::Sampler;
use std::net::SocketAddr;

/// Load of opening and closing a connection; an event counts 1. They cost about two more system calls.
const CONNECTION_LOAD: u64 = 2;

/// Checks each connection that a listener accepts: that costs a system call, on a wildcard address two. Those that the
/// service opens itself are not steered, and have no load that a table could move.
pub(crate) struct Accepting {
    pub(crate) check: Check,
    /// The CPU of the worker.
    pub(crate) cpu: u32,
    /// The listen address.
    pub(crate) address: SocketAddr,
    /// The entry of each connection whose load is counted.
    pub(crate) entries: Slots<u16>,
    /// Which datagrams are checked; `None` if the table does not steer them.
    pub(crate) datagrams: Option<Sampler>,
}

impl Accepting {
    fn accepted(&self, ops: &Ops, id: Id, peer: SocketAddr) -> Option<u16> {
        // On a wildcard address, each connection has its own.
        let own = match self.address.ip().is_unspecified() {
            true => ops.local_address(id),
            false => Some(self.address),
        };
        // The kernel sets it when the handshake ends (`sk_clone_lock`).
        if let Some(cpu) = ops.incoming_cpu(id) {
            self.check.checked.received.add(1);
            self.check.checked.local.add(u64::from(cpu == self.cpu));
        }
        let tuple = Tuple::new(peer, own?).ok()?;
        Some(self.check.sample(&tuple, CONNECTION_LOAD) as u16)
    }

    fn opened(&mut self, ops: &Ops, id: Id, listener: Option<Id>, peer: SocketAddr) {
        if let Some(entry) = listener.and_then(|_| self.accepted(ops, id, peer))
            && self.check.loads.is_some()
        {
            self.entries.insert(id, entry);
        }
    }

    fn received(&mut self, ops: &Ops, id: Id, datagrams: &Datagrams<'_>) {
        let Some(sampler) = &mut self.datagrams else {
            return;
        };
        for datagram in datagrams.clone() {
            if !sampler.is_due() {
                continue;
            }
            let stands_for = sampler.take(Time::now());
            let bound = || ops.local_address(id).filter(|own| !own.ip().is_unspecified());
            // Every bucket receives a copy of a broadcast.
            if !datagram.broadcast
                && let Some(own) = datagram.destination.or_else(bound)
                && let Ok(tuple) = Tuple::new(unscoped(datagram.peer), unscoped(own))
            {
                self.check.sample(&tuple, u64::from(stands_for));
            }
        }
    }

    fn served(&self, id: Id) {
        if let Some(loads) = &self.check.loads
            && let Some(entry) = self.entries.get(id)
        {
            loads.add(usize::from(*entry), 1);
        }
    }
}

impl Watch for Accepting {
    #[inline(always)]
    fn look(&mut self, ops: &Ops, id: Id, event: &Event<'_>) {
        match event {
            Event::Opened {
                listener,
                peer: Some(peer),
            } => self.opened(ops, id, *listener, *peer),
            Event::Bytes(_) | Event::Drained => self.served(id),
            Event::Datagrams(datagrams) => self.received(ops, id, datagrams),
            _ => {}
        }
    }
}

/// Without the scope, which no packet carries.
fn unscoped(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Loads;
    use crate::streams::ConnectionCounts;
    use arc_swap::ArcSwap;
    use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering};
    use corelane_worker::engine::simulated::{Network, NetworkSettings};
    use corelane_worker::engine::{ConnectOptions, Engine, EngineSettings, Handler};
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    const CLIENTS: u64 = 8;

    /// Opens a connection to its upstream server for each that it accepts, and passes on what clients send.
    struct Proxy {
        checks: Accepting,
        upstream: SocketAddr,
        /// By client's slot.
        upstreams: Vec<Option<Id>>,
        /// Events with bytes of clients.
        pieces: u64,
    }

    impl Handler for Proxy {
        fn event(&mut self, ops: &mut Ops, _now: Time, id: Id, event: Event<'_>) {
            self.checks.look(ops, id, &event);
            match event {
                Event::Opened {
                    listener: Some(_), ..
                } => {
                    self.upstreams
                        .resize(self.upstreams.len().max(id.slot() + 1), None);
                    self.upstreams[id.slot()] = Some(ops.connect(self.upstream, ConnectOptions::default()));
                }
                Event::Bytes(bytes) => {
                    self.pieces += 1;
                    if let Some(Some(upstream)) = self.upstreams.get(id.slot()) {
                        ops.write(*upstream, bytes).unwrap();
                    }
                }
                Event::PeerClosed => ops.close(id),
                _ => {}
            }
        }
    }

    fn proxy(address: SocketAddr, upstream: SocketAddr, loads: Arc<Loads>) -> Proxy {
        let steering = Steering {
            key: Key::VERIFICATION,
            hash_fields: HashFields::FourTuple,
            table: IndirectionTable::round_robin(128, 1).unwrap(),
            cpus: vec![0],
            generation: 0,
        };
        Proxy {
            checks: Accepting {
                check: Check {
                    bucket: Some(Bucket::new(0)),
                    steerer: Arc::new(ArcSwap::from_pointee(steering.steerer())),
                    checked: Arc::default(),
                    loads: Some(loads),
                },
                cpu: 0,
                address,
                entries: Slots::default(),
                datagrams: None,
            },
            upstream,
            upstreams: Vec::new(),
            pieces: 0,
        }
    }

    #[test]
    fn connections_that_a_server_opens_itself_are_no_accepted_ones_and_have_no_load() {
        let network = Network::new(NetworkSettings::default());
        let [address, upstream] = ["10.0.0.1:80", "10.0.0.2:80"].map(|text| text.parse().unwrap());
        let (listener, seat) = (network.listener(address).unwrap(), network.seat());
        let loads = Arc::new(Loads::new(128));
        let mut proxy = proxy(address, upstream, Arc::clone(&loads));
        let mut engine = network.engine(&EngineSettings::default()).unwrap();
        engine.ops().listen(network.listener(upstream).unwrap()).unwrap();
        let mut connect = || engine.ops().connect(address, ConnectOptions::default());
        let clients: Vec<Id> = (0..CLIENTS).map(|_| connect()).collect();
        let half = engine.now() + Duration::from_millis(50);
        let end = half + Duration::from_millis(50);
        let mut received = 0;
        let mut events = |ops: &mut Ops, _: Time, id: Id, event: Event<'_>| match event {
            Event::Opened { listener: None, .. } => ops.write(id, b"request").unwrap(),
            Event::Bytes(bytes) => received += bytes.len() as u64,
            _ => {}
        };
        let (streams, checked, pieces) = thread::scope(|scope| {
            let server = scope.spawn(move || {
                let mut engine = seat.engine(&EngineSettings::default()).unwrap();
                engine.ops().listen(listener).unwrap();
                while engine.now() < end {
                    engine.turn(end, &mut proxy).unwrap();
                }
                let streams = engine.ops().counters().streams;
                (streams, proxy.checks.check.checked, proxy.pieces)
            });
            while engine.now() < half {
                engine.turn(half, &mut events).unwrap();
            }
            // Half of the clients leave; what the proxy opened for them stays.
            for client in &clients[..CLIENTS as usize / 2] {
                engine.ops().close(*client);
            }
            while engine.now() < end {
                engine.turn(end, &mut events).unwrap();
            }
            // An engine that neither waits nor is gone stops the clock of the others.
            drop(engine);
            server.join().unwrap()
        });
        assert_eq!(received, CLIENTS * 7);
        let served = ConnectionCounts::of(&streams, &checked, 0, 0);
        let counted = [served.accepted, served.open, served.steering_samples];
        assert_eq!(counted, [CLIENTS, CLIENTS / 2, CLIENTS]);
        let connected = streams.connected;
        assert_eq!((connected.opened, connected.open()), (CLIENTS, CLIENTS));
        // Per client, its acceptance and the events with its bytes.
        let load: u64 = loads.entries.iter().map(|entry| entry.get()).sum();
        assert!(pieces >= CLIENTS);
        assert_eq!(load, CLIENTS * CONNECTION_LOAD + pieces);
    }
}
