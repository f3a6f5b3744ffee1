//! Servers under a skewed load until their table is near the best one: nothing is lost and no connection ends.

use crate::common::{Answer, anywhere, steering};
use corelane_rss::balance::{Options, Policy, bucket_loads, rebalance};
use corelane_rss::{IndirectionTable, Steerer, Steering, Tuple};
use corelane_serve::tcp::{TcpMode, TcpPlan, TcpServer};
use corelane_serve::udp::{UdpPlan, UdpServer};
use corelane_serve::{ConnectionCounts, Server};
use corelane_tests::PATIENCE;
use corelane_worker::engine::EngineKind;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

pub const BUCKETS: usize = 4;
const ENTRIES: usize = 128;

/// Datagrams in flight, so few that no buffer overflows.
const WINDOW: usize = 64;

/// Weights of the entries by Zipf's law: those of bucket 0 come first, so it starts with most of the load.
fn zipf() -> Vec<u64> {
    let rank = |entry: usize| (entry % BUCKETS) * (ENTRIES / BUCKETS) + entry / BUCKETS + 1;
    (0..ENTRIES).map(|entry| 100_000 / rank(entry) as u64).collect()
}

/// Entries at random by these weights.
struct Draw(Vec<u64>, fastrand::Rng);

impl Draw {
    fn new(weights: &[u64]) -> Draw {
        let mut sum = 0;
        let sums = weights.iter().map(|weight| {
            sum += weight;
            sum
        });
        Draw(sums.collect(), fastrand::Rng::with_seed(1))
    }

    fn entry(&mut self) -> usize {
        let at = self.1.u64(0..self.0[ENTRIES - 1]);
        self.0.partition_point(|sum| *sum <= at)
    }
}

/// Client addresses that were not used before, by entry.
struct Clients {
    steerer: Steerer,
    server: SocketAddr,
    used: u32,
}

impl Clients {
    fn new(steering: &Steering, server: SocketAddr) -> Clients {
        Clients {
            steerer: steering.steerer(),
            server,
            used: 0,
        }
    }

    fn of(&mut self, entry: usize) -> SocketAddr {
        loop {
            self.used += 1;
            // Ports below the kernel's own range, on addresses of this server's clients.
            let [third, fourth] = self.server.port().to_be_bytes();
            let address = [127, 11 + (self.used / 20_000) as u8, third, fourth];
            let client = SocketAddr::from((address, (10_000 + self.used % 20_000) as u16));
            let hash = self.steerer.hash_of(&Tuple::new(client, self.server).unwrap());
            if self.steerer.table().entry(hash) == entry {
                return client;
            }
        }
    }
}

/// The fullest bucket under these weights, as a multiple of what no assignment can be below.
fn over_best(table: &IndirectionTable, weights: &[u64]) -> f64 {
    let best = rebalance(table, weights, Options::new(BUCKETS)).unwrap().bound;
    *bucket_loads(table, weights, BUCKETS).iter().max().unwrap() as f64 / best as f64
}

