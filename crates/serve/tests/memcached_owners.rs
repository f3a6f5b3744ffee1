//! What `stats corelane` says suffices for a client to reach the worker that owns a key.

use crate::common::{anywhere, connect, engines, steering};
use corelane_link::LinkError;
use corelane_measure::counters::Counters as _;
use corelane_measure::share::Share;
use corelane_rss::{Bucket, IndirectionTable, Steering, Tuple, plan};
use corelane_serve::Server;
use corelane_serve::memcached::{MemcachedError, MemcachedPlan, MemcachedServed, MemcachedServer};
use corelane_store::hash;
use corelane_tests::PATIENCE;
use corelane_worker::engine::EngineKind;
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

const WORKERS: usize = 4;

fn started() -> Vec<MemcachedServer> {
    let start = |engine| {
        let mut plan = MemcachedPlan::new(anywhere(), steering(WORKERS));
        plan.listening.engine = Some(engine);
        plan.udp = vec![anywhere()];
        MemcachedServer::start(plan).unwrap()
    };
    engines().into_iter().map(start).collect()
}

fn statistics(server: &MemcachedServer) -> BTreeMap<String, String> {
    let mut client = connect(server.address());
    client.write_all(b"stats corelane\r\n").unwrap();
    let mut text = Vec::new();
    while !text.ends_with(b"END\r\n") {
        let mut piece = [0; 4_096];
        let read = client.read(&mut piece).unwrap();
        assert_ne!(read, 0, "closed after {:?}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&piece[..read]);
    }
    let text = String::from_utf8(text).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("STAT "));
    let pair = |line: &str| {
        line.split_once(' ')
            .map(|(name, value)| (name.into(), value.into()))
    };
    lines.filter_map(pair).collect()
}

/// The steering that the statistics say, as a client that knows nothing else reads it.
fn said(statistics: &BTreeMap<String, String>) -> Steering {
    let entries = statistics["steering_table"]
        .split(',')
        .map(|bucket| Bucket::new(bucket.parse().unwrap()));
    Steering {
        key: statistics["steering_key"].parse().unwrap(),
        hash_fields: statistics["steering_fields"].parse().unwrap(),
        table: IndirectionTable::from_entries(entries.collect()).unwrap(),
        cpus: vec![0; WORKERS],
        generation: statistics["steering_generation"].parse().unwrap(),
    }
}

/// Keys of which this worker owns every one.
fn keys_of(owner: usize, statistics: &BTreeMap<String, String>) -> Vec<String> {
    let (seed, partitions) = (
        statistics["seed"].parse().unwrap(),
        statistics["partitions"].parse().unwrap(),
    );
    let all = (0..).map(|number: u32| format!("key{number}"));
    all.filter(|key| hash(key.as_bytes(), seed).owner(partitions) == owner)
        .take(20)
        .collect()
}

