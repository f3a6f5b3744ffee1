//! The memory of `serve memcached` stays within what docs/MEMCACHED.md says.

use crate::common::{Server, corelane};
use corelane_tests::{PATIENCE, until};
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;

/// MiB of a server, and of each worker besides so many of the largest items.
const BASE: u64 = 32;
const PER_WORKER: u64 = 160;
const ITEMS_PER_WORKER: u64 = 4;

/// KiB of each connection.
const PER_CONNECTION: u64 = 768;

const MEMORY: u64 = 64;
const WORKERS: u64 = 2;
const LARGEST: u64 = 8;
const DEAF: u64 = 120;

#[test]
fn the_documentation_has_the_formula() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/MEMCACHED.md");
    let formula = format!(
        "-m + {BASE} MiB + {PER_CONNECTION} KiB per connection + ({PER_WORKER} MiB + {ITEMS_PER_WORKER} of the largest items) per worker"
    );
    assert!(fs::read_to_string(page).unwrap().contains(&formula), "{formula}");
}

/// A client whose receive buffer is as small as it can be.
fn connected(server: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.connect(&server.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends requests; their answers, up to a line.
fn ask(client: &mut BufReader<TcpStream>, requests: &[u8], last: &str) -> String {
    client.get_mut().write_all(requests).unwrap();
    let mut answers = String::new();
    while !answers.ends_with(last) {
        assert!(client.read_line(&mut answers).unwrap() > 0, "the server closes");
    }
    answers
}

fn stats(client: &mut BufReader<TcpStream>, request: &str) -> BTreeMap<String, u64> {
    let answer = ask(client, format!("{request}\r\n").as_bytes(), "END\r\n");
    let lines = answer.lines().filter_map(|line| line.strip_prefix("STAT "));
    let counts = lines.filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    counts.collect()
}

/// They ask for the largest items, of their own worker and of the other one, and for lists, and read nothing.
#[test]
fn clients_that_never_read_occupy_bounded_memory_and_stop_no_other() {
    let flags = format!("-l 127.0.0.1:0 -t {WORKERS} -m {MEMORY} -I {LARGEST}m");
    let command = corelane(&format!("serve memcached {flags}"))
        .stdout(Stdio::piped())
        .spawn();
    let server = Server::of(command.expect("the server starts"));
    let address = server.address.parse().expect("an address");
    let mut client = BufReader::new(connected(address));
    let length = (LARGEST << 20) as usize - 1_000;
    for key in ["a", "b", "c"] {
        let head = format!("set {key} 0 0 {length}\r\n");
        let set = [head.as_bytes(), &vec![b'v'; length], b"\r\n"].concat();
        assert_eq!(ask(&mut client, &set, "\r\n"), "STORED\r\n");
    }
    ask(&mut client, b"stats detail on\r\n", "OK\r\n");
    let prefix = "p".repeat(200);
    for hundred in 0..200 {
        let keys: Vec<_> = (0..100).map(|key| format!("{prefix}{hundred}-{key}:x")).collect();
        ask(
            &mut client,
            format!("get {}\r\n", keys.join(" ")).as_bytes(),
            "END\r\n",
        );
    }
    let deaf: Vec<_> = (0..DEAF)
        .map(|number| {
            let mut deaf = connected(address);
            let requests = match number % 4 {
                0 => "stats detail dump\r\n".repeat(40),
                _ => "get a\r\nget b\r\nget c\r\n".repeat(4),
            };
            deaf.write_all(requests.as_bytes()).unwrap();
            deaf
        })
        .collect();
    until("those that hold too much for too long are closed", || {
        stats(&mut client, "stats corelane")["closed_stalled"] > 0
    });
    drop(deaf);
    client.get_mut().write_all(b"get a b c\r\n").unwrap();
    let mut answer = vec![0; 3 * ("VALUE a 0 \r\n\r\n".len() + length.to_string().len() + length)];
    client.read_exact(&mut answer).unwrap();
    assert!(answer.ends_with(b"vvv\r\n"));
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let most = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
    let connections = (DEAF + 1) * PER_CONNECTION;
    let workers = WORKERS * (PER_WORKER + ITEMS_PER_WORKER * LARGEST);
    let bound = ((MEMORY + BASE + workers) << 10) + connections;
    assert!(most <= bound, "{most} KiB, more than {bound}");
}
