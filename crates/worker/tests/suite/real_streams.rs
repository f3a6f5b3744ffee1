//! Tests of streams that need a real engine: system calls, timeouts, foreign peers, and Unix sockets.

use crate::suite::streams::{Log, listening, pair};
use crate::suite::world::{World, on_epoll, on_io_uring, until};
use corelane_tests::PATIENCE;
use corelane_worker::Time;
use corelane_worker::engine::{Cause, ConnectOptions, Engine, EngineSettings, Event, Id, Ops, Remote};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

/// Runs a case on both real engines.
macro_rules! on_real_engines {
    ($case:ident) => {
        on_real_engines!($case, EngineSettings::default())
    };
    ($case:ident, $settings:expr) => {{
        struct ThisCase;
        impl crate::suite::world::Case for ThisCase {
            fn run<E: Engine>(self, engine: E, world: &dyn World) {
                $case(engine, world);
            }
        }
        corelane_tests::undisturbed(|| on_epoll(&$settings, ThisCase));
        corelane_tests::undisturbed(|| on_io_uring(&$settings, ThisCase));
    }};
}

fn one_send(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    let before = engine.ops().counters().calls.send;
    for number in 0..100u8 {
        engine.ops().write(client, &[number; 50]).unwrap();
        engine.ops().write_static(client, b"\r\n");
    }
    until(&mut engine, &mut log, "all arrived", |_, log| {
        log.of(server).len() == 5_200
    });
    let calls = engine.ops().counters().calls.send - before;
    // Sixteen pieces per call.
    assert!(calls <= 13, "{calls} calls");
    let before = engine.ops().counters().calls.send;
    (0..100u8).for_each(|number| engine.ops().write(client, &[number; 50]).unwrap());
    until(&mut engine, &mut log, "all arrived", |_, log| {
        log.of(server).len() == 10_200
    });
    // io_uring combines it with another call.
    assert!(engine.ops().counters().calls.send - before <= 1);
}

#[test]
fn what_is_written_in_one_turn_leaves_in_one_call() {
    on_real_engines!(one_send);
}

fn gathering(mut engine: impl Engine, world: &dyn World) {
    const GATHER: Duration = Duration::from_millis(30);
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    for _ in 0..3 {
        let now = engine.now();
        engine.turn(now, &mut log).unwrap();
    }
    let before = engine.now();
    engine.turn(before, &mut log).unwrap();
    engine.ops().write(client, b"early").unwrap();
    engine.ops().gather(GATHER);
    engine.turn(Time::NEVER, &mut log).unwrap();
    assert!(engine.now() >= before + GATHER);
    // It applies to one turn: the next one waits only for bytes.
    until(&mut engine, &mut log, "it arrived", |_, log| {
        log.of(server) == b"early"
    });
}

#[test]
fn arrivals_gather_for_the_requested_time() {
    on_real_engines!(gathering);
}

/// A listener with a full backlog, which does not respond to further handshakes.
fn timed_out(mut engine: impl Engine, _: &dyn World) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&anywhere.into()).unwrap();
    socket.listen(0).unwrap();
    let address = TcpListener::from(socket);
    let (_listener, address) = (&address, address.local_addr().unwrap());
    let mut log = Log::default();
    let mut options = ConnectOptions::default();
    options.timeout = Some(Duration::from_millis(200));
    let clients: Vec<_> = (0..8).map(|_| engine.ops().connect(address, options)).collect();
    until(&mut engine, &mut log, "some timed out", |_, log| {
        clients
            .iter()
            .all(|client| log.is_open(*client) || log.cause(*client).is_some())
    });
    assert!(log.closed.len() >= 6, "{:?}", log.closed);
    assert!(
        log.closed.iter().all(|(_, cause)| *cause == Cause::TimedOut),
        "{:?}",
        log.closed
    );
    let counters = engine.ops().counters().streams;
    assert_eq!(
        counters.connected.failed.of(Cause::TimedOut),
        log.closed.len() as u64
    );
}

#[test]
fn an_attempt_to_connect_ends_when_its_time_is_up() {
    on_real_engines!(timed_out);
}

/// The other end is a plain socket of another thread, which closes with unread bytes and so resets the connection.
fn foreign_peers(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log {
        echo: Some(listener),
        ..Log::default()
    };
    let peer = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&[7; 100_000]).unwrap();
        let mut back = vec![0; 100_000];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, [7; 100_000]);
        stream.write_all(b"never read").unwrap();
        // Bytes of the echo are unread, so the kernel resets the connection.
        stream.peek(&mut [0; 10]).unwrap();
    });
    until(&mut engine, &mut log, "it was reset", |_, log| {
        log.closed.len() == 1
    });
    peer.join().unwrap();
    assert_eq!(log.closed[0].1, Cause::Reset);
    assert_eq!(log.of(log.closed[0].0).len(), 100_010);
}

#[test]
fn a_peer_that_leaves_bytes_unread_resets() {
    on_real_engines!(foreign_peers);
}