/// The first ports of this machine that reach each worker and are free, by the statistics.
fn sources(said: &Steering, server: SocketAddr, kind: Type) -> Vec<Socket> {
    let ports = plan::ports(
        said,
        server.ip(),
        server,
        20_000..=30_000,
        None,
        corelane_rss::Transform::Plain,
    );
    let bound = |ports: Vec<u16>| {
        let bind = |port| {
            let socket = Socket::new(Domain::IPV4, kind, None).ok()?;
            socket.bind(&SocketAddr::new(server.ip(), port).into()).ok()?;
            Some(socket)
        };
        ports.into_iter().find_map(bind).expect("a free port")
    };
    let sockets: Vec<Socket> = ports.unwrap().buckets.into_iter().map(bound).collect();
    for socket in &sockets {
        socket.connect(&server.into()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    sockets
}

fn locality(served: &MemcachedServed) -> (u64, u64) {
    let all = Share::sum(served.buckets.iter().map(|bucket| bucket.events.locality()));
    (all.hits, all.samples)
}

#[test]
fn connections_and_datagrams_from_the_ports_that_the_statistics_imply_are_local() {
    for server in started() {
        let statistics = statistics(&server);
        let said = said(&statistics);
        assert_eq!(&said.table, &server.steering().table);
        let listens = |at: &str| statistics[at].clone();
        assert_eq!(listens("listen:0"), format!("tcp {}", server.address()));
        let udp: SocketAddr = listens("listen:1").strip_prefix("udp ").unwrap().parse().unwrap();
        let mut requests = 0;
        for (owner, socket) in sources(&said, server.address(), Type::STREAM)
            .into_iter()
            .enumerate()
        {
            let mut stream = TcpStream::from(socket);
            let keys = keys_of(owner, &statistics);
            requests += keys.len() as u64;
            stream
                .write_all(format!("get {}\r\n", keys.join(" ")).as_bytes())
                .unwrap();
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"END\r\n");
        }
        for (owner, socket) in sources(&said, udp, Type::DGRAM).into_iter().enumerate() {
            let socket = UdpSocket::from(std::os::fd::OwnedFd::from(socket));
            for key in keys_of(owner, &statistics) {
                requests += 1;
                assert_eq!(asked(&socket, &format!("get {key}\r\n")), "END\r\n");
            }
        }
        assert_eq!(locality(&server.stop().unwrap()), (requests, requests));
    }
}

#[test]
fn the_statistics_follow_the_table() {
    for mut server in started() {
        let before = said(&statistics(&server));
        let entries = before.table.entries().iter();
        let turned = entries.map(|bucket| Bucket::new((bucket.index() as u16 + 1) % WORKERS as u16));
        let turned = IndirectionTable::from_entries(turned.collect()).unwrap();
        server.change_table(turned.clone()).unwrap();
        let after = said(&statistics(&server));
        assert_eq!((before.generation, after.generation), (0, 1));
        assert_eq!(after.table, turned);
    }
}

/// A server of several workers that steers datagrams by their keys; `None` where the kernel permits no programs.
fn keyed(engine: EngineKind) -> Option<MemcachedServer> {
    let mut plan = MemcachedPlan::new(anywhere(), steering(WORKERS));
    plan.listening.engine = Some(engine);
    plan.udp = vec![anywhere()];
    plan.steer_keys = true;
    match MemcachedServer::start(plan) {
        Err(MemcachedError::Keys(LinkError::Unavailable(reason))) => {
            eprintln!("skipped: {reason}");
            None
        }
        server => Some(server.unwrap()),
    }
}

/// Sends a request and returns its answer.
fn asked(socket: &UdpSocket, request: &str) -> String {
    let request = [b"\0\x01\0\0\0\x01\0\0", request.as_bytes()].concat();
    socket.send(&request).unwrap();
    let mut answer = [0; 2_048];
    let length = socket.recv(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[8..length]).into_owned()
}

#[test]
fn every_datagram_with_a_key_reaches_its_owner_and_others_are_answered_too() {
    for engine in engines() {
        let Some(mut server) = keyed(engine) else { return };
        let udp = server.served().own.udp[0];
        let mut keys = 0;
        for number in 0..3 {
            let socket = UdpSocket::bind(anywhere()).unwrap();
            socket.connect(udp).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            for length in 1..=250 {
                let key = format!("{number}").repeat(length);
                assert_eq!(
                    asked(&socket, &format!("set {key} 0 0 2\r\nhi\r\n")),
                    "STORED\r\n"
                );
                let value = format!("VALUE {key} 0 2\r\nhi\r\nEND\r\n");
                assert_eq!(asked(&socket, &format!("get {key}\r\n")), value);
                assert_eq!(asked(&socket, &format!("gat 0 {key}\r\n")), value);
                assert_eq!(asked(&socket, &format!("md {key}\r\n")), "HD\r\n");
                keys += 4;
            }
            assert_eq!(asked(&socket, "mn\r\n"), "MN\r\n");
        }
        // Datagrams without a key follow the table, also a new one.
        let turned = server.steering().table.entries().iter();
        let turned = turned.map(|bucket| Bucket::new((bucket.index() as u16 + 1) % WORKERS as u16));
        server
            .change_table(IndirectionTable::from_entries(turned.collect()).unwrap())
            .unwrap();
        let received = |server: &mut MemcachedServer| {
            let served = server.served();
            served
                .buckets
                .iter()
                .map(|bucket| bucket.events.datagrams)
                .collect::<Vec<_>>()
        };
        corelane_tests::until("all datagrams are counted", || {
            received(&mut server).iter().sum::<u64>() == keys + 3
        });
        let before = received(&mut server);
        let (steering, from) = (server.steering().clone(), UdpSocket::bind(anywhere()).unwrap());
        from.connect(udp).unwrap();
        from.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(asked(&from, "mn\r\n"), "MN\r\n");
        let tuple = Tuple::new(from.local_addr().unwrap(), udp).unwrap();
        let bucket = steering.steerer().bucket_of(&tuple).index();
        corelane_tests::until("the datagram is counted", || {
            received(&mut server)[bucket] == before[bucket] + 1
        });
        assert_eq!(locality(&server.stop().unwrap()), (keys, keys));
    }
}

#[test]
fn handoffs_are_timed_and_counted() {
    for server in started() {
        let statistics = statistics(&server);
        let mut client = connect(server.address());
        let keys: Vec<String> = (0..WORKERS)
            .flat_map(|owner| keys_of(owner, &statistics))
            .collect();
        let line = format!("get {}\r\n", keys.join(" "));
        for _ in 0..20 {
            client.write_all(line.as_bytes()).unwrap();
            let mut answer = [0; 5];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"END\r\n");
        }
        let served = server.stop().unwrap();
        assert_eq!(locality(&served), (400, 1_600));
        let timed = served.sum(|bucket| bucket.handoffs.handoffs_timed);
        assert!((1..=1_200 / 64).contains(&timed), "{timed}");
        assert!(served.sum(|bucket| bucket.handoffs.handoffs_timed_ns) > timed);
    }
}
