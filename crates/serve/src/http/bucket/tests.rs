//! Slow clients and others at one bucket, in the simulated network under its virtual clock: clients that send heads at
//! one byte per second, or stop reading, use a bounded share, and the latency of others is the same as without them.

use super::*;
use crate::check::Checked;
use crate::http::connection::PAUSE;
use crate::http::output::INPUT_BYTES;
use crate::http::plan::HttpLimits;
use crate::http::protocol::Http;
use crate::shared::lock;
use crate::streams::{ConnectionCounts, Protocol};
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use corelane_worker::engine::simulated::{Network, NetworkSettings, Seat, SimulatedListener};
use corelane_worker::engine::{ConnectOptions, Engine, EngineSettings, StreamCounters};
use std::collections::BTreeMap;
use std::time::Duration;

const SERVER: &str = "10.0.0.1:80";
const DELAY: Duration = Duration::from_millis(1);

/// Interval between the steps of the clients.
const TICK: Duration = Duration::from_millis(100);
const TICKS_A_BYTE: u32 = 10;

const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Long enough for every deadline to pass twice.
const LENGTH: Duration = Duration::from_secs(22);

/// Slightly more than the window of a body: one piece of the pattern.
const MOST_QUEUED: u64 = (4 << 20) + (1 << 20);

/// Slightly more than a client that pipelines small requests can have queued: one response.
const MOST_PIPELINED: u64 = PAUSE + 4_096;

/// Requests of such a client: more than it can have queued, and more than the server reads at once.
const PIPELINED: usize = 10_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Sends a request, reads the response, repeats.
    Quick,
    /// Sends its head at one byte per second.
    SlowHead,
    /// Requests a large object, and reads nothing.
    StoppedReader,
    /// Requests many small objects at once, and reads nothing.
    Pipeliner,
}

#[derive(Default)]
struct Clients {
    of: BTreeMap<usize, Client>,
    latencies: Vec<Duration>,
}

struct Client {
    id: Id,
    role: Role,
    open: bool,
    /// When the pending request was sent, and the bytes of its response so far.
    asked: Option<Time>,
    received: Vec<u8>,
    sent: usize,
}

const QUICK: &[u8] = b"GET /size/1000 HTTP/1.1\r\nHost: a\r\n\r\n";
const MUCH: &[u8] = b"GET /size/1073741824 HTTP/1.1\r\nHost: a\r\n\r\n";

impl Handler for Clients {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        let Some(client) = self.of.get_mut(&id.slot()) else {
            return;
        };
        match event {
            Event::Opened { .. } => {
                client.open = true;
                let requests = match client.role {
                    Role::StoppedReader => MUCH.to_vec(),
                    Role::Pipeliner => QUICK.repeat(PIPELINED),
                    _ => return,
                };
                ops.write(id, &requests).unwrap();
                ops.receive(id, false);
            }
            Event::Bytes(bytes) if client.role == Role::Quick => {
                client.received.extend_from_slice(bytes);
                let head = client.received.windows(4).position(|end| end == b"\r\n\r\n");
                if head.is_some_and(|head| client.received.len() == head + 4 + 1_000) {
                    assert!(client.received.starts_with(b"HTTP/1.1 200 "));
                    self.latencies.push(now.since(client.asked.take().unwrap()));
                    client.received.clear();
                }
            }
            Event::PeerClosed => ops.close(id),
            Event::Closed(_) => client.open = false,
            _ => {}
        }
    }
}

impl Clients {
    fn tick(&mut self, ops: &mut Ops, tick: u32, now: Time) {
        for client in self.of.values_mut().filter(|client| client.open) {
            match client.role {
                Role::Quick if client.asked.is_none() => {
                    client.asked = Some(now);
                    ops.write(client.id, QUICK).unwrap();
                }
                Role::SlowHead if tick.is_multiple_of(TICKS_A_BYTE) => {
                    ops.write(client.id, &QUICK[client.sent..=client.sent]).unwrap();
                    client.sent += 1;
                }
                _ => {}
            }
        }
    }
}

