//! `serve::memcached` from the clients' side, over real sockets.

use crate::common::{anywhere, connect, engines, steering};
use crate::http_tls;
use corelane_serve::Server;
use corelane_serve::memcached::{MemcachedPlan, MemcachedServed, MemcachedServer, UnixSocket};
use corelane_tests::PATIENCE;
use corelane_worker::engine::EngineKind;
use rustls::Stream;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

pub fn plan(engine: EngineKind) -> MemcachedPlan {
    let mut plan = MemcachedPlan::new(anywhere(), steering(1));
    plan.listening.engine = Some(engine);
    plan
}

/// Servers of one worker, and of several, on each engine.
pub fn start() -> Vec<MemcachedServer> {
    let each = engines()
        .into_iter()
        .flat_map(|engine| [(engine, 1), (engine, 3)]);
    let start = |(engine, workers)| {
        let mut plan = MemcachedPlan::new(anywhere(), steering(workers));
        plan.listening.engine = Some(engine);
        plan.udp = vec![anywhere()];
        MemcachedServer::start(plan).unwrap()
    };
    each.map(start).collect()
}

pub fn commands(served: &MemcachedServed, name: &str) -> u64 {
    served.sum(|bucket| bucket.commands[name])
}

/// Sends requests; asserts that exactly this comes back, and nothing behind it before the answer to a further request.
pub fn ask(stream: &mut (impl Read + Write), requests: &[u8], answers: &[u8]) {
    stream.write_all(requests).unwrap();
    stream.write_all(b"mn\r\n").unwrap();
    let mut answer = vec![0; answers.len() + 4];
    stream.read_exact(&mut answer).unwrap();
    let expected = [answers, b"MN\r\n"].concat();
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
    assert!(
        answer == expected,
        "{:?}, not {:?}",
        text(&answer),
        text(&expected)
    );
}

pub fn until(server: &mut MemcachedServer, what: &str, so: impl Fn(&MemcachedServed) -> bool) {
    corelane_tests::until(what, || so(&server.served()));
}

#[test]
fn values_come_back_and_are_counted() {
    for mut server in start() {
        let mut client = connect(server.address());
        ask(
            &mut client,
            b"set a 5 0 3\r\none\r\nget a b\r\nget a\r\ndelete a\r\nget a\r\nms b 2\r\nhi\r\nmg b v f\r\n",
            b"STORED\r\nVALUE a 5 3\r\none\r\nEND\r\nVALUE a 5 3\r\none\r\nEND\r\nDELETED\r\nEND\r\nHD\r\nVA 2 f0\r\nhi\r\n",
        );
        until(&mut server, "all is counted", |served| {
            commands(served, "cmd_get") == 5
        });
        let served = server.stop().unwrap();
        let counted =
            ["cmd_set", "get_hits", "get_misses", "delete_hits"].map(|name| commands(&served, name));
        assert_eq!(counted, [2, 3, 2, 1]);
        assert_eq!(served.sum(|bucket| bucket.items), 1);
    }
}

#[test]
fn a_pipeline_and_a_long_multi_get_are_answered_in_order() {
    for server in start() {
        let mut client = connect(server.address());
        let (mut sets, mut stored, mut keys, mut values) =
            (String::new(), String::new(), String::from("get"), String::new());
        for number in 0..500 {
            write!(
                sets,
                "set key{number} 0 0 {}\r\n{number}\r\n",
                number.to_string().len()
            )
            .unwrap();
            stored += "STORED\r\n";
            write!(keys, " key{number} none{number}").unwrap();
            write!(
                values,
                "VALUE key{number} 0 {}\r\n{number}\r\n",
                number.to_string().len()
            )
            .unwrap();
        }
        ask(&mut client, sets.as_bytes(), stored.as_bytes());
        keys += "\r\n";
        values += "END\r\n";
        ask(&mut client, keys.as_bytes(), values.as_bytes());
        // In pieces that end anywhere.
        for piece in keys.as_bytes().chunks(997) {
            client.write_all(piece).unwrap();
        }
        ask(&mut client, b"", values.as_bytes());
    }
}

