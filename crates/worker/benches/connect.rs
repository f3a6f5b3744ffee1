//! The rate of opening connections from ports whose replies reach the worker's bucket, against plain `connect`, for which
//! the kernel chooses the port: over loopback, TCP through the epoll engine with a number of attempts at a time, and
//! connected UDP sockets. Each connection is reset as soon as it is open, so that no port rests.
//!
//! Rounds of both ways are interleaved; the result is the median of the rates of each, and the median of the ratios of
//! neighbouring rounds.
//!
//! `cargo bench -p corelane-worker --bench connect` takes about 20 seconds. The argument after `--` is the number of rounds.
//! Exit code: 0 if the target is met, 1 if not.

use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering};
use corelane_worker::engine::{
    ConnectOptions, Engine, EngineBody, EngineKind, EngineSettings, Event, Handler, Id, Ops, run_engine,
};
use corelane_worker::outgoing::{Connector, ConnectorSource, Lease, Release};
use corelane_worker::{Time, WorkerSettings, spawn};
use socket2::{Domain, Socket, Type};
use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 15;

/// The least ratio of aligned to plain.
const TARGET: f64 = 0.9;

/// Connections per round, fewer than the backlog of the listener holds: one that is full drops attempts, which are repeated
/// a second later.
const CONNECTIONS: usize = 4_000;

const BACKLOG: i32 = 4_096;

/// Attempts at a time.
const AT_ONCE: usize = 64;

/// Connections that the server holds before it closes the oldest.
const HELD: usize = 512;

/// The client serves one bucket of this many.
const BUCKETS: usize = 8;

/// Opens connections and resets them.
struct Client {
    server: SocketAddr,
    /// Picks the source; `None`: the kernel does.
    connector: Option<Connector>,
    sources: HashMap<usize, ConnectorSource>,
    begun: usize,
    ended: usize,
    opened: usize,
}

impl Client {
    fn begin(&mut self, ops: &mut Ops, now: Time) {
        self.begun += 1;
        let options = ConnectOptions::default();
        let Some(connector) = &mut self.connector else {
            ops.connect(self.server, options);
            return;
        };
        let begun = connector.tcp(ops, self.server, options, now);
        let (id, source) = begun.expect("a lease of the server's family");
        self.sources.insert(id.slot(), source);
    }
}

impl Handler for Client {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        match event {
            Event::Opened { .. } => {
                self.opened += 1;
                ops.abort(id);
            }
            Event::Closed(_) => {
                self.ended += 1;
                if let (Some(connector), Some(source)) =
                    (&mut self.connector, self.sources.remove(&id.slot()))
                {
                    connector.release(source, Release::Free, now);
                }
                if self.begun < CONNECTIONS {
                    self.begin(ops, now);
                }
            }
            _ => {}
        }
    }
}

impl EngineBody<f64> for Client {
    /// Connections opened per second.
    fn run<E: Engine>(mut self, mut engine: E) -> f64 {
        let began = Instant::now();
        for _ in 0..AT_ONCE {
            let now = engine.now();
            self.begin(engine.ops(), now);
        }
        while self.ended < CONNECTIONS {
            let soon = engine.now() + Duration::from_millis(100);
            engine.turn(soon, &mut self).expect("the engine runs");
        }
        let took = began.elapsed().as_secs_f64();
        assert!(self.opened * 100 >= CONNECTIONS * 99, "{} opened", self.opened);
        if let Some(connector) = &self.connector {
            assert_eq!(connector.counts().unaligned, 0);
        }
        self.opened as f64 / took
    }
}

/// The connector of one bucket, for the address of the server.
fn connector(server: SocketAddr) -> Connector {
    let steering = Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, BUCKETS).expect("a table"),
        cpus: vec![0; BUCKETS],
        generation: 0,
    };
    Connector::new(&[Lease::of(server.ip())], &steering, &[Bucket::new(3)])
}

fn tcp(server: SocketAddr, aligned: bool) -> f64 {
    let client = Client {
        server,
        connector: aligned.then(|| connector(server)),
        sources: HashMap::new(),
        begun: 0,
        ended: 0,
        opened: 0,
    };
    run_engine(EngineKind::Epoll, &EngineSettings::default(), client).expect("an engine")
}

fn udp(server: SocketAddr, aligned: bool) -> f64 {
    let mut connector = connector(server);
    let began = Instant::now();
    for _ in 0..CONNECTIONS {
        if aligned {
            let (socket, source) = connector.udp(server, Time::now()).expect("a port");
            drop(socket);
            connector.release(source, Release::Free, Time::now());
        } else {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.connect(server).expect("a route");
        }
    }
    CONNECTIONS as f64 / began.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs both ways in turn and prints their rates and the ratio.
/// Prints the rates of both ways and returns whether the target is met.
fn compare(what: &str, rounds: usize, rate: impl Fn(bool) -> f64) -> bool {
    rate(false);
    rate(true);
    let rounds: Vec<[f64; 2]> = (0..rounds)
        .map(|round| {
            // Each comes first as often as second.
            let first = round % 2 == 1;
            let (one, other) = (rate(first), rate(!first));
            if first { [other, one] } else { [one, other] }
        })
        .collect();
    let rates = [0, 1].map(|way| median(rounds.iter().map(|rates| rates[way]).collect()));
    let ratio = median(rounds.iter().map(|[plain, aligned]| aligned / plain).collect());
    println!(
        "{what}: plain {:.0}/s, aligned {:.0}/s, ratio {ratio:.3} (target: at least {TARGET})",
        rates[0], rates[1]
    );
    ratio >= TARGET
}

fn main() {
    let rounds = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok());
    let rounds = rounds.unwrap_or(ROUNDS);
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    listener.bind(&any_port.into()).expect("a port");
    listener.listen(BACKLOG).expect("a listener");
    let listener = TcpListener::from(listener);
    let server = listener.local_addr().expect("its address");
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    // Not joined: it waits for connections until the process ends.
    std::thread::spawn(move || {
        let mut held = VecDeque::new();
        for connection in listener.incoming() {
            held.extend(connection);
            count.fetch_add(1, Ordering::Relaxed);
            if held.len() > HELD {
                held.pop_front();
            }
        }
    });
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let of_receiver = receiver.local_addr().expect("its address");
    let bench = move || {
        let tcp = compare("TCP", rounds, |aligned| {
            let rate = tcp(server, aligned);
            // The next round finds an empty queue.
            while accepted.load(Ordering::Relaxed) < CONNECTIONS {
                std::thread::yield_now();
            }
            accepted.store(0, Ordering::Relaxed);
            rate
        });
        compare("UDP", rounds, |aligned| udp(of_receiver, aligned)) && tcp
    };
    let settings = WorkerSettings::new("client".to_owned(), 0);
    let is_met = spawn(settings, bench).expect("a thread").join().expect("it ends");
    std::process::exit(i32::from(!is_met));
}
