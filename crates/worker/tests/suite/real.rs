//! Tests that need a real engine: the kernel's batches, merging, errors and full buffers.

use crate::suite::world::{Notes, send, settle, until};
use corelane_tests::{namespaces, namespaces_plan, undisturbed};
use corelane_worker::engine::{
    Cause, Engine, EngineBody, EngineCounters, EngineKind, EngineSettings, choose, run_engine,
};
use corelane_worker::group::{self, GroupSettings};
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

/// The engines available here.
fn engines() -> Vec<EngineKind> {
    let chosen = choose(Some(EngineKind::IoUring));
    if let Some(reason) = chosen.reason {
        eprintln!("skipped: {reason}");
        return vec![EngineKind::Epoll];
    }
    vec![EngineKind::Epoll, EngineKind::IoUring]
}

fn settings(coalesce: bool, gro: bool) -> EngineSettings {
    EngineSettings {
        coalesce,
        gro,
        ..EngineSettings::default()
    }
}

/// Sends 640 datagrams of 100 bytes to itself over that address, 64 per turn; returns the engine's counters.
struct Stream(&'static str);

const IPV4: Stream = Stream("127.0.0.1:0");
const IPV6: Stream = Stream("[::1]:0");

impl EngineBody<EngineCounters> for Stream {
    fn run<E: Engine>(self, mut engine: E) -> EngineCounters {
        let ops = engine.ops();
        let socket = UdpSocket::bind(self.0).unwrap();
        let address = socket.local_addr().unwrap();
        let server = ops.datagrams(socket).unwrap();
        let client = UdpSocket::bind(self.0).unwrap();
        client.connect(address).unwrap();
        let from = client.local_addr().unwrap();
        let client = ops.datagrams(client).unwrap();
        let mut notes = Notes::default();
        settle(&mut engine, &mut notes);
        for round in 1..=10 {
            for index in 0..64u8 {
                send(engine.ops(), client, None, &[index; 100]);
            }
            until(&mut engine, &mut notes, "the round arrived", |ops, notes| {
                notes.of(server).len() == round * 64 && ops.counters().sent == round as u64 * 64
            });
        }
        assert!(notes.datagrams.iter().all(|note| note.peer == from));
        engine.ops().counters()
    }
}

#[test]
fn batches_take_fewer_calls_than_datagrams() {
    undisturbed(|| {
        let one_at_a_time = EngineSettings {
            datagram_batch: 1,
            ..settings(false, false)
        };
        let single = run_engine(EngineKind::Epoll, &one_at_a_time, IPV4).unwrap().calls;
        assert_eq!(single.send, 640);
        assert!(single.receive >= 640);
        let batched = run_engine(EngineKind::Epoll, &settings(false, false), IPV4).unwrap();
        assert_eq!(batched.calls.send, 10);
        assert!((10..=20).contains(&batched.calls.receive), "{:?}", batched.calls);
        for kind in engines() {
            let calls = run_engine(kind, &settings(false, false), IPV4).unwrap().calls;
            let all = calls.wait + calls.receive + calls.send;
            assert!(all < 100, "{kind}: {calls:?}");
        }
    });
}

#[test]
fn coalesced_and_merged_datagrams_are_counted_one_by_one() {
    undisturbed(|| {
        for kind in engines() {
            for (gro, stream) in [(false, IPV4), (true, IPV4), (false, IPV6), (true, IPV6)] {
                let address = stream.0;
                let counters = run_engine(kind, &settings(true, gro), stream).unwrap();
                let counted = (counters.sent, counters.received);
                assert_eq!(counted, (640, 640), "{kind} on {address}, gro {gro}");
                // The 64 datagrams of a round are sent as one message.
                assert_eq!(counters.calls.send, 10, "{kind} on {address}, gro {gro}");
            }
        }
    });
}

#[test]
fn datagrams_over_ipv6_arrive_from_their_sender() {
    undisturbed(|| {
        for kind in engines() {
            let counters = run_engine(kind, &settings(false, false), IPV6).unwrap();
            assert_eq!((counters.sent, counters.received), (640, 640), "{kind}");
        }
    });
}

/// Sends coalesced segments larger than the path's MTU to one of its own sockets on another address.
struct OverMtu {
    server: SocketAddr,
}

impl EngineBody<u64> for OverMtu {
    fn run<E: Engine>(self, mut engine: E) -> u64 {
        let client = UdpSocket::bind("0.0.0.0:0").unwrap();
        client.connect(self.server).unwrap();
        let client = engine.ops().datagrams(client).unwrap();
        let mut notes = Notes::default();
        for length in [2_000, 2_000, 2_000, 700, 1_000, 1_000, 2_000, 2_000] {
            send(engine.ops(), client, None, &vec![length as u8; length]);
        }
        until(&mut engine, &mut notes, "all were sent", |ops, _| {
            ops.counters().sent == 8
        });
        assert!(notes.failed.is_empty(), "{:?}", notes.failed);
        engine.ops().counters().send_failed.total()
    }
}

#[test]
fn runs_that_the_path_cannot_cut_are_sent_one_by_one_in_order() {
    undisturbed(|| {
        for kind in engines() {
            let Some(bed) = namespaces(&namespaces_plan()) else {
                return;
            };
            let server: SocketAddr = (bed.server.address(), 7_001).into();
            let receiver = bed.server.run(move || UdpSocket::bind(server)).unwrap();
            receiver
                .set_read_timeout(Some(std::time::Duration::from_secs(20)))
                .unwrap();
            let failed = bed
                .client
                .run(move || run_engine(kind, &settings(true, false), OverMtu { server }).unwrap());
            assert_eq!(failed, 0, "{kind}");
            let mut buffer = [0; 4_000];
            let received: Vec<usize> = (0..8).map(|_| receiver.recv(&mut buffer).unwrap()).collect();
            let expected = [2_000, 2_000, 2_000, 700, 1_000, 1_000, 2_000, 2_000];
            assert_eq!(received, expected, "{kind}");
        }
    });
}

/// Sends to a socket of this process that accepts no more until it is read. A pair of UNIX sockets represents a device
/// that is slower than its sender, because it blocks in the same way, and immediately.
struct Blocked {
    close_early: bool,
}

impl EngineBody<()> for Blocked {
    fn run<E: Engine>(self, mut engine: E) {
        const ALL: u32 = 3_000;
        let (near, far) = UnixDatagram::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        let socket = UdpSocket::from(OwnedFd::from(near));
        let id = engine.ops().datagrams(socket).unwrap();
        let mut notes = Notes::default();
        for number in 0..ALL {
            send(engine.ops(), id, None, &number.to_be_bytes());
        }
        if self.close_early {
            engine.ops().close(id);
        }
        settle(&mut engine, &mut notes);
        let before = engine.ops().counters();
        assert!((1..u64::from(ALL)).contains(&before.sent), "{before:?}");
        assert!(notes.closed.is_empty(), "it still has datagrams");
        let mut received = Vec::new();
        while received.len() < ALL as usize {
            let mut number = [0; 4];
            match far.recv(&mut number) {
                Ok(length) => received.push((length, u32::from_be_bytes(number))),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    let sent = engine.ops().counters().sent;
                    until(&mut engine, &mut notes, "more was sent", |ops, _| {
                        ops.counters().sent > sent
                    });
                }
            }
        }
        let expected: Vec<(usize, u32)> = (0..ALL).map(|number| (4, number)).collect();
        assert_eq!(received, expected);
        until(&mut engine, &mut notes, "all was settled", |ops, notes| {
            ops.counters().sent == u64::from(ALL) && (notes.closed == [id]) == self.close_early
        });
        assert_eq!(engine.ops().counters().send_failed.total(), 0);
    }
}

