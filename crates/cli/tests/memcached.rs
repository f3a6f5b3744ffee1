//! `serve memcached` in place of memcached.

use crate::common::{Server, corelane, engines};
use corelane_tests::memcached::{Addresses, CasOrder, Differential, Peers, Upstream};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Stdio, id};

/// The first seed; `MEMCACHED_SEED` in the environment is another.
const SEED: u64 = 1;

/// Compares a server with these flags, and the address where it has datagrams, with two copies of upstream. `sequences`, or
/// `MEMCACHED_SEQUENCES` of the environment, is the number of sequences.
fn compare(flags: &str, datagrams: Option<SocketAddr>, sequences: u64, order: CasOrder) {
    let (Some(upstream), Some(copy)) = (Upstream::start(), Upstream::start()) else {
        return;
    };
    let command = corelane(&format!("serve memcached -m 1024 {flags}"))
        .stdout(Stdio::piped())
        .spawn();
    let server = Server::of(command.expect("the server starts"));
    let stream = server.address.parse().expect("an address");
    let subject = Addresses { stream, datagrams };
    let setting = |name: &str, otherwise: u64| {
        let text = std::env::var(name);
        text.map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let run = Differential {
        seed: setting("MEMCACHED_SEED", SEED),
        sequences: setting("MEMCACHED_SEQUENCES", sequences),
    };
    let peers = Peers::new(upstream.addresses(), copy.addresses(), subject, order);
    match run.run(&peers) {
        Ok(summary) => println!("{flags}: {summary}"),
        Err(differences) => panic!("{flags}: {differences}"),
    }
}

#[test]
fn clients_cannot_distinguish_one_worker_from_memcached() {
    for engine in engines() {
        let flags = format!("-l 127.0.0.1:0 -t 1 --engine {engine}");
        compare(&flags, None, 2_000, CasOrder::Same);
    }
}

#[test]
fn clients_cannot_distinguish_answers_over_udp_from_those_of_memcached() {
    // An address of this process alone: the port of datagrams is named in the flags.
    let [_, a, b, c] = id().to_be_bytes();
    let address = Ipv4Addr::new(127, 64 | a, b, c);
    let datagrams = Some((address, 11_211).into());
    let flags = format!("-l {address} -p 11211 -U 11211 -t 1");
    compare(&flags, datagrams, 2_000, CasOrder::Same);
}

#[test]
fn clients_cannot_distinguish_several_workers_from_memcached() {
    // The numbers of changes have an order for each key only.
    compare("-l 127.0.0.1:0 -t 4", None, 2_000, CasOrder::Any);
}
