//! A datagram with a bad UDP checksum is none that a full buffer dropped, at a server and at a generator. The kernel verifies
//! the checksum of a short one before it looks for a socket; these are longer (`CHECKSUM_BREAK`, 76 bytes).

use crate::common::{self, Server, corelane};
use corelane_host::bed::Side;
use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{IpAddr, SocketAddrV4, UdpSocket};
use std::process::Stdio;
use std::thread;

const BYTES: usize = 200;

/// A socket that takes whole IPv4 packets.
fn raw(side: &Side) -> Socket {
    // IPPROTO_RAW
    let protocol = Protocol::from(255);
    side.run(move || Socket::new(Domain::IPV4, Type::RAW, Some(protocol)).unwrap())
}

/// Sends a datagram whose checksum is wrong by one.
fn send_bad(raw: &Socket, source: SocketAddrV4, target: SocketAddrV4) {
    let length = (8 + BYTES) as u16;
    let ends = [*source.ip(), *target.ip()]
        .map(|address| address.octets())
        .concat();
    let mut datagram = [source.port(), target.port(), length, 0]
        .map(u16::to_be_bytes)
        .concat();
    datagram.resize(8 + BYTES, 0);
    let pseudo = [&ends[..], &[0, 17], &length.to_be_bytes()].concat();
    let words = pseudo.chunks(2).chain(datagram.chunks(2));
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    let right = !((sum & 0xffff) + (sum >> 16)) as u16;
    // 0 is none, and 0xffff would be equal to it.
    let wrong = if right < 0xfffe { right + 1 } else { 1 };
    datagram[6..8].copy_from_slice(&wrong.to_be_bytes());
    // The kernel fills in length, identification and checksum of the IP header (raw(7)).
    let header = [&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0], &ends[..]].concat();
    raw.send_to(&[header, datagram].concat(), &target.into()).unwrap();
}

fn v4(address: IpAddr, port: u16) -> SocketAddrV4 {
    match address {
        IpAddr::V4(address) => SocketAddrV4::new(address, port),
        IpAddr::V6(address) => panic!("{address} is no IPv4 address"),
    }
}

#[test]
fn a_server_counts_bad_checksums_apart_from_full_buffers() {
    let Some(bed) = common::bed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("served.json");
    let target = v4(bed.server.address(), 9000);
    let mut command = corelane(&format!(
        "serve udp {target} --buckets 1 --json={}",
        report.display()
    ));
    command.stdout(Stdio::piped());
    let mut server = Server::of(bed.server.run(move || command.spawn().unwrap()));
    let (raw, own) = (raw(&bed.client), (bed.client.address(), 0));
    let client = bed.client.run(move || UdpSocket::bind(own).unwrap());
    let source = v4(bed.client.address(), client.local_addr().unwrap().port());
    for _ in 0..50 {
        send_bad(&raw, source, target);
    }
    // It is read after those before it.
    client.send_to(b"good", target).unwrap();
    client.recv(&mut [0; 16]).unwrap();
    server.signal("INT");
    server.wait();
    let served: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let bucket = &served["buckets"][0];
    assert_eq!(bucket["dropped"], json!({ "bad_checksum": 50 }), "{served}");
    assert_eq!(bucket["seen"], 1, "{served}");
}

#[test]
fn a_generator_counts_bad_checksums_apart_from_what_it_read_too_slowly() {
    let Some(bed) = common::bed() else { return };
    let (place, raw) = ((bed.server.address(), 9000), raw(&bed.server));
    let server = bed.server.run(move || UdpSocket::bind(place).unwrap());
    let target = v4(bed.server.address(), 9000);
    let answering = thread::spawn(move || {
        for _ in 0..20 {
            let mut request = [0; BYTES];
            let (length, client) = server.recv_from(&mut request).unwrap();
            send_bad(&raw, target, v4(client.ip(), client.port()));
            server.send_to(&request[..length], client).unwrap();
        }
    });
    let mut load = corelane(&format!(
        "load udp {target} --rate 1k --count 20 --size {BYTES} --json"
    ));
    let output = bed.client.run(move || load.output().unwrap());
    answering.join().unwrap();
    let loaded: Value = serde_json::from_slice(&output.stdout).unwrap();
    let total = &loaded["total"];
    let counts = ["sent", "returned", "lost", "dropped_here", "bad_checksum"].map(|count| &total[count]);
    assert_eq!(
        counts,
        [&json!(20), &json!(20), &json!(0), &json!(0), &json!(20)],
        "{loaded}"
    );
    let limited = loaded["limited_by"].as_str().unwrap_or_default();
    assert!(!limited.contains("its own sockets dropped"), "{limited}");
}