#[test]
fn a_socket_that_takes_no_more_gets_the_rest_in_order_later() {
    undisturbed(|| {
        for kind in engines() {
            run_engine(kind, &settings(false, false), Blocked { close_early: false }).unwrap();
        }
    });
}

#[test]
fn a_closed_socket_that_takes_no_more_still_gets_the_rest() {
    undisturbed(|| {
        for kind in engines() {
            run_engine(kind, &settings(false, false), Blocked { close_early: true }).unwrap();
        }
    });
}

/// One socket is blocked; another one continues.
struct OneBlocked;

impl EngineBody<()> for OneBlocked {
    fn run<E: Engine>(self, mut engine: E) {
        let (near, _far) = UnixDatagram::pair().unwrap();
        let blocked = UdpSocket::from(OwnedFd::from(near));
        let blocked = engine.ops().datagrams(blocked).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let free = engine.ops().datagrams(socket).unwrap();
        let mut notes = Notes::default();
        for _ in 0..3_000 {
            send(engine.ops(), blocked, None, b"stuck");
        }
        for round in 1..=1_000 {
            send(engine.ops(), free, Some(address), &[7; 5_000]);
            until(&mut engine, &mut notes, "it came back", |_, notes| {
                notes.datagrams.len() == round
            });
        }
        // Dropping the engine with operations in the kernel must neither hang nor touch freed memory.
    }
}

