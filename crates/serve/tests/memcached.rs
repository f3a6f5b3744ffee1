//! `serve::memcached` from the clients' side, over real sockets.

use crate::common::{anywhere, connect, engines, steering};
use corelane_serve::Server;
use corelane_serve::memcached::{MemcachedPlan, MemcachedServed, MemcachedServer, UnixSocket};
use corelane_tests::PATIENCE;
use corelane_worker::engine::EngineKind;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

fn plan(engine: EngineKind) -> MemcachedPlan {
    let mut plan = MemcachedPlan::new(anywhere(), steering(1));
    plan.listening.engine = Some(engine);
    plan
}

fn start() -> Vec<MemcachedServer> {
    let start = |engine| MemcachedServer::start(plan(engine)).unwrap();
    engines().into_iter().map(start).collect()
}

/// Sends requests; asserts that exactly this comes back, and nothing behind it before the answer to a further request.
fn ask(stream: &mut (impl Read + Write), requests: &[u8], answers: &[u8]) {
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

fn until(server: &mut MemcachedServer, what: &str, so: impl Fn(&MemcachedServed) -> bool) {
    corelane_tests::until(what, || so(&server.served()));
}

#[test]
fn values_come_back_and_are_counted() {
    for mut server in start() {
        let mut client = connect(server.address());
        ask(
            &mut client,
            b"set a 5 0 3\r\none\r\nget a b\r\ngets a\r\ndelete a\r\nget a\r\nms b 2 c\r\nhi\r\nmg b v f\r\n",
            b"STORED\r\nVALUE a 5 3\r\none\r\nEND\r\nVALUE a 5 3 1\r\none\r\nEND\r\nDELETED\r\nEND\r\nHD c2\r\nVA 2 f0\r\nhi\r\n",
        );
        until(&mut server, "all is counted", |served| {
            served.sum(|bucket| bucket.commands["cmd_get"]) == 5
        });
        let served = server.stop().unwrap();
        let commands = &served.buckets[0].commands;
        let counted = ["cmd_set", "get_hits", "get_misses", "delete_hits"].map(|name| commands[name]);
        assert_eq!(counted, [2, 3, 2, 1]);
        assert_eq!(served.buckets[0].items, 1);
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
            served.buckets[0].events.pauses > 0
        });
        ask(&mut client, b"mn\r\n", b"MN\r\n");
        let gets = server.served().buckets[0].commands["cmd_get"];
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
        until(&mut server, "all have ended", |served| {
            served.buckets[0].connections.open == 0
        });
        ask(&mut connect(address), b"get a\r\n", b"END\r\n");
        let served = server.stop().unwrap();
        assert_eq!(served.buckets[0].events.rejected_connections, 1);
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
            // What was not read resets the connection.
            let _ = client.read_to_end(&mut answers);
            assert_eq!(answers, answer);
        }
        until(&mut server, "they are counted", |served| {
            served.buckets[0].events.protocol_errors == 3
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
