//! The comparison of servers with upstream memcached: upstream differs neither from itself nor from its copies, and a server that
//! answers one request wrongly is found.

#![forbid(unsafe_code)]

use corelane_tests::memcached::{CasOrder, Differential, Peers, Upstream};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Two copies of upstream; `None`, with a note, if it was not built.
fn copies() -> Option<[Upstream; 2]> {
    Some([Upstream::start()?, Upstream::start()?])
}

#[test]
fn upstream_answers_as_its_copies_do() {
    let (Some([upstream, copy]), Some(subject)) = (copies(), Upstream::start()) else {
        return;
    };
    let peers = Peers::new(
        upstream.addresses(),
        copy.addresses(),
        subject.addresses(),
        CasOrder::Same,
    );
    let run = Differential {
        seed: 1,
        sequences: 1_000,
    };
    match run.run(&peers) {
        Ok(summary) => println!("{summary}"),
        Err(differences) => panic!("{differences}"),
    }
}

#[test]
fn a_server_that_answers_one_kind_of_request_wrongly_is_found() {
    let (Some([upstream, copy]), Some(behind)) = (copies(), Upstream::start()) else {
        return;
    };
    let proxy = lying_proxy(behind.addresses().stream);
    let peers = Peers::new(
        upstream.addresses(),
        copy.addresses(),
        proxy.into(),
        CasOrder::Same,
    );
    let differences = (1..).step_by(100).find_map(|seed| {
        let run = Differential { seed, sequences: 100 };
        run.run(&peers).err()
    });
    let differences = differences.expect("a difference");
    let first = differences.split("seed ").nth(1).unwrap_or_default();
    assert!(first.contains("upstream answers TOUCHED\\r\\n"), "{differences}");
    assert!(first.contains("the subject      TOUCHEd\\r\\n"), "{differences}");
    let requests = first.lines().filter(|line| line.starts_with("  ")).count();
    assert!(requests <= 3, "not the shortest sequence: {differences}");
}

/// Where a proxy listens that passes requests to `server` and changes one of its answers. It runs until the program ends.
fn lying_proxy(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(server) else {
                return;
            };
            let (client_side, server_side) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || pass(client, server, |_| {}));
            thread::spawn(move || pass(server_side, client_side, lie));
        }
    });
    address
}

/// Passes bytes on until the end.
fn pass(mut from: TcpStream, mut to: TcpStream, change: fn(&mut [u8])) {
    let mut buffer = [0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        change(&mut buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn lie(answers: &mut [u8]) {
    let truth = b"TOUCHED\r\n";
    for at in 0..answers.len().saturating_sub(truth.len() - 1) {
        if answers[at..].starts_with(truth) {
            answers[at + 6] = b'd';
        }
    }
}