fn reset_while_not_receiving(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    engine.ops().receive(server, false);
    // Bytes and the end of the other side are not what is awaited.
    engine.ops().write(client, b"unread").unwrap();
    engine.ops().shutdown(client);
    until(&mut engine, &mut log, "all was sent", |ops, _| {
        ops.queued(client) == 0
    });
    engine.ops().receive(server, true);
    until(&mut engine, &mut log, "it ended", |_, log| log.ended == [server]);
    engine.ops().receive(server, false);
    until(&mut engine, &mut log, "a turn", |_, _| true);
    engine.ops().abort(client);
    until(&mut engine, &mut log, "the reset is noticed", |_, log| {
        log.cause(server).is_some()
    });
    assert_eq!(log.cause(server), Some(Cause::Reset));
}

#[test]
fn a_reset_is_noticed_by_a_connection_that_neither_receives_nor_sends() {
    on_real_engines!(reset_while_not_receiving);
}

/// Bytes that the kernel keeps for an accepted connection of a listener: they were not received yet.
fn kept_by_the_kernel(listener: SocketAddr) -> usize {
    let port = format!(":{:04X}", listener.port());
    let listed = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let queues = listed.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields[1].ends_with(&port) && fields[3] == "01").then(|| fields[4].to_owned())
    });
    let received = queues.expect("an open connection");
    usize::from_str_radix(received.split_once(':').unwrap().1, 16).unwrap()
}

/// Bytes received at once, and most of them after receiving was turned off.
const BURST: usize = 1_000;

fn bursts(mut engine: impl Engine, world: &dyn World) {
    const SENT: usize = 60 * BURST;
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let mut client = TcpStream::connect(address).unwrap();
    until(&mut engine, &mut log, "it is accepted", |_, log| {
        log.accepted(listener).len() == 1
    });
    let server = log.accepted(listener)[0];
    client.write_all(&[7; SENT]).unwrap();
    let mut off = |ops: &mut Ops, now: Time, id: Id, event: Event<'_>| {
        if id == server && matches!(event, Event::Bytes(_)) {
            ops.receive(id, false);
        }
        corelane_worker::engine::Handler::event(&mut log, ops, now, id, event);
    };
    for _ in 0..10 {
        let soon = engine.now() + Duration::from_millis(1);
        engine.turn(soon, &mut off).unwrap();
    }
    let taken = SENT - kept_by_the_kernel(address);
    assert!((1..=2 * BURST).contains(&taken), "{taken} bytes were received");
    assert!(log.of(server).len() <= taken);
    engine.ops().receive(server, true);
    until(&mut engine, &mut log, "all arrived", |_, log| {
        log.of(server).len() == SENT
    });
}

#[test]
fn a_connection_that_stops_receiving_has_received_one_burst() {
    let settings = EngineSettings {
        stream_buffer_bytes: BURST,
        stream_burst_bytes: BURST as u32,
        ..EngineSettings::default()
    };
    on_real_engines!(bursts, settings);
}

/// Turns receiving on one connection on whenever another one receives, which may be between any two of its own arrivals.
fn toggled(mut engine: impl Engine, world: &dyn World) {
    const SENT: usize = 4 << 20;
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let clients = [0, 1].map(|_| TcpStream::connect(address).unwrap());
    until(&mut engine, &mut log, "both are accepted", |_, log| {
        log.accepted(listener).len() == 2
    });
    let [one, other] = log.accepted(listener)[..] else {
        panic!("two were accepted");
    };
    let threads = clients.map(|mut client| {
        std::thread::spawn(move || {
            let bytes: Vec<u8> = (0..SENT).map(|place| (place / 7) as u8).collect();
            bytes
                .chunks(5_000)
                .for_each(|piece| client.write_all(piece).unwrap());
            client
        })
    });
    let mut received = Vec::new();
    let until_then = engine.now() + PATIENCE;
    // Until the other has sent everything, too: its client waits for that.
    while received.len() < SENT || !threads.iter().all(JoinHandle::is_finished) {
        assert!(engine.now() < until_then, "{} bytes", received.len());
        let soon = engine.now() + Duration::from_millis(1);
        let mut handler = |ops: &mut Ops, _: Time, id: Id, event: Event<'_>| match event {
            Event::Bytes(bytes) if id == one => {
                received.extend_from_slice(bytes);
                ops.receive(one, false);
            }
            Event::Bytes(_) if id == other => ops.receive(one, true),
            _ => {}
        };
        engine.turn(soon, &mut handler).unwrap();
        engine.ops().receive(one, true);
    }
    let is_in_order = received
        .iter()
        .enumerate()
        .all(|(place, byte)| *byte == (place / 7) as u8);
    assert!(is_in_order);
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn bytes_stay_in_order_however_receiving_is_turned_off_and_on() {
    let settings = EngineSettings {
        stream_buffer_bytes: 4_096,
        ..EngineSettings::default()
    };
    on_real_engines!(toggled, settings);
}