/// The sorted latencies of the clients, and the counts of the bucket and of its engine.
fn run(roles: &[(Role, usize)]) -> (Vec<Duration>, Arc<CachePadded<HttpCounters>>, StreamCounters) {
    let pipelined = roles.iter().any(|(role, _)| *role == Role::Pipeliner);
    let network = Network::new(NetworkSettings {
        delay: DELAY,
        ..NetworkSettings::default()
    });
    let address: SocketAddr = SERVER.parse().unwrap();
    let listener = network.listener(address).unwrap();
    let counters = Arc::<CachePadded<HttpCounters>>::default();
    let (seat, counted) = (network.seat(), Arc::clone(&counters));
    let mut engine = network.engine(&EngineSettings::default()).unwrap();
    let end = engine.now() + LENGTH;
    let (latencies, streams) = std::thread::scope(|scope| {
        let server = scope.spawn(move || serve(seat, listener, counted, end, pipelined));
        let mut clients = Clients::default();
        for (role, count) in roles {
            for _ in 0..*count {
                let id = engine.ops().connect(address, ConnectOptions::default());
                let client = Client {
                    id,
                    role: *role,
                    open: false,
                    asked: None,
                    received: Vec::new(),
                    sent: 0,
                };
                clients.of.insert(id.slot(), client);
            }
        }
        let (mut tick, mut due) = (0, engine.now() + TICK);
        while engine.now() < end {
            engine.turn(due.min(end), &mut clients).unwrap();
            if engine.now() >= due {
                tick += 1;
                due = due + TICK;
                let now = engine.now();
                clients.tick(engine.ops(), tick, now);
            }
        }
        (clients.latencies, server.join().unwrap())
    });
    (latencies, counters, streams)
}

fn serve(
    seat: Seat,
    listener: SimulatedListener,
    counters: Arc<CachePadded<HttpCounters>>,
    end: Time,
    pipelined: bool,
) -> StreamCounters {
    let steering = Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, 1).unwrap(),
        cpus: vec![0],
        generation: 0,
    };
    let plan = HttpPlan {
        limits: HttpLimits {
            head_ms: HEAD_TIMEOUT.as_millis() as u64,
            write_ms: WRITE_TIMEOUT.as_millis() as u64,
            ..HttpLimits::default()
        },
        ..HttpPlan::new(SERVER.parse().unwrap(), steering)
    };
    let settings = Http::engine(&plan).1;
    let mut bucket = Bucket::new(Arc::new(plan), None, counters, None);
    let mut engine = seat.engine(&settings).unwrap();
    engine.ops().listen(listener).unwrap();
    let now = engine.now();
    bucket.begin(engine.ops(), now, Vec::new()).unwrap();
    while engine.now() < end {
        let until = bucket.next_due().min(end);
        engine.turn(until, &mut bucket).unwrap();
        let now = engine.now();
        bucket.turned(engine.ops(), now);
        for (id, slot) in bucket.connections.iter() {
            let queued = engine.ops().queued(id);
            let most = if pipelined { MOST_PIPELINED } else { MOST_QUEUED };
            assert!(queued <= most, "{queued} bytes are queued on one connection");
            let kept = slot.connection.kept();
            assert!(kept <= INPUT_BYTES, "{kept} bytes of requests are kept");
        }
    }
    engine.ops().counters().streams
}

fn p99(latencies: &mut [Duration]) -> Duration {
    latencies.sort();
    latencies[latencies.len() * 99 / 100]
}

#[test]
fn slow_clients_hold_their_share_and_the_others_latency_stays() {
    const QUICK_ONES: usize = 20;
    const SLOW: usize = 300;
    const STOPPED: usize = 50;
    let (mut alone, ..) = run(&[(Role::Quick, QUICK_ONES)]);
    let (mut among, counters, streams) = run(&[
        (Role::SlowHead, SLOW),
        (Role::StoppedReader, STOPPED),
        (Role::Quick, QUICK_ONES),
    ]);
    assert!(alone.len() > QUICK_ONES * 200, "{}", alone.len());
    assert_eq!(among.len(), alone.len(), "every request is answered, and as soon");
    let (alone, among) = (p99(&mut alone), p99(&mut among));
    assert!(
        among <= alone * 2,
        "p99 {alone:?} without, {among:?} with slow clients"
    );
    let faults = lock(&counters.faults);
    assert_eq!(faults[&"head_timeout"], SLOW as u64, "{faults:?}");
    assert_eq!(faults[&"write_timeout"], STOPPED as u64, "{faults:?}");
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert_eq!(
        ConnectionCounts::of(&streams, &Checked::default(), 0, 0).open,
        QUICK_ONES as u64
    );
}

#[test]
fn a_client_that_pipelines_and_does_not_read_holds_little() {
    const PIPELINERS: usize = 20;
    let (_, counters, _) = run(&[(Role::Pipeliner, PIPELINERS)]);
    let faults = lock(&counters.faults);
    assert_eq!(faults[&"write_timeout"], PIPELINERS as u64, "{faults:?}");
}