/// Starts a server that rebalances by this policy and sends it datagrams by the weights until the table is level. Fails when
/// `more` is false for the number sent so far.
pub fn udp(engine: EngineKind, policy: Policy, more: impl Fn(u64) -> bool) {
    let weights = zipf();
    let mut plan = UdpPlan {
        engine: Some(engine),
        ..UdpPlan::new(anywhere(), steering(BUCKETS))
    };
    plan.steered.rebalance = Some(policy);
    let mut server = UdpServer::start(plan).unwrap();
    let mut clients = Clients::new(server.steering(), server.address());
    let sockets: Vec<UdpSocket> = (0..ENTRIES)
        .map(|entry| {
            let socket = UdpSocket::bind(clients.of(entry)).unwrap();
            socket.connect(server.address()).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            socket
        })
        .collect();
    let mut over = over_best(&server.steering().table, &weights);
    assert!(over > 1.5, "the load is skewed");
    let (mut draw, mut number) = (Draw::new(&weights), 0_u64);
    while over > 1.05 && more(number) {
        let window = [(); WINDOW].map(|()| draw.entry());
        for entry in window {
            number += 1;
            sockets[entry].send(&number.to_be_bytes()).unwrap();
        }
        for entry in window {
            sockets[entry]
                .recv(&mut [0; 8])
                .expect("an answer to every datagram");
        }
        server.poll().unwrap();
        over = over_best(&server.steering().table, &weights);
    }
    let served = server.stop().unwrap();
    assert_eq!(served.seen(), number);
    assert!(served.dropped().is_empty(), "{:?}", served.dropped());
    let done = served.rebalanced.unwrap();
    assert!(
        over <= 1.05,
        "{engine:?}: {over} of the best assignment: {done:?}"
    );
    assert!(done.moved <= 100 && done.decisions > 0, "{done:?}");
    assert_eq!(done.changes, served.steering.generation);
    assert!(done.moves.iter().all(|moved| moved.from_load >= moved.entry.load));
}

/// A request and its answer on a connection.
pub type Exchange = fn(&mut TcpStream);

fn echo(stream: &mut TcpStream) {
    let mut answer = [0; 4];
    stream.write_all(b"ping").unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
}

pub fn request(stream: &mut TcpStream) {
    write!(stream, "GET /size/100 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(Answer::read(stream, false).status, 200);
}

fn open(client: SocketAddr, server: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&client.into()).unwrap();
    socket.connect(&server.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// As [`udp`], with connections to a TCP server.
pub fn tcp(engine: EngineKind, policy: Policy, more: impl Fn(u64) -> bool) {
    let mut plan = TcpPlan::new(anywhere(), TcpMode::Echo, steering(BUCKETS));
    plan.listening.engine = Some(engine);
    plan.listening.steered.rebalance = Some(policy);
    let server = TcpServer::start(plan).unwrap();
    let address = server.address();
    connections(server, address, echo, more, |served| {
        let buckets = served.buckets.iter();
        buckets.map(|bucket| bucket.connections.clone()).collect()
    });
}

/// Connects by the weights until the table is level, while a connection per entry stays open. Fails when `more` is false for
/// the number opened so far.
pub fn connections<S: Server>(
    mut server: S,
    address: SocketAddr,
    exchange: Exchange,
    more: impl Fn(u64) -> bool,
    counted: fn(&S::Served) -> Vec<ConnectionCounts>,
) {
    let (weights, mut draw) = (zipf(), Draw::new(&zipf()));
    let table = |server: &mut S| server.group().unwrap().steering().table.clone();
    let mut clients = Clients::new(server.group().unwrap().steering(), address);
    let mut held: Vec<TcpStream> = (0..ENTRIES)
        .map(|entry| open(clients.of(entry), address))
        .collect();
    let mut present = table(&mut server);
    let mut expected = bucket_loads(&present, &[1; ENTRIES], BUCKETS);
    let (mut number, mut over) = (0, over_best(&present, &weights));
    assert!(over > 1.5, "the load is skewed");
    while over > 1.05 {
        assert!(more(number), "{over} of the best assignment");
        number += 1;
        let entry = draw.entry();
        exchange(&mut open(clients.of(entry), address));
        expected[present.entries()[entry].index()] += 1;
        exchange(&mut held[entry]);
        server.poll().unwrap();
        present = table(&mut server);
        over = over_best(&present, &weights);
    }
    for (entry, stream) in held.iter_mut().enumerate() {
        exchange(stream);
        exchange(&mut open(clients.of(entry), address));
        expected[present.entries()[entry].index()] += 1;
    }
    drop(held);
    let served = server.stop().unwrap();
    let counts = counted(&served);
    let accepted: Vec<u64> = counts.iter().map(|counts| counts.accepted).collect();
    assert_eq!(
        accepted, expected,
        "new connections follow the table, open ones stay"
    );
    assert!(counts.iter().all(|counts| counts.broken.is_empty()), "{counts:?}");
}
