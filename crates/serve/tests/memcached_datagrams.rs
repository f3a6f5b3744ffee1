//! Datagrams of `serve::memcached`: each is answered whole or not at all, and what is not is counted by its cause.

use crate::common::{anywhere, engines, steering};
use corelane_host::bed::BedPlan;
use corelane_serve::memcached::{MemcachedPlan, MemcachedServed, MemcachedServer};
use corelane_serve::{ConnectionCounts, Server};
use corelane_tests::{PATIENCE, namespaces, until};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// Servers of one worker, and of several, on each engine.
fn start(address: SocketAddr) -> Vec<MemcachedServer> {
    let each = engines()
        .into_iter()
        .flat_map(|engine| [(engine, 1), (engine, 3)]);
    let start = |(engine, workers)| {
        let mut plan = MemcachedPlan::new(address, steering(workers));
        plan.listening.engine = Some(engine);
        plan.udp = vec![address];
        MemcachedServer::start(plan).unwrap()
    };
    each.map(start).collect()
}

/// A client: each of its datagrams has the next number.
struct Client {
    socket: UdpSocket,
    number: u16,
    /// Requests that may be answered late.
    passed: Vec<u16>,
}

impl Client {
    fn of(server: &mut MemcachedServer) -> Self {
        let address = server.served().own.udp[0];
        let socket = UdpSocket::bind((address.ip(), 0)).unwrap();
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            socket,
            number: 0,
            passed: Vec::new(),
        }
    }

    fn send(&mut self, request: &str) -> u16 {
        self.number += 1;
        let mut datagram = [&self.number.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0]].concat();
        datagram.extend_from_slice(request.as_bytes());
        self.socket.send(&datagram).unwrap();
        self.number
    }

    /// The next answer, which is that to this request.
    fn answer(&self, number: u16) -> String {
        let mut answer = Vec::new();
        loop {
            let mut datagram = [0; 2_000];
            let length = self.socket.recv(&mut datagram).unwrap();
            let answered = u16::from_be_bytes([datagram[0], datagram[1]]);
            if self.passed.contains(&answered) {
                continue;
            }
            assert_eq!(answered, number, "an answer to another request");
            answer.extend_from_slice(&datagram[8..length]);
            if datagram[3] + 1 == datagram[5] {
                return String::from_utf8(answer).unwrap();
            }
        }
    }

    fn ask(&mut self, request: &str) -> String {
        let number = self.send(request);
        self.answer(number)
    }

    /// Asserts that a request is not answered: a later one is, which asks all workers, once they have room.
    fn is_not_answered(&mut self, request: &str) {
        self.send(request);
        let wait = Duration::from_millis(100);
        self.socket.set_read_timeout(Some(wait)).unwrap();
        until("all workers have room", || {
            let number = self.send("flush_all 1000\r\n");
            self.passed.push(number);
            let mut datagram = [0; 2_000];
            let received = self.socket.recv(&mut datagram);
            let answered = u16::from_be_bytes([datagram[0], datagram[1]]);
            assert!(received.is_err() || self.passed.contains(&answered), "{answered}");
            received.is_ok()
        });
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
}

fn count(served: &MemcachedServed, cause: &str) -> u64 {
    served.sum(|bucket| match cause {
        "refused" => bucket.events.datagrams_refused,
        "overloaded" => bucket.events.datagrams_overloaded,
        "too_large" => bucket.events.datagrams_too_large,
        _ => bucket.events.datagrams_withheld,
    })
}

#[test]
fn many_keys_of_all_workers_are_answered_whole() {
    for mut server in start(anywhere()) {
        let mut client = Client::of(&mut server);
        let (mut request, mut expected) = (String::from("get"), String::new());
        for key in 0..200 {
            assert_eq!(client.ask(&format!("set key{key} 0 0 1\r\nv\r\n")), "STORED\r\n");
            write!(request, " key{key}").unwrap();
            write!(expected, "VALUE key{key} 0 1\r\nv\r\n").unwrap();
        }
        assert_eq!(
            client.ask(&format!("{request}\r\n")),
            format!("{expected}END\r\n")
        );
    }
}

/// By one worker in their order; other workers may answer later.
#[test]
fn requests_of_a_client_that_arrive_together_are_each_answered() {
    for mut server in start(anywhere()) {
        let mut client = Client::of(&mut server);
        let workers = server.served().buckets.len();
        // One needs several datagrams.
        let value = |key: usize| "v".repeat(if key == 20 { 3_000 } else { key * 7919 % 97 });
        for key in 0..40 {
            let value = value(key);
            let stored = client.ask(&format!("set key{key} 0 0 {}\r\n{value}\r\n", value.len()));
            assert_eq!(stored, "STORED\r\n");
        }
        let mut expected = BTreeMap::new();
        for key in 0..60 {
            let number = client.send(&format!("get key{key}\r\n"));
            let value = value(key);
            let found = format!("VALUE key{key} 0 {}\r\n{value}\r\nEND\r\n", value.len());
            expected.insert(number, if key < 40 { found } else { "END\r\n".to_owned() });
        }
        let mut answers = BTreeMap::<u16, Vec<u8>>::new();
        for _ in 0..expected.len() + 2 {
            let mut datagram = [0; 2_000];
            let length = client.socket.recv(&mut datagram).unwrap();
            let number = u16::from_be_bytes([datagram[0], datagram[1]]);
            let last = answers.last_key_value().map_or(0, |(last, _)| *last);
            assert!(workers > 1 || number >= last, "{number} behind {last}");
            answers
                .entry(number)
                .or_default()
                .extend_from_slice(&datagram[8..length]);
        }
        let text = |answer| String::from_utf8(answer).unwrap();
        let answers = answers.into_iter().map(|(number, answer)| (number, text(answer)));
        assert_eq!(answers.collect::<BTreeMap<_, _>>(), expected);
    }
}