/// The remote of a path.
fn at(path: &Path) -> Remote {
    format!("unix:{}", path.display()).parse().unwrap()
}

fn to_a_unix_socket(mut engine: impl Engine, _: &dyn World) {
    const SENT: usize = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("echo.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::copy(&mut stream.try_clone().unwrap(), &mut stream).unwrap();
    });
    let mut log = Log::default();
    let client = engine.ops().connect(at(&path), ConnectOptions::default());
    engine.ops().write(client, b"early").unwrap();
    engine.ops().write_shared(client, &vec![7; SENT].into(), 0..SENT);
    until(&mut engine, &mut log, "all came back", |_, log| {
        log.of(client).len() == SENT + 5
    });
    assert_eq!(log.opened, [(client, None, None)]);
    assert!(log.of(client).starts_with(b"early\x07"));
    let ops = engine.ops();
    assert_eq!((ops.local_address(client), ops.information(client)), (None, None));
    ops.shutdown(client);
    until(&mut engine, &mut log, "the server has ended", |_, log| {
        log.ended == [client]
    });
    echo.join().unwrap();
    engine.ops().close(client);
    until(&mut engine, &mut log, "it is closed", |_, log| {
        log.cause(client) == Some(Cause::Asked)
    });
}

#[test]
fn a_connection_to_a_unix_socket_is_like_any_other() {
    on_real_engines!(to_a_unix_socket);
}

fn unix_listener(mut engine: impl Engine, _: &dyn World) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("served.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let listener = engine.ops().listen(listener).unwrap();
    let mut log = Log::default();
    let client = engine.ops().connect(at(&path), ConnectOptions::default());
    engine.ops().write(client, b"request").unwrap();
    until(&mut engine, &mut log, "it is accepted", |_, log| {
        log.accepted(listener).len() == 1
    });
    let server = log.accepted(listener)[0];
    assert!(log.opened.contains(&(server, Some(listener), None)));
    engine.ops().write(server, b"answer").unwrap();
    until(&mut engine, &mut log, "both have received", |_, log| {
        (log.of(server), log.of(client)) == (b"request", b"answer")
    });
    engine.ops().close(client);
    until(&mut engine, &mut log, "the client has ended", |_, log| {
        log.ended == [server]
    });
}

#[test]
fn a_unix_listener_accepts_peers_without_an_address() {
    on_real_engines!(unix_listener);
}

fn full_backlog(mut engine: impl Engine, _: &dyn World) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow.sock");
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    socket.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    socket.listen(0).unwrap();
    let mut options = ConnectOptions::default();
    options.timeout = Some(Duration::from_millis(200));
    let (mut log, remote) = (Log::default(), at(&path));
    // One is in the backlog, as many more as it has room for.
    let late: Vec<_> = (0..4)
        .map(|_| engine.ops().connect(remote.clone(), options))
        .collect();
    until(&mut engine, &mut log, "some timed out", |_, log| {
        late.iter()
            .all(|late| log.is_open(*late) || log.cause(*late).is_some())
    });
    assert!(log.closed.len() >= 2, "{:?}", log.closed);
    assert!(
        log.closed.iter().all(|(_, cause)| *cause == Cause::TimedOut),
        "{:?}",
        log.closed
    );
    options.timeout = None;
    let waiting: Vec<_> = (0..4)
        .map(|_| engine.ops().connect(remote.clone(), options))
        .collect();
    let server = std::thread::spawn(move || (0..8).map_while(|_| socket.accept().ok()).collect::<Vec<_>>());
    until(&mut engine, &mut log, "the others are open", |_, log| {
        waiting.iter().all(|waiting| log.is_open(*waiting))
    });
    // Unblocks the accepts that are left.
    let more: Vec<_> = (0..log.closed.len())
        .map(|_| engine.ops().connect(remote.clone(), options))
        .collect();
    until(&mut engine, &mut log, "all are open", |_, log| {
        more.iter().all(|more| log.is_open(*more))
    });
    assert_eq!(server.join().unwrap().len(), 8);
}

#[test]
fn a_full_backlog_of_a_unix_socket_is_awaited_until_the_timeout() {
    on_real_engines!(full_backlog);
}

fn no_unix_socket(mut engine: impl Engine, _: &dyn World) {
    let folder = tempfile::tempdir().unwrap();
    let (file, left) = (folder.path().join("file"), folder.path().join("left.sock"));
    std::fs::write(&file, "").unwrap();
    drop(UnixListener::bind(&left).unwrap());
    let mut log = Log::default();
    let paths = [file, left, folder.path().join("absent.sock")];
    let clients = paths.map(|path| engine.ops().connect(at(&path), ConnectOptions::default()));
    until(&mut engine, &mut log, "all have ended", |_, log| {
        log.closed.len() == 3
    });
    assert_eq!(log.closed, clients.map(|client| (client, Cause::Refused)));
}

#[test]
fn a_path_without_a_listener_refuses() {
    on_real_engines!(no_unix_socket);
}
