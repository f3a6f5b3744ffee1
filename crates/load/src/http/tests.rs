//! The generator against scripted servers in a simulated network: TLS in arbitrary segments, failed handshakes, and
//! bodies that wait for 100 Continue.

use super::counts::HttpCounts;
use super::plan::Http;
use super::scenario::{ClientPool, Scenario, UrlEntry};
use crate::failure::Failure;
use crate::live;
use crate::sources::{Steerings, WorkerRequest};
use crate::streams::tls::{certificate, server_configuration};
use crate::streams::{
    Common, Counts, Generator, Outcome, PhaseTimes, RequestCounts, Slot, StreamPlan, Terms, Timeouts,
    TlsCounts,
};
use corelane_worker::Time;
use corelane_worker::crew::Job;
use corelane_worker::engine::simulated::{Network, NetworkSettings, Seat, SimulatedListener};
use corelane_worker::engine::{Engine, EngineSettings, Event, Handler, Id, Ops};
use rustls::{ServerConfig, ServerConnection};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

const SERVER: &str = "10.0.0.1:443";

/// Response of a scripted server to the bytes received and not yet answered.
enum Reply {
    Nothing,
    Bytes(&'static str),
    /// Sends, then closes its side.
    Last(&'static str),
    /// Closes the connection without close_notify.
    Cut(&'static str),
}

type Script = fn(&mut Vec<u8>) -> Reply;

struct Server {
    tls: Option<Arc<ServerConfig>>,
    script: Script,
    last: Time,
    talks: HashMap<Id, (Option<ServerConnection>, Vec<u8>)>,
}

impl Server {
    /// Serves until nothing has happened for one virtual minute.
    fn serve(mut self, seat: Seat, listener: SimulatedListener, settings: &EngineSettings) {
        let mut engine = seat.engine(settings).unwrap();
        engine.ops().listen(listener).unwrap();
        self.last = engine.now();
        while engine.now().since(self.last) < Duration::from_secs(60) {
            let until = engine.now() + Duration::from_secs(1);
            engine.turn(until, &mut self).unwrap();
        }
    }
}

impl Handler for Server {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        self.last = now;
        let mut bytes = match event {
            Event::Opened { .. } => {
                let session = |tls: &Arc<ServerConfig>| ServerConnection::new(Arc::clone(tls)).unwrap();
                let session = self.tls.as_ref().map(session);
                self.talks.insert(id, (session, Vec::new()));
                return;
            }
            Event::Bytes(bytes) => bytes,
            Event::PeerClosed => return ops.close(id),
            Event::Closed(_) => {
                self.talks.remove(&id);
                return;
            }
            _ => return,
        };
        let Some((session, request)) = self.talks.get_mut(&id) else {
            return;
        };
        let Some(session) = session else {
            request.extend_from_slice(bytes);
            match (self.script)(request) {
                Reply::Nothing => {}
                Reply::Bytes(text) => ops.write(id, text.as_bytes()).unwrap(),
                Reply::Last(text) | Reply::Cut(text) => {
                    ops.write(id, text.as_bytes()).unwrap();
                    ops.shutdown(id);
                }
            }
            return;
        };
        while !bytes.is_empty() {
            session.read_tls(&mut bytes).unwrap();
            if session.process_new_packets().is_err() {
                return ops.close(id);
            }
        }
        let before = request.len();
        let _ = session.reader().read_to_end(request);
        let reply = if request.len() > before {
            (self.script)(request)
        } else {
            Reply::Nothing
        };
        if let Reply::Bytes(text) | Reply::Last(text) | Reply::Cut(text) = &reply {
            session.writer().write_all(text.as_bytes()).unwrap();
        }
        if let Reply::Last(_) = reply {
            session.send_close_notify();
        }
        let mut flight = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut flight).unwrap();
        }
        ops.write(id, &flight).unwrap();
        if let Reply::Last(_) | Reply::Cut(_) = reply {
            ops.shutdown(id);
        }
    }
}

/// One request on one connection, with the test's changes.
fn scenario(url: &str) -> Scenario {
    let client = ClientPool {
        connections: 1,
        ..ClientPool::default()
    };
    let mut scenario = Scenario::of_url(&url.parse().unwrap(), client, UrlEntry::default());
    scenario.server[0].addresses = vec![SERVER.parse().unwrap()];
    scenario.requests = Some(3);
    scenario
}