/// Questions to another worker fill its mailbox before that worker is woken.
/// The first 64 of each worker are samples.
#[test]
fn datagrams_are_compared_with_the_bucket_of_their_hash() {
    for mut server in start(anywhere()) {
        let mut clients: Vec<_> = (0..8).map(|_| Client::of(&mut server)).collect();
        for client in &mut clients {
            for _ in 0..4 {
                assert_eq!(client.ask("get a\r\n"), "END\r\n");
            }
        }
        let served = server.stop().unwrap();
        let count = |of: fn(&ConnectionCounts) -> u64| served.sum(|bucket| of(&bucket.connections));
        let samples = [
            count(|counts| counts.steering_samples),
            count(|counts| counts.steering_right),
        ];
        assert_eq!(samples, [32, 32]);
    }
}

#[test]
fn what_other_workers_have_no_room_for_is_not_answered_in_part() {
    for mut server in start(anywhere()) {
        let mut client = Client::of(&mut server);
        let workers = server.steering().table.buckets();
        let keys: Vec<String> = (0..20_000).map(|key| format!("{:x}", key % 256)).collect();
        let request = format!("get {}\r\n", keys.join(" "));
        if workers == 1 {
            assert_eq!(client.ask(&request), "END\r\n");
            continue;
        }
        client.is_not_answered(&request);
        // Late answers to it do not reach the next request in its place.
        assert_eq!(client.ask("get 0 1 2 3 4 5 6 7\r\n"), "END\r\n");
        assert!(count(&server.stop().unwrap(), "overloaded") > 0);
    }
}

#[test]
fn an_answer_of_more_than_a_mebibyte_is_not_sent() {
    for mut server in start(anywhere()) {
        let mut client = Client::of(&mut server);
        let value = "v".repeat(40_000);
        let keys: Vec<String> = (0..60).map(|key| format!("key{key}")).collect();
        for key in &keys {
            let stored = client.ask(&format!("set {key} 0 0 40000\r\n{value}\r\n"));
            assert_eq!(stored, "STORED\r\n");
        }
        client.is_not_answered(&format!("get {}\r\n", keys.join(" ")));
        assert_eq!(client.ask("get none\r\n"), "END\r\n");
        let served = server.stop().unwrap();
        // Other workers may also find no room for so many bytes.
        assert_eq!(count(&served, "too_large") + count(&served, "overloaded"), 1);
        assert!(served.buckets.len() > 1 || count(&served, "too_large") == 1);
    }
}

/// Two servers do not answer each other's errors for ever, whatever their ports are.
#[test]
fn answers_are_no_requests() {
    for mut server in start(anywhere()) {
        let mut client = Client::of(&mut server);
        let answers = [
            "ERROR\r\n",
            "END\r\n",
            "5\r\n",
            "HD\r\n",
            "VALUE a 0 5\r\nget a\r\nEND\r\n",
        ];
        for answer in answers {
            client.is_not_answered(answer);
        }
        // As memcached answers.
        assert_eq!(client.ask("unknown\r\n"), "ERROR\r\n");
        let stats = client.ask("stats corelane\r\n");
        assert!(stats.contains("STAT udp_unanswered_refused 5\r\n"), "{stats}");
        assert_eq!(count(&server.stop().unwrap(), "refused"), 5);
    }
}

/// What all workers are asked is executed, or not answered and counted: it does not wait in memory.
#[test]
fn a_flood_of_flushes_is_bounded() {
    for mut server in start(anywhere()) {
        let mut client = Client::of(&mut server);
        let workers = server.steering().table.buckets();
        let request = "flush_all\r\n".repeat(5_900);
        if workers == 1 {
            assert_eq!(client.ask(&request), "OK\r\n".repeat(5_900));
            continue;
        }
        client.is_not_answered(&request);
        assert!(count(&server.stop().unwrap(), "overloaded") > 0);
    }
}

#[test]
fn an_address_that_may_be_forged_gets_no_more_than_three_times_its_request() {
    let mut bed_plan = BedPlan::new("fd11::1".parse().unwrap(), vec!["fd12::/120".parse().unwrap()]);
    bed_plan.loopback_ok = false;
    let Some(bed) = namespaces(&bed_plan) else {
        return;
    };
    bed.server.run(|| {
        let words = "addr add 192.0.2.9/32 dev lo".split(' ');
        match Command::new("ip").args(words).output() {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(error) => return eprintln!("skipped: ip: {error}"),
        }
        for mut server in start("192.0.2.9:0".parse().unwrap()) {
            let mut client = Client::of(&mut server);
            let value = "v".repeat(100);
            assert_eq!(client.ask(&format!("set a 0 0 100\r\n{value}\r\n")), "STORED\r\n");
            client.is_not_answered("get a\r\n");
            let answer = format!("VALUE a 0 100\r\n{value}\r\nEND\r\n");
            // With its frame, that is 130 bytes.
            assert_eq!(client.ask(&format!("get a{}\r\n", " ".repeat(29))), answer);
            assert_eq!(count(&server.stop().unwrap(), "withheld"), 1);
        }
    });
}
