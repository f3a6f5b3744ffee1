//! Servers whose table changes under load: no request is lost, and each worker receives what the current table directs
//! to it.

use crate::common::{Answer, anywhere, connect, engines, http_plan, steering};
use corelane_rss::{Bucket, IndirectionTable, Tuple};
use corelane_serve::Server;
use corelane_serve::http::HttpServer;
use corelane_serve::udp::{UdpPlan, UdpServer};
use corelane_tests::undisturbed;
use std::io::Write;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Changes per test: more than a tenth of a minute holds at 10,000 per minute.
const CHANGES: u32 = 1500;

fn turned(by: u32) -> IndirectionTable {
    let size = steering(2).table.size() as u32;
    let entries = (0..size).map(|entry| Bucket::new(((entry + by) % 2) as u16));
    IndirectionTable::from_entries(entries.collect()).unwrap()
}

#[test]
fn http_requests_are_all_answered_while_the_table_changes() {
    for engine in engines() {
        let mut server = HttpServer::start(http_plan(engine, 2)).unwrap();
        let address = server.address();
        let stop = AtomicBool::new(false);
        let sent = thread::scope(|scope| {
            let client = || {
                let mut sent = 0_u64;
                while !stop.load(Ordering::Relaxed) || sent < 50 {
                    let mut stream = connect(address);
                    for _ in 0..3 {
                        write!(stream, "GET /size/100 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                        assert_eq!(Answer::read(&mut stream, false).status, 200);
                        sent += 1;
                    }
                }
                sent
            };
            let clients = [scope.spawn(client), scope.spawn(client)];
            for change in 1..=CHANGES {
                assert!(server.change_table(turned(change)).unwrap() > 0);
            }
            stop.store(true, Ordering::Relaxed);
            clients
                .map(|client| client.join().unwrap())
                .into_iter()
                .sum::<u64>()
        });
        assert_eq!(server.steering().generation, u64::from(CHANGES));
        let served = server.stop().unwrap();
        let requests: u64 = served.buckets.iter().map(|bucket| bucket.requests).sum();
        assert_eq!(requests, sent, "{engine:?}");
    }
}

#[test]
fn datagrams_are_all_answered_by_the_worker_of_the_table_in_force() {
    undisturbed(|| {
        for engine in engines() {
            let mut server = UdpServer::start(UdpPlan {
                engine: Some(engine),
                ..UdpPlan::new(anywhere(), steering(2))
            })
            .unwrap();
            let client = UdpSocket::bind(anywhere()).unwrap();
            client.connect(server.address()).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let tuple = Tuple::new(client.local_addr().unwrap(), server.address()).unwrap();
            let mut expected = [0_u64; 2];
            for change in 1..=CHANGES {
                server.change_table(turned(change)).unwrap();
                expected[server.steering().steerer().bucket_of(&tuple).index()] += 1;
                client.send(&change.to_be_bytes()).unwrap();
                let mut answer = [0; 4];
                client.recv(&mut answer).expect("an answer to every datagram");
                assert_eq!(answer, change.to_be_bytes());
            }
            let served = server.stop().unwrap();
            let seen: Vec<u64> = served.buckets.iter().map(|bucket| bucket.seen).collect();
            assert_eq!(seen, expected, "{engine:?}");
            let right = served
                .buckets
                .iter()
                .map(|bucket| (bucket.steering_samples, bucket.steering_right));
            assert!(
                right.clone().all(|(samples, right)| samples == right),
                "{:?}",
                right.collect::<Vec<_>>()
            );
            assert_eq!(served.steering.generation, u64::from(CHANGES));
        }
    });
}
