//! A worker of `serve memcached` that stands still.

use crate::common::run_json;
use crate::control_group::Threads;
use crate::scrape::Exposing;
use corelane_tests::{PATIENCE, until};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, id};

/// Keys of a datagram: 64 of them fill a mailbox.
const KEYS: usize = 64;

/// A client whose datagrams reach one worker.
struct Client {
    socket: UdpSocket,
    number: u16,
    /// By number, those that no one has taken.
    answers: HashMap<u16, String>,
}

impl Client {
    fn send(&mut self, request: &str) -> u16 {
        self.number = self.number.checked_add(1).expect("the mailbox is full before");
        let mut datagram = [&self.number.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0]].concat();
        datagram.extend_from_slice(request.as_bytes());
        self.socket.send(&datagram).unwrap();
        self.number
    }

    /// Takes one datagram, an answer; whether there is one.
    fn receive(&mut self) -> bool {
        let mut datagram = [0; 2_000];
        let Ok(length) = self.socket.recv(&mut datagram) else {
            return false;
        };
        assert_eq!(datagram[2..6], [0, 0, 0, 1], "an answer is one datagram");
        let number = u16::from_be_bytes([datagram[0], datagram[1]]);
        let text = String::from_utf8(datagram[8..length].to_vec()).unwrap();
        assert_eq!(self.answers.insert(number, text), None, "one answer each");
        true
    }

    fn ask(&mut self, request: &str) -> String {
        let number = self.send(request);
        until("a request is answered", || {
            while self.receive() {}
            self.answers.contains_key(&number)
        });
        self.answers.remove(&number).unwrap()
    }
}

/// A socket connected to the server from this address and the first of these ports that is free.
fn connected(kind: Type, (client, ports): (IpAddr, &Value), server: SocketAddr) -> Socket {
    let connect = |port: &Value| {
        let socket = Socket::new(Domain::IPV4, kind, None).ok()?;
        let port = port.as_u64()? as u16;
        socket.bind(&SocketAddr::new(client, port).into()).ok()?;
        socket.connect(&server.into()).ok()?;
        Some(socket)
    };
    let socket = ports.as_array().unwrap().iter().find_map(connect);
    socket.expect("a free port")
}

/// The thread of a worker.
fn thread(process: u32, worker: usize) -> String {
    let name = format!("bucket {worker}\n");
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut threads = threads.map(|thread| thread.unwrap().path());
    let thread = threads.find(|thread| fs::read_to_string(thread.join("comm")).unwrap_or_default() == name);
    thread.unwrap().file_name().unwrap().to_str().unwrap().to_owned()
}

fn expect(stream: &mut TcpStream, request: &str, answer: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut read = vec![0; answer.len()];
    stream.read_exact(&mut read).unwrap();
    assert_eq!(String::from_utf8_lossy(&read), answer);
}

/// A server of two workers, and clients of worker 0.
struct Bed {
    server: Exposing,
    client: Client,
    stream: TcpStream,
    /// A key of each worker.
    keys: [String; 2],
}

impl Bed {
    fn start(threads: &Threads) -> Self {
        // An address of this process alone: the port of datagrams is named in the flags.
        let [_, a, b, c] = id().to_be_bytes();
        let address: SocketAddr = format!("127.{}.{b}.{c}:11213", 64 | a).parse().unwrap();
        let flags = format!(
            "-l {} -p 11213 -U 11213 -t 2 --remote-reads handoff --json",
            address.ip()
        );
        let (enter, program) = (threads.enter(), env!("CARGO_BIN_EXE_corelane"));
        let serve = format!("{enter} {program} serve memcached {flags} --metrics 127.0.0.1:0");
        let mut command = Command::new("sh");
        command.args(["-c", &serve]);
        let server = Exposing::of(command);
        // Metrics are there before.
        until("the server listens", || TcpStream::connect(address).is_ok());
        let keys: String = (0..20).map(|key| format!(" --cache-key k{key}")).collect();
        let planned = format!("plan --server {address} --ports 20000-30000 --json --all{keys}");
        let planned = run_json(&planned);
        let keys = planned["keys"].as_array().unwrap();
        let keys = [0, 1].map(|owner| keys.iter().find(|key| key["owner"] == owner).unwrap());
        let from = (
            planned["client"].as_str().unwrap().parse().unwrap(),
            &keys[0]["ports"],
        );
        let stream = TcpStream::from(connected(Type::STREAM, from, address));
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let socket = connected(Type::DGRAM, from, address);
        socket.set_nonblocking(true).unwrap();
        let client = Client {
            socket: socket.into(),
            number: 0,
            answers: HashMap::new(),
        };
        let keys = keys.map(|key| key["key"].as_str().unwrap().to_owned());
        Self {
            server,
            client,
            stream,
            keys,
        }
    }
}

/// Worker 1 may run for 1 ms of each second. What is asked of it waits, up to the room of a mailbox; the rest is refused and counted.
/// Meanwhile worker 0 answers for its own keys.
#[test]
fn a_worker_that_stands_still_costs_the_others_a_bounded_number_of_handoffs() {
    let Some(threads) = Threads::new() else { return };
    let Bed {
        server,
        mut client,
        mut stream,
        keys: [own, other],
    } = Bed::start(&threads);
    let answer = |key: &str, times| format!("VALUE {key} 0 1\r\nx\r\n").repeat(times) + "END\r\n";
    for key in [&own, &other] {
        expect(&mut stream, &format!("set {key} 0 0 1\r\nx\r\n"), "STORED\r\n");
    }
    threads.stall(&thread(server.process.id(), 1));
    let (get_own, get_others) = (
        format!("get {own}\r\n"),
        format!("get{}\r\n", format!(" {other}").repeat(KEYS)),
    );
    let mut asked = Vec::new();
    until("the mailbox of the worker that stands still is full", || {
        asked.extend((0..32).map(|_| client.send(&get_others)));
        assert_eq!(client.ask(&get_own), answer(&own, 1));
        server.sum("corelane_serve_handoffs_refused_total") > 0.0
    });
    for _ in 0..100 {
        assert_eq!(client.ask(&get_own), answer(&own, 1));
        expect(&mut stream, &get_own, &answer(&own, 1));
    }
    // These wait for room.
    stream
        .write_all(format!("get {other}\r\nget {own}\r\n").as_bytes())
        .unwrap();
    while client.receive() {}
    assert!(client.answers.len() < asked.len(), "it stands still");
    assert!(server.sum("corelane_serve_handoff_queue_ratio") > 0.98);

    threads.release();
    until("each datagram is answered or counted", || {
        while client.receive() {}
        let unanswered = server.sum("corelane_serve_udp_unanswered_by_cause_total");
        client.answers.len() + unanswered as usize == asked.len()
    });
    assert!(client.answers.len() >= 4_096 / KEYS - 1);
    assert!(client.answers.values().all(|text| *text == answer(&other, KEYS)));
    expect(&mut stream, "", &(answer(&other, 1) + &answer(&own, 1)));
    assert_eq!(client.ask(&get_others), answer(&other, KEYS));
    let (served, code) = server.interrupt();
    assert_eq!(code, Some(0));
    let counts = &served["buckets"][0];
    assert!(counts["handoffs_refused"].as_u64() > Some(0), "{counts}");
    assert_eq!(
        counts["datagrams_overloaded"].as_u64(),
        Some(asked.len() as u64 - client.answers.len() as u64)
    );
}
