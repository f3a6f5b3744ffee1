//! The server's cost per datagram for each method of receiving and sending: an echo server on one CPU, and a client on
//! another that keeps a window of datagrams in transit, over loopback.
//!
//! The result is the number of datagrams echoed per second of the server's CPU time; the reference is a plain loop of
//! one `recvfrom` and one `sendto` per datagram. Rounds of all methods are interleaved, and the medians compared.
//! `any address`: the socket is on the wildcard address, and each answer leaves from the address that was asked.
//! Merged datagrams cross loopback unsegmented; each datagram in them is counted.
//!
//! `cargo bench -p corelane-worker` takes about a minute. Arguments after `--`: the number of rounds, and a single
//! method to run besides the reference (for a profiler).

use corelane_worker::engine::{
    Engine, EngineBody, EngineKind, EngineSettings, Event, Handler, Id, Ops, choose, run_engine,
};
use corelane_worker::group::{self, GroupSettings};
use corelane_worker::{Time, WorkerSettings, spawn};
use nix::time::{ClockId, clock_gettime};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The payload size of the blog posts that the project repeats.
const PAYLOAD: usize = 510;

/// Datagrams in transit at once: several batches, so that the server never waits for the client.
const WINDOW: usize = 512;

/// Receive buffers large enough for the window, including the kernel's overhead per datagram.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The method that the others are compared with.
const REFERENCE: &str = "bare loop";

const WARM_UP: Duration = Duration::from_millis(100);
const MEASURED: Duration = Duration::from_millis(500);
const ROUNDS: usize = 11;

/// A method of receiving and sending datagrams.
struct Way {
    name: &'static str,
    server: Server,
    /// Datagrams that the client sends back to back on one socket.
    burst: usize,
}

#[derive(Clone)]
enum Server {
    /// `recvfrom` and `sendto`, blocking, without an engine.
    Bare,
    Engine(EngineKind, EngineSettings),
}

fn ways() -> Vec<Way> {
    let settings = |batch, coalesce, gro| EngineSettings {
        datagram_batch: batch,
        coalesce,
        gro,
        ..EngineSettings::default()
    };
    let everywhere = |settings| EngineSettings {
        destinations: true,
        ..settings
    };
    let way = |name, kind, settings, burst| Way {
        name,
        server: Server::Engine(kind, settings),
        burst,
    };
    let (epoll, uring) = (EngineKind::Epoll, EngineKind::IoUring);
    let mut ways = vec![
        Way {
            name: REFERENCE,
            server: Server::Bare,
            burst: 64,
        },
        way("one at a time", epoll, settings(1, false, false), 64),
        way("batched", epoll, settings(64, false, false), 64),
        way("io_uring", uring, settings(64, false, false), 64),
        way("any address", epoll, everywhere(settings(64, false, false)), 64),
        way(
            "io_uring any address",
            uring,
            everywhere(settings(64, false, false)),
            64,
        ),
        way("coalesced", epoll, settings(64, true, false), 64),
        way("io_uring coalesced", uring, settings(64, true, false), 64),
        way("gro+gso 16", epoll, settings(64, true, true), 16),
        way("gro+gso 64", epoll, settings(64, true, true), 64),
        way("io_uring gro+gso 64", uring, settings(64, true, true), 64),
    ];
    if let Some(reason) = choose(Some(uring)).reason {
        println!("without io_uring: {reason}");
        ways.retain(|way| !matches!(way.server, Server::Engine(EngineKind::IoUring, _)));
    }
    ways
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|text| !text.starts_with('-'))
        .collect();
    let rounds = arguments.iter().find_map(|text| text.parse().ok());
    let rounds = rounds.unwrap_or(ROUNDS);
    let only = arguments.iter().find(|text| text.parse::<usize>().is_err());
    let mut ways = ways();
    ways.retain(|way| way.name == REFERENCE || only.is_none_or(|only| way.name == only));
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        for (way, rates) in ways.iter().zip(&mut rates) {
            rates.push(measure(way));
        }
    }
    let medians: Vec<f64> = rates.into_iter().map(median).collect();
    println!("UDP echo of {PAYLOAD} bytes over loopback, medians of {rounds} rounds:");
    println!("{:<22}{:>26}{:>8}", "way", "datagrams/CPU-second", "ratio");
    for (way, rate) in ways.iter().zip(&medians) {
        println!("{:<22}{:>26.0}{:>8.2}", way.name, rate, rate / medians[0]);
    }
}

/// Measures one method; returns the number of datagrams echoed per second of the server's CPU time.
fn measure(way: &Way) -> f64 {
    let destinations = matches!(&way.server, Server::Engine(_, settings) if settings.destinations);
    let group_settings = GroupSettings {
        receive_buffer: Some(RECEIVE_BUFFER),
        destinations,
        ..GroupSettings::default()
    };
    let loopback = Ipv4Addr::LOCALHOST;
    let anywhere = SocketAddr::from((
        if destinations {
            Ipv4Addr::UNSPECIFIED
        } else {
            loopback
        },
        0,
    ));
    let mut socket = group::udp(anywhere, 1, None, &group_settings).expect("a socket of the server");
    let socket = socket.pop().expect("a group of one");
    let port = socket.local_addr().expect("a bound socket").port();
    let stop = Arc::new(AtomicBool::new(false));
    let cpus = cpus();
    let client_stop = Arc::clone(&stop);
    let client = Client {
        server: (loopback, port).into(),
        burst: way.burst,
        stop: client_stop,
    };
    let on = |cpu, name: &str| WorkerSettings::new(name, cpu);
    let server = way.server.clone();
    let server = spawn(on(cpus[0], way.name), move || serve(server, socket)).expect("a server");
    let client = spawn(on(cpus[cpus.len() - 1], "client"), move || {
        // The fastest method, so that the server always has datagrams. For a server that does not merge, the kernel
        // segments them on the client's side.
        let settings = EngineSettings {
            coalesce: true,
            gro: true,
            ..EngineSettings::default()
        };
        run_engine(EngineKind::Epoll, &settings, client).expect("a client");
    })
    .expect("a client");
    let rate = server.join().expect("the server ends");
    stop.store(true, Ordering::Relaxed);
    client.join().expect("the client ends");
    rate
}