#[test]
fn values_of_all_sizes_arrive_in_parts() {
    for server in start() {
        let mut client = connect(server.address());
        for length in [0, 1, 2_047, 2_048, 65_535, 65_536, 300_000, 1_000_000] {
            let value: Vec<u8> = (0..length).map(|byte| (byte * 31 % 251) as u8).collect();
            let mut request = format!("set big 1 0 {length}\r\n").into_bytes();
            request.extend_from_slice(&value);
            ask(&mut client, &[&request[..], b"\r\n"].concat(), b"STORED\r\n");
            let head = format!("VALUE big 1 {length}\r\n");
            ask(
                &mut client,
                b"get big\r\n",
                &[head.as_bytes(), &value, b"\r\nEND\r\n"].concat(),
            );
        }
        let mut request = b"append big 0 0 100000\r\n".to_vec();
        request.resize(request.len() + 100_000, b'x');
        ask(&mut client, &[&request[..], b"\r\n"].concat(), b"NOT_STORED\r\n");
        ask(&mut client, b"set big 0 0 2\r\nab\r\n", b"STORED\r\n");
        ask(&mut client, &[&request[..], b"\r\n"].concat(), b"STORED\r\n");
        let mut answer = b"VALUE big 0 100002\r\nab".to_vec();
        answer.resize(answer.len() + 100_000, b'x');
        ask(
            &mut client,
            b"get big\r\n",
            &[&answer[..], b"\r\nEND\r\n"].concat(),
        );
        let mut request = b"set big 0 0 2000000\r\n".to_vec();
        request.resize(request.len() + 2_000_000, b'y');
        ask(
            &mut client,
            &[&request[..], b"\r\nget big\r\n"].concat(),
            b"SERVER_ERROR object too large for cache\r\nEND\r\n",
        );
    }
}

/// Answers that a client does not read fill its connection, and nothing else.
#[test]
fn a_client_that_never_reads_is_not_served_further_and_delays_no_other() {
    for mut server in start() {
        let (mut client, mut deaf) = (connect(server.address()), connect(server.address()));
        let mut request = b"set big 0 0 500000\r\n".to_vec();
        request.resize(request.len() + 500_000, b'z');
        ask(&mut client, &[&request[..], b"\r\n"].concat(), b"STORED\r\n");
        const GETS: usize = 100;
        deaf.write_all(&b"get big\r\n".repeat(GETS)).unwrap();
        until(&mut server, "it has paused", |served| {
            served.sum(|bucket| bucket.events.pauses) > 0
        });
        ask(&mut client, b"mn\r\n", b"MN\r\n");
        let gets = commands(&server.served(), "cmd_get");
        assert!(gets < GETS as u64, "{gets}");
        // It is served when it reads after all, also behind its own end.
        deaf.shutdown(Shutdown::Write).unwrap();
        let mut answers = Vec::new();
        deaf.read_to_end(&mut answers).unwrap();
        assert_eq!(
            answers.len(),
            GETS * (500_000 + "VALUE big 0 500000\r\n\r\nEND\r\n".len())
        );
    }
}

#[test]
fn a_connection_beyond_the_limit_is_told_so_and_closed() {
    for engine in engines() {
        let mut limited = plan(engine);
        limited.connections = 2;
        let mut server = MemcachedServer::start(limited).unwrap();
        let address = server.address();
        let mut clients = [connect(address), connect(address)];
        clients
            .iter_mut()
            .for_each(|client| ask(client, b"get a\r\n", b"END\r\n"));
        let mut refused = connect(address);
        let mut answer = String::new();
        refused.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "ERROR Too many open connections\r\n");
        drop((refused, clients));
        until(&mut server, "it is counted", |served| {
            served.buckets[0].events.rejected_connections == 1
        });
        corelane_tests::until("others are served when these have ended", || {
            let mut client = connect(address);
            client.write_all(b"quit\r\n").unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).is_ok() && answer.is_empty()
        });
    }
}

#[test]
fn what_is_no_request_of_the_protocol_ends_the_connection() {
    for mut server in start() {
        let binary = b"CLIENT_ERROR the binary protocol is not supported\r\n";
        for (request, answer) in [
            (&b"quit\r\nget a\r\n"[..], &b""[..]),
            (&[0x80; 24][..], &binary[..]),
            (b"GET / HTTP/1.1\r\n", b""),
            (&[b'x'; 3_000], b""),
        ] {
            let mut client = connect(server.address());
            client.write_all(request).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut answers = Vec::new();
            client.read_to_end(&mut answers).unwrap();
            assert_eq!(answers, answer);
        }
        until(&mut server, "they are counted", |served| {
            let causes = ["binary_protocol", "http", "line_too_long"];
            let counted: BTreeMap<_, _> = causes.map(|cause| (cause.to_owned(), 1)).into();
            served.errors() == counted
        });
    }
}

#[test]
fn a_flush_forgets_all_that_was_stored_before() {
    for server in start() {
        let mut client = connect(server.address());
        ask(
            &mut client,
            b"set a 0 0 1\r\n1\r\nflush_all\r\nget a\r\nset a 0 0 1\r\n2\r\nget a\r\nflush_all x\r\nflush_all 100\r\nget a\r\n",
            b"STORED\r\nOK\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\n2\r\nEND\r\nCLIENT_ERROR invalid exptime argument\r\nOK\r\nVALUE a 0 1\r\n2\r\nEND\r\n",
        );
    }
}

