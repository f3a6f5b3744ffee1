//! The environment of the test cases: an engine with matching sockets, and a handler that records all events.

pub use corelane_tests::PATIENCE;
use corelane_worker::Time;
use corelane_worker::engine::simulated::{Network, NetworkSettings};
use corelane_worker::engine::{
    Cause, Engine, EngineBody, EngineKind, EngineSettings, Event, Handler, Id, Listener, Ops, Socket, choose,
    run_engine,
};
use corelane_worker::group::{self, GroupSettings};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Sockets for one engine.
pub trait World {
    /// A socket bound to that address.
    fn bind(&self, address: SocketAddr) -> Socket;

    /// A socket on a free port of every IPv4 address that reports destinations.
    fn everywhere(&self) -> Socket;

    /// A socket bound to a free port, connected to a peer.
    fn connect(&self, peer: SocketAddr) -> Socket;

    /// A listener on a free port.
    fn listen(&self) -> Listener;
}

/// A case, generic over the engine.
pub trait Case {
    fn run<E: Engine>(self, engine: E, world: &dyn World);
}

struct Loopback;

impl World for Loopback {
    fn bind(&self, address: SocketAddr) -> Socket {
        UdpSocket::bind(address).unwrap().into()
    }

    fn everywhere(&self) -> Socket {
        let settings = GroupSettings {
            destinations: true,
            ..GroupSettings::default()
        };
        let mut group = group::udp(wildcard(), 1, None, &settings).unwrap();
        group.remove(0).into()
    }

    fn connect(&self, peer: SocketAddr) -> Socket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(peer).unwrap();
        socket.into()
    }

    fn listen(&self) -> Listener {
        TcpListener::bind("127.0.0.1:0").unwrap().into()
    }
}

impl World for Network {
    fn bind(&self, address: SocketAddr) -> Socket {
        self.socket(address).unwrap().into()
    }

    fn everywhere(&self) -> Socket {
        self.bind(wildcard())
    }

    fn connect(&self, peer: SocketAddr) -> Socket {
        let socket = self.socket("127.0.0.1:0".parse().unwrap()).unwrap();
        socket.connect(peer);
        socket.into()
    }

    fn listen(&self) -> Listener {
        self.listener("127.0.0.1:0".parse().unwrap()).unwrap().into()
    }
}

struct Body<C>(C);

impl<C: Case> EngineBody<()> for Body<C> {
    fn run<E: Engine>(self, engine: E) {
        self.0.run(engine, &Loopback);
    }
}

pub fn on_epoll(settings: &EngineSettings, case: impl Case) {
    run_engine(EngineKind::Epoll, settings, Body(case)).unwrap();
}

pub fn on_io_uring(settings: &EngineSettings, case: impl Case) {
    let chosen = choose(Some(EngineKind::IoUring));
    match chosen.reason {
        Some(reason) => eprintln!("skipped: {reason}"),
        None => run_engine(EngineKind::IoUring, settings, Body(case)).unwrap(),
    }
}

pub fn on_simulated(settings: &EngineSettings, case: impl Case) {
    let network = Network::new(NetworkSettings::default());
    let engine = network.engine(settings).unwrap();
    case.run(engine, &network);
}

/// Any free port of a loopback address that no other call gives: a port that is closed stays free while tests beside this
/// one bind many.
pub fn anywhere() -> SocketAddr {
    static NUMBER: AtomicU16 = AtomicU16::new(0);
    let [high, low] = NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    ([127, 100, high, low], 0).into()
}

/// Any free port of every IPv4 address.
fn wildcard() -> SocketAddr {
    "0.0.0.0:0".parse().unwrap()
}

/// All events of an engine, in order.
#[derive(Default)]
pub struct Notes {
    pub datagrams: Vec<Note>,
    pub failed: Vec<(Id, Cause)>,
    pub closed: Vec<Id>,
    pub woken: usize,
    /// The socket that echoes.
    pub echo: Option<Id>,
}

/// One datagram as it was lent.
pub struct Note {
    pub id: Id,
    pub peer: SocketAddr,
    pub payload: Vec<u8>,
    pub truncated: bool,
    pub destination: Option<SocketAddr>,
}

impl Notes {
    /// A record for a test in which one socket echoes.
    pub fn with_echo(echo: Id) -> Self {
        Self {
            echo: Some(echo),
            ..Self::default()
        }
    }

    /// The payloads that one socket received.
    pub fn of(&self, id: Id) -> Vec<&[u8]> {
        self.datagrams
            .iter()
            .filter(|note| note.id == id)
            .map(|note| note.payload.as_slice())
            .collect()
    }
}

impl Handler for Notes {
    fn event(&mut self, ops: &mut Ops, _: Time, id: Id, event: Event<'_>) {
        match event {
            Event::Datagrams(datagrams) => {
                for datagram in datagrams {
                    let payload = datagram.payload;
                    if self.echo == Some(id) {
                        let (from, to) = (datagram.destination, Some(datagram.peer));
                        let fill = |buffer: &mut [u8]| buffer.copy_from_slice(payload);
                        ops.send_from(id, from, to, payload.len(), fill).unwrap();
                    }
                    self.datagrams.push(Note {
                        id,
                        peer: datagram.peer,
                        payload: payload.to_vec(),
                        truncated: datagram.truncated,
                        destination: datagram.destination,
                    });
                }
            }
            Event::Failed(cause) => self.failed.push((id, cause)),
            Event::Closed(_) => self.closed.push(id),
            Event::Woken => self.woken += 1,
            _ => panic!("an event unknown to this suite"),
        }
    }
}

/// Turns the engine until a condition holds.
pub fn until<H: Handler>(
    engine: &mut impl Engine,
    on: &mut H,
    what: &str,
    so: impl Fn(&mut Ops, &H) -> bool,
) {
    let deadline = engine.now() + PATIENCE;
    while !so(engine.ops(), on) {
        let now = engine.now();
        assert!(now < deadline, "timed out waiting until {what}");
        // Not until the deadline: the condition may become true without an event.
        engine.turn(now + Duration::from_millis(5), on).unwrap();
    }
}

/// Turns the engine for a while, to check that no further event arrives.
pub fn settle(engine: &mut impl Engine, on: &mut impl Handler) {
    let end = engine.now() + Duration::from_millis(20);
    while engine.now() < end {
        engine.turn(end, on).unwrap();
    }
    // An engine that was not scheduled meanwhile has had no turn yet.
    for _ in 0..3 {
        engine.turn(end, on).unwrap();
    }
}

/// Queues a datagram.
pub fn send(ops: &mut Ops, id: Id, peer: Option<SocketAddr>, payload: &[u8]) {
    ops.send_to(id, peer, payload.len(), |buffer| buffer.copy_from_slice(payload))
        .unwrap();
}
