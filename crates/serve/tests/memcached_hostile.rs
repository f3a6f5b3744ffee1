//! `serve::memcached` with clients that stop in the middle, ask for much at once, do not read or do not close.

use crate::common::{anywhere, connect, engines, steering};
use crate::http_tls;
use crate::memcached::{ask, commands, start, stats, until};
use corelane_serve::memcached::{MemcachedError, MemcachedPlan, MemcachedServer, UnixSocket};
use corelane_serve::{ServeError, Server};
use corelane_worker::tls::{Certificate, CertificateFiles};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

/// Servers of two workers, on each engine.
fn two_workers() -> impl Iterator<Item = MemcachedServer> {
    engines().into_iter().map(|engine| {
        let mut plan = MemcachedPlan::new(anywhere(), steering(2));
        plan.listening.engine = Some(engine);
        plan.largest_item = 256 << 10;
        plan.memory_bytes = 128 << 20;
        MemcachedServer::start(plan).unwrap()
    })
}

/// Whether the worker of a connection hands a key over.
fn is_handed_over(client: &mut TcpStream, key: &str) -> bool {
    let mut handed_over = |request: &str, answer: &str| -> u64 {
        ask(client, request.as_bytes(), answer.as_bytes());
        let stats = stats(client, "stats corelane");
        let counts = stats.iter().filter(|(name, _)| name.ends_with(":handed_over"));
        counts.map(|(_, count)| count.parse::<u64>().unwrap()).sum()
    };
    let before = handed_over("", "");
    handed_over(&format!("touch {key} 0\r\n"), "TOUCHED\r\n") > before
}

/// Also values of keys that other workers own are given up, and their clients are closed.
#[test]
fn an_upload_that_ends_in_the_middle_leaves_nothing() {
    for server in start() {
        for key in 0..16 {
            let mut client = connect(server.address());
            let mut request =
                format!("set before{key} 0 0 1\r\n1\r\nset key{key} 0 0 100000\r\n").into_bytes();
            request.resize(request.len() + 50_000, b'x');
            client.write_all(&request).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut answers = Vec::new();
            client.read_to_end(&mut answers).unwrap();
            assert_eq!(answers, b"STORED\r\n");
        }
        let mut client = connect(server.address());
        corelane_tests::until("only this connection is open", || {
            stats(&mut client, "stats")["curr_connections"] == "1"
        });
        assert_eq!(stats(&mut client, "stats")["curr_items"], "16");
        ask(
            &mut client,
            b"get key0 before0\r\n",
            b"VALUE before0 0 1\r\n1\r\nEND\r\n",
        );
    }
}

/// However small the answers before were.
#[test]
fn all_large_values_of_one_request_arrive() {
    const KEYS: usize = 128;
    for server in two_workers() {
        let mut client = connect(server.address());
        let value = "v".repeat(250_000);
        let (mut keys, mut values) = (String::from("get"), String::new());
        for key in 0..KEYS {
            let set = format!("set key{key} 0 0 {}\r\n{value}\r\n", value.len());
            ask(&mut client, set.as_bytes(), b"STORED\r\n");
            write!(keys, " key{key}").unwrap();
            write!(values, "VALUE key{key} 0 {}\r\n{value}\r\n", value.len()).unwrap();
        }
        for key in 0..1_000 {
            ask(&mut client, format!("get none{key}\r\n").as_bytes(), b"END\r\n");
        }
        keys += "\r\n";
        values += "END\r\n";
        ask(&mut client, keys.as_bytes(), values.as_bytes());
    }
}