#[test]
fn reset_statistics_begin_again_and_counts_of_the_server_do_not() {
    for server in start() {
        let mut client = connect(server.address());
        ask(
            &mut client,
            b"set a 0 -1 1\r\n1\r\nget a\r\nget a\r\nset b 0 0 1\r\n1\r\nget b\r\nverbosity 1\r\n",
            b"STORED\r\nEND\r\nEND\r\nSTORED\r\nVALUE b 0 1\r\n1\r\nEND\r\nOK\r\n",
        );
        let names = ["cmd_get", "get_hits", "get_misses", "get_expired", "total_items"];
        let of = |stats: &BTreeMap<String, String>| names.map(|name| stats[name].clone());
        let before = stats(&mut client, "stats");
        assert_eq!(of(&before), ["3", "1", "2", "1", "2"]);
        assert_eq!(stats(&mut client, "stats settings")["verbosity"], "1");
        ask(&mut client, b"stats reset\r\n", b"RESET\r\n");
        let after = stats(&mut client, "stats");
        assert_eq!(of(&after), ["0"; 5]);
        assert_eq!((&*after["curr_items"], &*after["curr_connections"]), ("1", "1"));
        let mut server = server;
        assert_eq!(commands(&server.served(), "cmd_get"), 3);
    }
}

#[test]
fn a_unix_socket_has_its_permissions_and_goes_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memcached.sock");
    for engine in engines() {
        let unix = UnixSocket {
            path: path.clone(),
            mode: 0o640,
        };
        let plan = MemcachedPlan {
            tcp: false,
            unix: Some(unix),
            ..plan(engine)
        };
        let server = MemcachedServer::start(plan).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        let mut client = UnixStream::connect(&path).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        ask(
            &mut client,
            b"set a 0 0 1\r\n1\r\nget a\r\n",
            b"STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n",
        );
        server.stop().unwrap();
        assert!(!path.exists());
    }
}

#[test]
fn numbers_of_changes_begin_at_1_and_the_statistics_are_those_of_all_workers() {
    for server in start() {
        let mut client = connect(server.address());
        let workers = server.steering().table.buckets();
        if workers == 1 {
            ask(
                &mut client,
                b"set a 0 0 1\r\n1\r\ngets a\r\n",
                b"STORED\r\nVALUE a 0 1 1\r\n1\r\nEND\r\n",
            );
        }
        let sets: String = (0..100)
            .map(|key| format!("set key{key} 0 0 1 noreply\r\n1\r\n"))
            .collect();
        client.write_all(sets.as_bytes()).unwrap();
        let items = if workers == 1 { 101 } else { 100 };
        let stats = stats(&mut client, "stats");
        assert_eq!(stats["curr_items"], items.to_string());
        assert_eq!(stats["cmd_set"], items.to_string());
        assert_eq!(stats["threads"], workers.to_string());
        let own = self::stats(&mut client, "stats corelane");
        let of = |what: &str| -> Vec<u64> {
            let of_worker = |worker| own[&format!("{worker}:{what}")].parse().unwrap();
            (0..workers).map(of_worker).collect()
        };
        let [local, handed_over, taken_over] = ["local", "handed_over", "taken_over"].map(of);
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        assert_eq!(sum(&handed_over), sum(&taken_over));
        let requests = sum(&local) + sum(&handed_over);
        assert_eq!(requests, items + u64::from(workers == 1));
        assert!(workers == 1 || sum(&handed_over) > 30, "{own:?}");
    }
}

