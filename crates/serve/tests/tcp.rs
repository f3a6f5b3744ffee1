//! `serve::tcp` from the clients' side: sink, source and echo, and the receiver's counts.

use crate::common::{anywhere, connect, engines, steering};
use corelane_host::memory::MemoryPolicy;
use corelane_measure::share::Share;
use corelane_rss::Steering;
use corelane_serve::Server;
use corelane_serve::tcp::{TcpMode, TcpPlan, TcpServed, TcpServer};
use std::io::{Read, Write};
use std::net::Shutdown;

fn start(mode: TcpMode) -> Vec<TcpServer> {
    let start = |engine| {
        let mut plan = TcpPlan::new(anywhere(), mode, steering(2));
        (plan.listening.engine, plan.stall_ms) = (Some(engine), 50);
        TcpServer::start(plan).unwrap()
    };
    engines().into_iter().map(start).collect()
}

fn until(server: &mut TcpServer, what: &str, so: impl Fn(&TcpServed) -> bool) {
    corelane_tests::until(what, || so(&server.served()));
}

#[test]
fn counts_of_a_running_server_do_not_look_for_its_pages() {
    let mut plan = TcpPlan::new(anywhere(), TcpMode::Echo, steering(2));
    plan.listening.buffer_memory = Some(MemoryPolicy::default());
    let mut server = TcpServer::start(plan).unwrap();
    assert_eq!(
        (server.counts().memory.len(), server.served().memory.len()),
        (0, 2)
    );
}

#[test]
fn connections_are_local_in_buckets_on_the_cpu_that_received_them() {
    let cpus = corelane_host::cpus::allowed().unwrap().cpus;
    let (client, other) = (cpus[0], cpus[cpus.len() - 1]);
    for engine in engines() {
        let steering = Steering {
            cpus: vec![client, other],
            ..steering(2)
        };
        let mut plan = TcpPlan::new(anywhere(), TcpMode::Echo, steering);
        plan.listening.engine = Some(engine);
        let mut server = TcpServer::start(plan).unwrap();
        let address = server.address();
        let connect_all = move || {
            // On loopback, the receive path runs on the CPU of the sender.
            corelane_host::pin::current_thread(client).unwrap();
            (0..32).for_each(|_| drop(connect(address)));
        };
        std::thread::spawn(connect_all).join().unwrap();
        until(&mut server, "all are accepted", |served| {
            served.sum(|bucket| bucket.connections.accepted) == 32
        });
        let served = server.stop().unwrap();
        for bucket in served.buckets.iter().map(|bucket| &bucket.connections) {
            let local = if bucket.cpu == client { bucket.accepted } else { 0 };
            let locality = Share {
                hits: local,
                samples: bucket.accepted,
            };
            assert_eq!(bucket.locality(), locality, "{served:?}");
        }
    }
}

#[test]
fn a_sink_takes_every_byte_and_sends_none() {
    for mut server in start(TcpMode::Sink) {
        for _ in 0..8 {
            let mut stream = connect(server.address());
            stream.write_all(&vec![7; 1_000_000]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut nothing = Vec::new();
            stream.read_to_end(&mut nothing).unwrap();
            assert!(nothing.is_empty());
        }
        until(&mut server, "all are closed", |served| {
            served.sum(|bucket| bucket.connections.open) == 0
        });
        let served = server.stop().unwrap();
        assert_eq!(served.sum(|bucket| bucket.connections.accepted), 8);
        assert_eq!(served.sum(|bucket| bucket.connections.bytes_received), 8_000_000);
        assert_eq!(served.sum(|bucket| bucket.connections.bytes_sent), 0);
    }
}

#[test]
fn an_echo_gives_every_byte_back_even_to_whoever_reads_late() {
    for mut server in start(TcpMode::Echo) {
        let mut stream = connect(server.address());
        let mut writer = stream.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            (0..200u8).for_each(|number| writer.write_all(&[number; 100_000]).unwrap());
            writer.shutdown(Shutdown::Write).unwrap();
        });
        // The echo stalls as long as the client does not read: more is in transit than all buffers hold.
        until(&mut server, "it stalls", |served| {
            served.sum(|bucket| bucket.stalled) == 1
        });
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        writing.join().unwrap();
        assert_eq!(all.len(), 20_000_000);
        assert!(
            all.chunks(100_000)
                .zip(0u8..)
                .all(|(piece, number)| piece.iter().all(|byte| *byte == number))
        );
        let served = server.stop().unwrap();
        assert_eq!(served.sum(|bucket| bucket.connections.bytes_sent), 20_000_000);
        assert!(served.sum(|bucket| bucket.stalls) >= 1);
    }
}

#[test]
fn a_source_that_is_told_the_end_sends_what_it_counts_and_no_more() {
    for mut server in start(TcpMode::Source) {
        let mut stream = connect(server.address());
        stream.read_exact(&mut vec![1; 1 << 20]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        until(&mut server, "it is closed", |served| {
            served.sum(|bucket| bucket.connections.open) == 0
        });
        let served = server.stop().unwrap();
        assert_eq!(
            served.sum(|bucket| bucket.connections.bytes_sent),
            (1 << 20) + rest.len() as u64
        );
        assert!(
            served
                .buckets
                .iter()
                .all(|bucket| bucket.connections.broken.is_empty())
        );
    }
}

#[test]
fn a_connection_on_which_nothing_moves_is_ended_and_named() {
    for engine in engines() {
        for mode in [TcpMode::Sink, TcpMode::Source, TcpMode::Echo] {
            let mut plan = TcpPlan::new(anywhere(), mode, steering(2));
            (plan.listening.engine, plan.stall_ms, plan.idle_ms) = (Some(engine), 10, Some(100));
            let mut server = TcpServer::start(plan).unwrap();
            let mut stream = connect(server.address());
            until(&mut server, "it is ended", |served| {
                served.sum(|bucket| bucket.errors.get("idle").copied().unwrap_or(0)) == 1
            });
            until(&mut server, "it is closed", |served| {
                served.sum(|bucket| bucket.connections.open) == 0
            });
            // What is queued for a client that reads nothing is dropped with a reset.
            let end = stream.read_to_end(&mut Vec::new());
            assert_eq!(end.is_err(), mode == TcpMode::Source, "{mode}: {end:?}");
        }
    }
}

#[test]
fn a_source_sends_until_the_client_leaves() {
    for mut server in start(TcpMode::Source) {
        let mut stream = connect(server.address());
        let mut piece = vec![1; 1 << 20];
        for _ in 0..50 {
            stream.read_exact(&mut piece).unwrap();
            assert!(piece.iter().all(|byte| *byte == 0));
        }
        until(&mut server, "a stopped reader is detected", |served| {
            served.sum(|bucket| bucket.stalled) == 1
        });
        drop(stream);
        until(&mut server, "it is closed", |served| {
            served.sum(|bucket| bucket.connections.open) == 0
        });
        let served = server.stop().unwrap();
        assert!(served.sum(|bucket| bucket.connections.bytes_sent) >= 50 << 20);
        assert_eq!(served.sum(|bucket| bucket.stalled), 0);
    }
}
