//! Helpers shared by the tests of servers: a server with few buckets on existing CPUs, and a plain client.

use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use corelane_serve::http::HttpPlan;
use corelane_tests::PATIENCE;
use corelane_worker::engine::{EngineKind, choose};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A steering document for this number of buckets, all on the first CPU that may be used.
pub fn steering(buckets: usize) -> Steering {
    let cpu = corelane_host::cpus::allowed().unwrap().cpus[0];
    Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, buckets).unwrap(),
        cpus: vec![cpu; buckets],
        generation: 0,
    }
}

/// The engines that this machine supports.
pub fn engines() -> Vec<EngineKind> {
    let chosen = choose(Some(EngineKind::IoUring));
    if let Some(reason) = chosen.reason {
        eprintln!("skipped: {reason}");
        return vec![EngineKind::Epoll];
    }
    vec![EngineKind::Epoll, EngineKind::IoUring]
}

pub fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A server of generated objects with this number of buckets, on this engine.
pub fn http_plan(engine: EngineKind, buckets: usize) -> HttpPlan {
    let mut plan = HttpPlan::new(anywhere(), steering(buckets));
    plan.listening.engine = Some(engine);
    plan
}

/// A connection that times out instead of waiting for ever.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends a request and reads until the server closes.
pub fn exchange(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// One response on a connection: status, head and body.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads one response; `to_head` if the request was HEAD.
    pub fn read(stream: &mut impl Read, to_head: bool) -> Self {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            let read = stream.read(&mut byte).unwrap();
            assert_eq!(read, 1, "closed after {:?}", String::from_utf8_lossy(&head));
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Self {
            status,
            head,
            body: Vec::new(),
        };
        if to_head || status < 200 || status == 204 || status == 304 {
            return answer;
        }
        if answer.field("transfer-encoding") == Some("chunked") {
            answer.body = read_chunks(stream);
        } else {
            let length = answer.field("content-length").expect("a length").parse().unwrap();
            answer.body = vec![0; length];
            stream.read_exact(&mut answer.body).unwrap();
        }
        answer
    }

    /// The value of a header field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find_map(|(given, value)| given.eq_ignore_ascii_case(name).then_some(value))
    }
}

fn read_chunks(stream: &mut impl Read) -> Vec<u8> {
    use corelane_proto::http::chunked::{Decoder, Item};
    let (mut decoder, mut body) = (Decoder::new(), Vec::new());
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        match decoder.feed(&byte).unwrap().1 {
            Some(Item::Data(data)) => body.extend_from_slice(data),
            Some(Item::End) => return body,
            None => {}
        }
    }
}