fn plan(scenario: &Scenario) -> StreamPlan<Http> {
    let workers = WorkerRequest {
        steering: Steerings::default(),
        buckets: None,
        cpus: vec![0],
        descriptor_limit: 1_000,
    };
    let timeouts = Timeouts {
        connect_s: 3.0,
        continue_s: 1.0,
        first_byte_s: 5.0,
        request_s: 7.0,
        drain_s: 10.0,
    };
    scenario.plan(&workers, timeouts).unwrap()
}

/// The result of a run.
struct Ran {
    requests: RequestCounts<HttpCounts>,
    outcome: Outcome<Http>,
}

impl Ran {
    fn counts(&self) -> &Counts<HttpCounts> {
        &self.outcome.groups[0].tally.counts
    }

    fn tls(&self) -> &TlsCounts {
        self.counts().tls.as_ref().unwrap()
    }

    /// The failures that occurred, by name.
    fn failures(&self) -> Vec<(&'static str, u64)> {
        let occurred = self.requests.by_cause.occurred();
        occurred.map(|(failure, count)| (failure.name(), count)).collect()
    }
}

/// Runs the generator to its end; both sides receive at most this many bytes at a time.
fn run(scenario: &Scenario, tls: Option<Arc<ServerConfig>>, script: Script, piece: usize) -> Ran {
    let network = Network::new(NetworkSettings::default());
    let listener = network.listener(SERVER.parse().unwrap()).unwrap();
    let (server_seat, client_seat) = (network.seat(), network.seat());
    let server = Server {
        tls,
        script,
        last: Time::default(),
        talks: HashMap::new(),
    };
    let settings = EngineSettings {
        stream_buffer_bytes: piece,
        ..EngineSettings::default()
    };
    let plan = plan(scenario);
    let common = Arc::new(Common {
        observer: None,
        terms: Terms::of_plan(&plan).unwrap(),
        stop: Arc::default(),
        phases: PhaseTimes::new(plan.phases.len()),
        quotas: None,
        plan,
    });
    std::thread::scope(|scope| {
        let server_settings = settings.clone();
        scope.spawn(move || server.serve(server_seat, listener, &server_settings));
        let mut engine = client_seat.engine(&settings).unwrap();
        let live = live::workers([0].into_iter());
        let mut generator = Generator::new(Arc::clone(&common), 0, live, engine.now());
        generator.prepare(&mut engine).unwrap();
        let start = engine.now();
        common.phases.begin(0, start, &common.plan.phases);
        let at_rest = |slot: &Slot<Http>| slot.connection.is_idle() || slot.connection.is_closed();
        let resting = generator.slots.iter().all(at_rest);
        assert!(resting, "every connection is open or has failed");
        let outcome = generator.run(&mut engine, start).unwrap();
        Ran {
            requests: outcome.groups[0].tally.counts.requests.clone(),
            outcome,
        }
    })
}

