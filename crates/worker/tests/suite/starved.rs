//! More connections have data than the engine has buffers: each gets its turn.

use crate::suite::streams::listening;
use crate::suite::world::{Case, Notes, World, anywhere, on_epoll, on_io_uring, until};
use corelane_worker::Time;
use corelane_worker::engine::{Engine, EngineSettings, Event, Handler, Id, Ops};
use std::collections::HashMap;
use std::io::{ErrorKind, Write};
use std::net::{TcpStream, UdpSocket};

/// Bytes received by each connection, in the order in which they were accepted.
#[derive(Default)]
struct Received {
    order: Vec<Id>,
    bytes: HashMap<Id, usize>,
    /// The most that one connection had received when the last one got its first bytes.
    most_before_last: usize,
}

impl Received {
    fn total(&self) -> usize {
        self.bytes.values().sum()
    }
}

impl Handler for Received {
    fn event(&mut self, ops: &mut Ops, _: Time, id: Id, event: Event<'_>) {
        match event {
            Event::Opened { .. } => {
                self.order.push(id);
                ops.receive(id, false);
            }
            Event::Bytes(bytes) => {
                *self.bytes.entry(id).or_default() += bytes.len();
                if self.most_before_last == 0 && self.bytes.len() == self.order.len() {
                    self.most_before_last = self.bytes.values().copied().max().unwrap_or(0);
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Peers that are plain sockets, accepted by an engine that does not receive yet.
fn peers(engine: &mut impl Engine, world: &dyn World, count: usize) -> (Vec<TcpStream>, Received) {
    let (_, address) = listening(engine, world);
    let mut received = Received::default();
    let peers = (0..count)
        .map(|number| {
            let peer = TcpStream::connect(address).unwrap();
            until(engine, &mut received, "it is accepted", |_, received| {
                received.order.len() > number
            });
            peer
        })
        .collect();
    (peers, received)
}

fn small_messages(mut engine: impl Engine, world: &dyn World) {
    const PEERS: usize = 600;
    let (mut peers, mut received) = peers(&mut engine, world, PEERS);
    for round in 0..4 {
        peers.iter_mut().for_each(|peer| peer.write_all(b"x").unwrap());
        if round == 0 {
            received
                .order
                .iter()
                .for_each(|id| engine.ops().receive(*id, true));
        }
        until(&mut engine, &mut received, "all have arrived", |_, received| {
            received.total() == (round + 1) * PEERS
        });
        assert!(received.bytes.values().all(|bytes| *bytes == round + 1));
        // At most one receive of each finds no buffer.
        let starved = engine.ops().counters().starved as usize;
        assert!(
            starved <= (round + 1) * PEERS,
            "{starved} receives found no buffer"
        );
    }
}

fn full_sockets(mut engine: impl Engine, world: &dyn World) {
    let burst = EngineSettings::default().stream_burst_bytes as usize;
    let (mut peers, mut received) = peers(&mut engine, world, 200);
    let mut sent = 0;
    for peer in &mut peers {
        peer.set_nonblocking(true).unwrap();
        let mut filled = 0;
        while filled < 4 * burst {
            match peer.write(&[7; 65_536]) {
                Ok(bytes) => filled += bytes,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        sent += filled;
    }
    received
        .order
        .iter()
        .for_each(|id| engine.ops().receive(*id, true));
    until(&mut engine, &mut received, "all has arrived", |_, received| {
        received.total() == sent
    });
    let most = received.most_before_last;
    assert!(
        (1..=2 * burst).contains(&most),
        "one had received {most} bytes before another any"
    );
}

fn datagrams(mut engine: impl Engine, world: &dyn World) {
    const SOCKETS: usize = 1_000;
    let mut notes = Notes::default();
    let ids: Vec<Id> = (0..SOCKETS)
        .map(|_| {
            let id = engine.ops().datagrams(world.bind(anywhere())).unwrap();
            engine.ops().receive(id, false);
            id
        })
        .collect();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for id in &ids {
        let address = engine.ops().local_address(*id).unwrap();
        sender.send_to(b"x", address).unwrap();
        engine.ops().receive(*id, true);
    }
    until(&mut engine, &mut notes, "all have arrived", |_, notes| {
        notes.datagrams.len() == SOCKETS
    });
    let starved = engine.ops().counters().starved as usize;
    assert!(starved <= SOCKETS, "{starved} receives found no buffer");
}

/// Runs a case on both engines over the kernel.
macro_rules! on_real_engines {
    ($case:ident) => {{
        struct ThisCase;
        impl Case for ThisCase {
            fn run<E: Engine>(self, engine: E, world: &dyn World) {
                $case(engine, world);
            }
        }
        corelane_tests::undisturbed(|| on_epoll(&EngineSettings::default(), ThisCase));
        corelane_tests::undisturbed(|| on_io_uring(&EngineSettings::default(), ThisCase));
    }};
}

#[test]
fn more_connections_than_buffers_are_each_received_once_a_buffer_is_free() {
    on_real_engines!(small_messages);
}

#[test]
fn connections_with_much_data_take_turns() {
    on_real_engines!(full_sockets);
}

#[test]
fn more_sockets_than_buffers_are_each_received_once_a_buffer_is_free() {
    on_real_engines!(datagrams);
}