/// Statistics by name.
pub fn stats(stream: &mut (impl Read + Write), request: &str) -> BTreeMap<String, String> {
    stream.write_all(format!("{request}\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"END\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let text = String::from_utf8(answer).unwrap();
    let pairs = text
        .lines()
        .filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn datagrams_are_answered_in_frames_of_their_request() {
    for mut server in start() {
        let address = server.served().own.udp[0];
        let socket = UdpSocket::bind(anywhere()).unwrap();
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let ask = |number: u16, request: &str| {
            let mut datagram = [&number.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0]].concat();
            datagram.extend_from_slice(request.as_bytes());
            socket.send(&datagram).unwrap();
        };
        let receive = || {
            let mut datagram = [0; 2_000];
            let length = socket.recv(&mut datagram).unwrap();
            datagram[..length].to_vec()
        };
        for number in 0..50 {
            ask(number, &format!("set key{number} 0 0 2\r\n{number:02}\r\n"));
            let expected = [&number.to_be_bytes()[..], b"\0\0\0\x01\0\0STORED\r\n"].concat();
            assert_eq!(receive(), expected);
        }
        // No requests: answers to others follow.
        ask(7, "");
        ask(7, "set cut 0 0 100\r\nabc");
        socket.send(&[0; 4]).unwrap();
        for number in 0..50 {
            ask(number, &format!("get key{number} key{}\r\n", 49 - number));
            let text = format!(
                "VALUE key{number} 0 2\r\n{number:02}\r\nVALUE key{0} 0 2\r\n{0:02}\r\nEND\r\n",
                49 - number
            );
            let expected = [&number.to_be_bytes()[..], b"\0\0\0\x01\0\0", text.as_bytes()].concat();
            assert_eq!(receive(), expected);
        }
        let mut client = connect(server.address());
        let mut request = b"set big 0 0 3000\r\n".to_vec();
        request.resize(request.len() + 3_000, b'v');
        self::ask(&mut client, &[&request[..], b"\r\n"].concat(), b"STORED\r\n");
        ask(9, "get big\r\n");
        let mut answer = Vec::new();
        for sequence in 0..3 {
            let datagram = receive();
            assert_eq!(datagram[..8], [0, 9, 0, sequence, 0, 3, 0, 0]);
            assert!(datagram.len() <= 1_400);
            answer.extend_from_slice(&datagram[8..]);
        }
        let expected = [b"VALUE big 0 3000\r\n", &[b'v'; 3_000][..], b"\r\nEND\r\n"].concat();
        assert_eq!(answer, expected);
        let served = server.stop().unwrap();
        assert_eq!(served.sum(|bucket| bucket.events.datagrams_refused), 3);
    }
}

#[test]
fn requests_over_tls_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (tls, trusting) = http_tls::certificate(folder.path());
    for workers in [1, 2] {
        let plan = MemcachedPlan {
            tls: Some(tls.clone()),
            ..MemcachedPlan::new(anywhere(), steering(workers))
        };
        let server = MemcachedServer::start(plan).unwrap();
        let mut socket = connect(server.address());
        let mut session = http_tls::session(&trusting);
        let mut client = Stream::new(&mut session, &mut socket);
        let value = "x".repeat(100_000);
        ask(
            &mut client,
            format!("set a 0 0 100000\r\n{value}\r\nget a none\r\n").as_bytes(),
            format!("STORED\r\nVALUE a 0 100000\r\n{value}\r\nEND\r\n").as_bytes(),
        );
    }
}

#[test]
fn keys_of_all_workers_are_listed_and_requests_behind_are_answered() {
    for server in start() {
        let mut client = connect(server.address());
        let sets: String = (0..3_000)
            .map(|key| format!("set key{key} 0 0 1 noreply\r\n1\r\n"))
            .collect();
        client.write_all(sets.as_bytes()).unwrap();
        for (request, start, end) in [
            ("lru_crawler metadump all", "OK\r\n", "END\r\n"),
            ("lru_crawler mgdump all", "OK\r\n", "EN\r\n"),
            ("stats cachedump 1 0", "", "END\r\n"),
        ] {
            client
                .write_all(format!("{request}\r\nmn\r\n").as_bytes())
                .unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"MN\r\n") {
                let mut bytes = [0; 10_000];
                let length = client.read(&mut bytes).unwrap();
                answer.extend_from_slice(&bytes[..length]);
            }
            let text = String::from_utf8(answer).unwrap();
            let list = text.strip_prefix(start).unwrap().strip_suffix("MN\r\n").unwrap();
            let list = list.strip_suffix(end).unwrap();
            let keys: BTreeSet<&str> = list
                .lines()
                .map(|line| line.split([' ', '=']).nth(1).unwrap())
                .collect();
            assert_eq!((keys.len(), list.lines().count()), (3_000, 3_000), "{request}");
        }
        let two = stats(&mut client, "stats cachedump 1 2");
        assert!(two.is_empty());
    }
}

/// More than the mailboxes of other workers have room for, so that the connection stops and goes on many times.
#[test]
fn a_long_pipeline_without_answers_is_executed_whole() {
    const ITEMS: usize = 30_000;
    for server in start() {
        let mut client = connect(server.address());
        let value = "v".repeat(100);
        let sets: String = (0..ITEMS)
            .map(|key| format!("set key{key} 0 0 100 noreply\r\n{value}\r\n"))
            .collect();
        ask(&mut client, sets.as_bytes(), b"");
        assert_eq!(stats(&mut client, "stats")["curr_items"], ITEMS.to_string());
    }
}
