//! Clients of `serve memcached` that choose the worker of a key.

use crate::common::{Server, corelane, refused, run_json};
use corelane_load::memcached::Said;
use corelane_tests::PATIENCE;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Stdio, id};
use std::thread;

fn started(flags: &str) -> (Server, SocketAddr) {
    let command = corelane(&format!("serve memcached {flags}"))
        .stdout(Stdio::piped())
        .spawn();
    let server = Server::of(command.expect("the server starts"));
    let address = server.address.parse().expect("an address");
    (server, address)
}

/// A connection from the first of these ports that is free.
fn connected(ports: &Value, server: SocketAddr) -> TcpStream {
    let connect = |port: &Value| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
        let port = port.as_u64()? as u16;
        socket.bind(&SocketAddr::new(server.ip(), port).into()).ok()?;
        socket.connect(&server.into()).ok()?;
        Some(TcpStream::from(socket))
    };
    let stream = ports.as_array().unwrap().iter().find_map(connect);
    let stream = stream.expect("a free port");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn requests_from_the_planned_ports_are_local() {
    let (_server, address) = started("-l 127.0.0.1:0 -t 4");
    let keys: Vec<String> = (0..12)
        .map(|number| format!("--cache-key key:{number}"))
        .collect();
    let plan = format!(
        "plan --server {address} --ports 20000-30000 --json --all {}",
        keys.join(" ")
    );
    let planned = run_json(&plan);
    assert_eq!(planned["schema"], "corelane/plan-keys/1");
    let planned_keys = planned["keys"].as_array().unwrap();
    for planned in planned_keys {
        let mut stream = connected(&planned["ports"], address);
        let key = planned["key"].as_str().unwrap();
        write!(stream, "get {key}\r\n").unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"END\r\n");
    }
    let locality = Said::by(address, PATIENCE).unwrap().locality();
    assert_eq!((locality.hits, locality.samples), (12, 12));
    // The same by its parameters.
    let seed = &planned["seed"];
    let given = run_json(&format!("{plan} --seed {seed} --buckets 4 --client 127.0.0.1"));
    assert_eq!(given, planned);
}

#[test]
fn keys_are_planned_for_servers_that_say_who_owns_them() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let _ = connection.write_all(b"ERROR\r\n");
        }
    });
    let error = refused(&format!("plan --server {address} --cache-key a"), 77);
    assert!(error.contains("does not say who owns its keys"), "{error}");
    let error = refused(&format!("load memcached {address} --align owner --count 1"), 77);
    assert!(error.contains("does not say who owns its keys"), "{error}");
    for (flags, reason) in [
        ("--cache-key a --buckets 4", "the server says how"),
        ("--cache-key a --seed 1 --buckets 4", "needs the address"),
        ("--seed 1 --client 127.0.0.1", "--cache-key"),
    ] {
        let error = refused(&format!("plan --server {address} {flags}"), 2);
        assert!(error.contains(reason), "{flags}: {error}");
    }
}

#[test]
fn aligned_generators_ask_for_keys_of_the_worker_that_they_reach() {
    // An address of this process alone, and a port of this test: the port of datagrams is named in the flags.
    let [_, a, b, c] = id().to_be_bytes();
    let (_server, address) = started(&format!("-l 127.{}.{b}.{c} -p 11213 -U 11213 -t 4", 64 | a));
    let mut before = 0;
    for flags in [
        "--multi-get 8 --pipeline 4 --connections 8",
        "--udp --connections 8",
    ] {
        let load = format!("load memcached {address} --align owner --keys 1000 --count 4000 --json {flags}");
        let loaded = run_json(&load);
        let notes = loaded["notes"].to_string();
        assert!(
            notes.contains("100.0 % of them at the worker that owns them"),
            "{flags}: {notes}"
        );
        let locality = Said::by(address, PATIENCE).unwrap().locality();
        assert_eq!(locality.hits, locality.samples, "{flags}");
        assert!(locality.hits >= before + 4_000, "{flags}: {locality:?}");
        before = locality.hits;
    }
}