/// What one client asks for at once is executed as far as it takes the answers, also behind the answer of another worker.
#[test]
fn a_client_that_never_reads_has_few_answers_behind_one_of_another_worker() {
    const GETS: u64 = 2_000;
    for mut server in two_workers() {
        let (mut client, mut deaf) = (connect(server.address()), connect(server.address()));
        let value = "v".repeat(250_000);
        let (mut local, mut other) = (None, None);
        for number in 0.. {
            let key = format!("key{number}");
            let set = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
            ask(&mut deaf, set.as_bytes(), b"STORED\r\n");
            match is_handed_over(&mut deaf, &key) {
                true => other = Some(key),
                false => local = Some(key),
            }
            if local.is_some() && other.is_some() {
                break;
            }
        }
        let (local, other) = (local.unwrap(), other.unwrap());
        let gets = format!(" {local}").repeat(GETS as usize);
        deaf.write_all(format!("get {other}\r\nget{gets}\r\n").as_bytes())
            .unwrap();
        until(&mut server, "it has paused", |served| {
            served.sum(|bucket| bucket.events.pauses) > 0
        });
        ask(
            &mut client,
            format!("touch {local} 0\r\n").as_bytes(),
            b"TOUCHED\r\n",
        );
        let executed = commands(&server.served(), "cmd_get");
        assert!(executed < GETS / 10, "{executed}");
    }
}

/// It is handed over key by key, and stops many times.
#[test]
fn a_line_of_very_many_keys_is_answered() {
    for server in start() {
        let mut client = connect(server.address());
        let mut request = String::from("get");
        (0..20_000).for_each(|key| write!(request, " none{key}").unwrap());
        for piece in request.as_bytes().chunks(9_973) {
            client.write_all(piece).unwrap();
        }
        ask(&mut client, b"\r\n", b"END\r\n");
    }
}

/// What the client sends behind them does not reset the connection.
#[test]
fn answers_that_are_due_arrive_before_the_end() {
    let behind = "get a\r\n".repeat(30_000);
    for server in start() {
        let mut client = connect(server.address());
        client
            .write_all(format!("set a 0 0 1\r\n1\r\nget a\r\nquit\r\n{behind}").as_bytes())
            .unwrap();
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        assert_eq!(answers, "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
    }
}

/// Those that stay open although they were refused take the place of no other.
#[test]
fn refused_connections_are_not_counted() {
    for engine in engines() {
        let mut plan = MemcachedPlan::new(anywhere(), steering(1));
        plan.listening.engine = Some(engine);
        plan.connections = 1;
        let server = MemcachedServer::start(plan).unwrap();
        let mut client = connect(server.address());
        ask(&mut client, b"", b"");
        let mut refused: Vec<_> = (0..20).map(|_| connect(server.address())).collect();
        for refused in &mut refused {
            let mut answer = String::new();
            refused.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, "ERROR Too many open connections\r\n");
        }
        assert_eq!(stats(&mut client, "stats")["curr_connections"], "1");
    }
}

/// As memcached with `-Z -s`.
#[test]
fn a_unix_socket_is_plaintext_where_tls_is_asked_for_and_refused_beside_tcp() {
    let folder = tempfile::tempdir().unwrap();
    let (tls, _) = http_tls::certificate(folder.path());
    let path = folder.path().join("memcached.sock");
    let start = |tcp, tls| {
        MemcachedServer::start(MemcachedPlan {
            tcp,
            tls: Some(tls),
            unix: Some(UnixSocket {
                path: path.clone(),
                mode: 0o700,
            }),
            ..MemcachedPlan::new(anywhere(), steering(2))
        })
    };
    let server = start(false, tls.clone()).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    client
        .write_all(b"set a 0 0 1\r\nx\r\nget a\r\nstats settings\r\nquit\r\n")
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"),
        "{answer}"
    );
    assert!(answer.contains("STAT ssl_enabled yes\r\n"), "{answer}");
    server.stop().unwrap();
    let missing = Certificate::Files(CertificateFiles {
        certificate: folder.path().join("none"),
        key: folder.path().join("none"),
    });
    let refused = start(false, missing).err();
    assert!(
        matches!(refused, Some(MemcachedError::Serve(ServeError::Tls(_)))),
        "{refused:?}"
    );
    let refused = start(true, tls).err();
    assert!(
        matches!(refused, Some(MemcachedError::EncryptedUnix)),
        "{refused:?}"
    );
}