/// Sends `ok` to every request.
fn ok(request: &mut Vec<u8>) -> Reply {
    if request.ends_with(b"\r\n\r\n") {
        request.clear();
        return Reply::Bytes("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
    Reply::Nothing
}

#[test]
fn over_tls_in_pieces_of_any_size_requests_are_answered() {
    let (file, certificate, key) = certificate(&["server.example"]);
    for piece in (1..64).chain([1_000, 65_536]) {
        let mut scenario = scenario("https://server.example/");
        scenario.client[0].ca = Some(file.path().to_owned());
        let server = server_configuration(&certificate, &key, rustls::ALL_VERSIONS);
        let ran = run(&scenario, Some(server), ok, piece);
        assert_eq!((ran.requests.ok, ran.failures()), (3, vec![]), "{piece}");
        assert_eq!(ran.counts().connections.open_at_end, 1);
        assert_eq!((ran.tls().handshakes_full, ran.tls().verified), (1, true));
        let counts = ran.counts();
        assert_eq!(counts.bytes.received, 3 * 40, "in plain");
        assert!(ran.tls().bytes_received > counts.bytes.received && ran.tls().bytes_sent > counts.bytes.sent);
    }
}

#[test]
fn large_bodies_go_encrypted_as_the_server_takes_them() {
    fn whole(request: &mut Vec<u8>) -> Reply {
        let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Reply::Nothing;
        };
        let done = if request.starts_with(b"PUT") {
            request.ends_with(b"0\r\n\r\n")
        } else {
            request.len() - end - 4 == 1_000_000
        };
        if !done {
            return Reply::Nothing;
        }
        request.clear();
        Reply::Bytes("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    }
    let (file, certificate, key) = certificate(&["server.example"]);
    for (method, chunked) in [("POST", false), ("PUT", true)] {
        let mut scenario = scenario("https://server.example/");
        scenario.client[0].ca = Some(file.path().to_owned());
        let one = &mut scenario.urls[0].entry[0];
        one.method = Some(method.to_owned());
        one.body_size = Some(1_000_000);
        one.chunked = chunked;
        let server = server_configuration(&certificate, &key, rustls::ALL_VERSIONS);
        let ran = run(&scenario, Some(server), whole, 65_536);
        assert_eq!((ran.requests.ok, ran.failures()), (3, vec![]), "{method}");
        assert!(ran.counts().bytes.sent > 3_000_000);
    }
}

#[test]
fn an_answer_that_begins_before_a_large_body_is_sent_does_not_cut_it_short() {
    fn eager(request: &mut Vec<u8>) -> Reply {
        let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Reply::Nothing;
        };
        let head = request.starts_with(b"P");
        if head {
            // Marks the request as answered for the next call.
            request[0] = b'!';
            return Reply::Bytes("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
        }
        if request.len() - end - 4 < 1_000_000 {
            return Reply::Nothing;
        }
        request.clear();
        Reply::Bytes("ok")
    }
    let (file, certificate, key) = certificate(&["server.example"]);
    let mut scenario = scenario("https://server.example/");
    scenario.client[0].ca = Some(file.path().to_owned());
    scenario.urls[0].entry[0].method = Some("POST".to_owned());
    scenario.urls[0].entry[0].body_size = Some(1_000_000);
    let server = server_configuration(&certificate, &key, rustls::ALL_VERSIONS);
    let ran = run(&scenario, Some(server), eager, 65_536);
    assert_eq!((ran.requests.ok, ran.failures()), (3, vec![]));
    assert_eq!(ran.counts().connections.opened, 1);
}

#[test]
fn connections_that_open_again_resume_their_sessions() {
    fn closing(request: &mut Vec<u8>) -> Reply {
        match ok(request) {
            Reply::Bytes(_) => {
                Reply::Last("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
            }
            _ => Reply::Nothing,
        }
    }
    let (file, certificate, key) = certificate(&["server.example"]);
    for (resumption, full) in [(true, 1), (false, 3)] {
        let mut scenario = scenario("https://server.example/");
        scenario.client[0].ca = Some(file.path().to_owned());
        scenario.client[0].resumption = Some(resumption);
        let server = server_configuration(&certificate, &key, rustls::ALL_VERSIONS);
        let ran = run(&scenario, Some(server), closing, 65_536);
        assert_eq!((ran.requests.ok, ran.failures()), (3, vec![]));
        let tls = ran.tls();
        assert_eq!((tls.handshakes_full, tls.handshakes_resumed), (full, 3 - full));
    }
}

#[test]
fn only_an_end_by_the_servers_word_completes_an_answer_without_a_length() {
    fn notified(request: &mut Vec<u8>) -> Reply {
        match ok(request) {
            Reply::Bytes(_) => Reply::Last("HTTP/1.1 200 OK\r\n\r\nok"),
            _ => Reply::Nothing,
        }
    }
    fn cut(request: &mut Vec<u8>) -> Reply {
        match ok(request) {
            Reply::Bytes(_) => Reply::Cut("HTTP/1.1 200 OK\r\n\r\nok"),
            _ => Reply::Nothing,
        }
    }
    let (file, certificate, key) = certificate(&["server.example"]);
    for (script, okay, failures) in [
        (notified as Script, 3, vec![]),
        (cut as Script, 0, vec![("closed_early", 3)]),
    ] {
        let mut scenario = scenario("https://server.example/");
        scenario.client[0].ca = Some(file.path().to_owned());
        let server = server_configuration(&certificate, &key, rustls::ALL_VERSIONS);
        let ran = run(&scenario, Some(server), script, 65_536);
        assert_eq!((ran.requests.ok, ran.failures()), (okay, failures));
    }
    // Without TLS, end of stream is the only end marker.
    let ran = run(&scenario("http://server.example/"), None, cut, 65_536);
    assert_eq!((ran.requests.ok, ran.failures()), (3, vec![]));
}

#[test]
fn handshakes_come_to_nothing_under_names_of_their_own() {
    fn silent(_: &mut Vec<u8>) -> Reply {
        Reply::Nothing
    }
    fn plain(request: &mut Vec<u8>) -> Reply {
        request.clear();
        Reply::Last("HTTP/1.1 400 Bad Request\r\n\r\n")
    }
    fn gone(request: &mut Vec<u8>) -> Reply {
        request.clear();
        Reply::Last("")
    }
    let (file, ..) = certificate(&["server.example"]);
    let (_, certificate, key) = certificate(&["server.example"]);
    let server = server_configuration(&certificate, &key, rustls::ALL_VERSIONS);
    for (tls, script, failure) in [
        (None, silent as Script, Failure::HandshakeTimeout),
        (None, plain as Script, Failure::Tls),
        (None, gone as Script, Failure::ClosedEarly),
        (Some(server), ok as Script, Failure::CertificateRefused),
    ] {
        let mut scenario = scenario("https://server.example/");
        scenario.client[0].ca = Some(file.path().to_owned());
        let ran = run(&scenario, tls, script, 65_536);
        let connections = &ran.counts().connections;
        let opened = (connections.opened, connections.open_at_end);
        assert_eq!(opened, (0, 0), "{failure:?}");
        assert!(connections.failed.of(failure) > 0, "{failure:?}: {connections:?}");
        assert_eq!(connections.failed.total(), connections.failed.of(failure));
        assert_eq!(ran.failures(), [(failure.name(), 3)]);
    }
}

/// A request whose body waits for 100 Continue.
fn waiting(url: &str) -> Scenario {
    let mut scenario = scenario(url);
    let one = &mut scenario.urls[0].entry[0];
    one.method = Some("POST".to_owned());
    one.body = Some("body".to_owned());
    one.expect_continue = true;
    scenario
}

/// Whether the bytes received are the complete head, or head and body.
fn head_and_body(request: &[u8]) -> (bool, bool) {
    (request.ends_with(b"\r\n\r\n"), request.ends_with(b"\r\n\r\nbody"))
}

#[test]
fn a_body_is_sent_when_it_is_asked_for_when_nobody_says_anything_and_not_after_an_answer() {
    fn requests_body(request: &mut Vec<u8>) -> Reply {
        match head_and_body(request) {
            (true, _) => Reply::Bytes("HTTP/1.1 100 Continue\r\n\r\n"),
            (_, true) => {
                request.clear();
                Reply::Bytes("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            }
            _ => Reply::Nothing,
        }
    }
    fn requests_body_and_answers(request: &mut Vec<u8>) -> Reply {
        match head_and_body(request) {
            (true, _) => {
                Reply::Bytes("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
            }
            (_, true) => {
                request.clear();
                Reply::Bytes("ok")
            }
            _ => Reply::Nothing,
        }
    }
    fn waits(request: &mut Vec<u8>) -> Reply {
        match head_and_body(request) {
            (_, true) => requests_body(request),
            _ => Reply::Nothing,
        }
    }
    fn answers(request: &mut Vec<u8>) -> Reply {
        assert!(!request.starts_with(b"body"), "no body is wanted");
        match head_and_body(request) {
            (true, _) => {
                request.clear();
                Reply::Bytes("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
            _ => Reply::Nothing,
        }
    }
    let (file, certificate, key) = certificate(&["server.example"]);
    let server = server_configuration(&certificate, &key, rustls::ALL_VERSIONS);
    // Expected counts: continued, refused, sent unasked; connections opened; whether the one-second wait elapsed.
    for (script, expected, opened, takes) in [
        (requests_body as Script, [3, 0, 0], 1, false),
        (requests_body_and_answers as Script, [3, 0, 0], 1, false),
        (waits as Script, [0, 0, 3], 1, true),
        (answers as Script, [0, 3, 0], 3, false),
    ] {
        for piece in [1, 7, 65_536] {
            for tls in [None, Some(Arc::clone(&server))] {
                let scheme = if tls.is_some() { "https" } else { "http" };
                let mut scenario = waiting(&format!("{scheme}://server.example/"));
                scenario.client[0].ca = tls.as_ref().map(|_| file.path().to_owned());
                let ran = run(&scenario, tls, script, piece);
                let (counts, own) = (&ran.requests, &ran.requests.own);
                assert_eq!((counts.ok, ran.failures()), (3, vec![]), "{scheme} {piece}");
                let outcomes = [own.continued, own.body_refused, own.continue_timeouts];
                assert_eq!(outcomes, expected, "{scheme} {piece}");
                let group = &ran.outcome.groups[0];
                assert_eq!(group.tally.counts.connections.opened, opened);
                let latency = group.tally.histograms.latency.summary().unwrap();
                assert_eq!(latency.min_ns >= 1_000_000_000, takes);
                let plan = plan(&scenario);
                let head = plan.pools[0].protocol.requests[0].head.len() as u64;
                let body = if expected[1] > 0 { 0 } else { 4 };
                assert_eq!(group.tally.counts.bytes.sent, 3 * (head + body), "{scheme}");
            }
        }
    }
}