fn serve(server: Server, socket: UdpSocket) -> f64 {
    match server {
        Server::Bare => serve_bare(&socket),
        Server::Engine(kind, settings) => {
            run_engine(kind, &settings, Echo { socket }).expect("the engine runs")
        }
    }
}

/// The measured phase of a server: after the warm-up, until the time is over.
struct Measurement {
    begins: Time,
    ends: Time,
    at_begin: Option<(u64, f64)>,
}

impl Measurement {
    fn new() -> Self {
        let begins = Time::now() + WARM_UP;
        Self {
            begins,
            ends: begins + MEASURED,
            at_begin: None,
        }
    }

    /// The result, once the time is over.
    fn check(&mut self, now: Time, answered: u64) -> Option<f64> {
        if now < self.begins {
            return None;
        }
        let (first, cpu) = *self.at_begin.get_or_insert_with(|| (answered, cpu_seconds()));
        (now >= self.ends).then(|| (answered - first) as f64 / (cpu_seconds() - cpu))
    }
}

fn serve_bare(socket: &UdpSocket) -> f64 {
    let mut measurement = Measurement::new();
    let mut buffer = [0; 65_535];
    let mut answered = 0;
    loop {
        for _ in 0..64 {
            let (length, peer) = socket.recv_from(&mut buffer).expect("a datagram");
            socket.send_to(&buffer[..length], peer).expect("an answer");
            answered += 1;
        }
        if let Some(rate) = measurement.check(Time::now(), answered) {
            return rate;
        }
    }
}

struct Echo {
    socket: UdpSocket,
}

impl EngineBody<f64> for Echo {
    fn run<E: Engine>(self, mut engine: E) -> f64 {
        engine
            .ops()
            .datagrams(self.socket)
            .expect("the socket is registered");
        let mut measurement = Measurement::new();
        let mut echo = |ops: &mut Ops, _: Time, id: Id, event: Event<'_>| {
            if let Event::Datagrams(datagrams) = event {
                for datagram in datagrams {
                    let payload = datagram.payload;
                    let fill = |buffer: &mut [u8]| buffer.copy_from_slice(payload);
                    let (from, to) = (datagram.destination, Some(datagram.peer));
                    let queued = ops.send_from(id, from, to, payload.len(), fill);
                    queued.expect("the arena holds a turn");
                }
            }
        };
        loop {
            let now = engine.now();
            if let Some(rate) = measurement.check(now, engine.ops().counters().sent) {
                return rate;
            }
            engine
                .turn(now + Duration::from_millis(5), &mut echo)
                .expect("the engine turns");
        }
    }
}

/// Keeps the window in transit: each socket sends a burst when the previous one has returned.
struct Client {
    server: SocketAddr,
    burst: usize,
    stop: Arc<AtomicBool>,
}

struct Bursts {
    size: usize,
    /// The number of datagrams that each socket still waits for.
    missing: Vec<usize>,
    ids: Vec<Id>,
    last_progress: Time,
}

impl Bursts {
    fn send(&mut self, ops: &mut Ops, index: usize) {
        self.missing[index] = self.size;
        for _ in 0..self.size {
            let queued = ops.send_to(self.ids[index], None, PAYLOAD, |_| {});
            queued.expect("the arena holds the window");
        }
    }
}

impl Handler for Bursts {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        if let Event::Datagrams(datagrams) = event {
            self.last_progress = now;
            let index = id.slot();
            self.missing[index] = self.missing[index].saturating_sub(datagrams.count());
            if self.missing[index] == 0 {
                self.send(ops, index);
            }
        }
    }
}

impl EngineBody<()> for Client {
    fn run<E: Engine>(self, mut engine: E) {
        let count = WINDOW / self.burst;
        let ids = (0..count).map(|_| {
            let settings = GroupSettings {
                receive_buffer: Some(RECEIVE_BUFFER),
                ..GroupSettings::default()
            };
            let mut socket =
                group::udp(([127, 0, 0, 1], 0).into(), 1, None, &settings).expect("a client's socket");
            let socket = socket.pop().expect("a group of one");
            socket.connect(self.server).expect("a connected socket");
            let registered = engine.ops().datagrams(socket);
            registered.expect("the socket is registered")
        });
        let mut bursts = Bursts {
            size: self.burst,
            missing: vec![0; count],
            ids: ids.collect(),
            last_progress: Time::now(),
        };
        (0..count).for_each(|index| bursts.send(engine.ops(), index));
        while !self.stop.load(Ordering::Relaxed) {
            // Never waits: the server would pay for waking the client.
            engine
                .turn(Time::default(), &mut bursts)
                .expect("the engine turns");
            if Time::now().since(bursts.last_progress) > Duration::from_millis(20) {
                (0..count).for_each(|index| bursts.send(engine.ops(), index));
                bursts.last_progress = Time::now();
            }
        }
    }
}

fn cpus() -> Vec<u32> {
    corelane_host::cpus::allowed()
        .expect("the CPUs this process may use")
        .cpus
}

fn cpu_seconds() -> f64 {
    let read = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every thread has a CPU clock");
    read.tv_sec() as f64 + read.tv_nsec() as f64 * 1e-9
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