#[test]
fn a_blocked_socket_does_not_hold_up_others() {
    undisturbed(|| {
        for kind in engines() {
            run_engine(kind, &settings(false, false), OneBlocked).unwrap();
        }
    });
}

/// Sends to an address without a route, and without a peer.
struct NoRoute;

impl EngineBody<()> for NoRoute {
    fn run<E: Engine>(self, mut engine: E) {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let id = engine.ops().datagrams(socket).unwrap();
        let mut notes = Notes::default();
        let nowhere = "203.0.113.1:9".parse().unwrap();
        send(engine.ops(), id, Some(nowhere), b"no route");
        send(engine.ops(), id, None, b"no peer");
        until(&mut engine, &mut notes, "both failed", |_, notes| {
            notes.failed.len() == 2
        });
        let causes: Vec<Cause> = notes.failed.iter().map(|(_, cause)| *cause).collect();
        let no_peer = Cause::from_errno(nix::errno::Errno::EDESTADDRREQ as i32);
        assert_eq!(causes, [Cause::Unreachable, no_peer]);
        let failed = engine.ops().counters().send_failed;
        assert_eq!(
            (failed.of(Cause::Unreachable), failed.of(no_peer), failed.total()),
            (1, 1, 2)
        );
    }
}

#[test]
fn failures_are_reported_by_cause() {
    undisturbed(|| {
        for kind in engines() {
            let Some(bed) = namespaces(&namespaces_plan()) else {
                return;
            };
            bed.client
                .run(move || run_engine(kind, &settings(false, false), NoRoute).unwrap());
        }
    });
}

/// Passes descriptors to the engine that are not sockets.
struct Unservable;

impl EngineBody<()> for Unservable {
    fn run<E: Engine>(self, mut engine: E) {
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"readable").unwrap();
        let ids = [OwnedFd::from(file), OwnedFd::from(reader)]
            .map(|descriptor| engine.ops().datagrams(UdpSocket::from(descriptor)).unwrap());
        let mut notes = Notes::default();
        until(&mut engine, &mut notes, "both were closed", |_, notes| {
            notes.closed.len() == 2
        });
        settle(&mut engine, &mut notes);
        notes.closed.sort();
        assert_eq!(notes.closed, ids);
        let mut failed: Vec<_> = notes.failed.iter().map(|(id, _)| *id).collect();
        failed.sort();
        assert_eq!(failed, ids, "each failure is reported once");
    }
}

#[test]
fn descriptors_that_cannot_be_served_are_reported_and_closed() {
    undisturbed(|| {
        for kind in engines() {
            run_engine(kind, &settings(false, false), Unservable).unwrap();
        }
    });
}

/// Far more datagrams at once than there are receive buffers.
struct Flooded;

impl EngineBody<()> for Flooded {
    fn run<E: Engine>(self, mut engine: E) {
        const ALL: u32 = 3_000;
        let group_settings = GroupSettings {
            receive_buffer: Some(8 << 20),
            ..GroupSettings::default()
        };
        let anywhere = "127.0.0.1:0".parse().unwrap();
        let socket = group::udp(anywhere, 1, None, &group_settings)
            .unwrap()
            .pop()
            .unwrap();
        if SockRef::from(&socket).recv_buffer_size().unwrap() < 8 << 20 {
            eprintln!("skipped: net.core.rmem_max is too small and CAP_NET_ADMIN is missing");
            return;
        }
        let address = socket.local_addr().unwrap();
        let id = engine.ops().datagrams(socket).unwrap();
        let mut notes = Notes::default();
        settle(&mut engine, &mut notes);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for number in 0..ALL {
            sender.send_to(&number.to_be_bytes(), address).unwrap();
        }
        until(&mut engine, &mut notes, "all arrived", |_, notes| {
            notes.datagrams.len() == ALL as usize
        });
        let numbers: Vec<u32> = notes
            .of(id)
            .iter()
            .map(|payload| u32::from_be_bytes((*payload).try_into().unwrap()))
            .collect();
        assert_eq!(numbers, (0..ALL).collect::<Vec<_>>());
        assert!(notes.failed.is_empty(), "{:?}", notes.failed);
    }
}

#[test]
fn a_flood_beyond_all_buffers_arrives_whole_and_in_order() {
    undisturbed(|| {
        for kind in engines() {
            run_engine(kind, &settings(false, false), Flooded).unwrap();
        }
    });
}
