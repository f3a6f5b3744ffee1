//! The kernel's own TCP receives behind a bridge that merges segments: over a veth that merges nothing itself, under loss and
//! reordering, it gets the bytes that were sent.

use super::namespaces::{run, wait_until_up};
use super::stages::Merging;
use corelane_host::bed::{Bed, Side};
use corelane_link::{AnyLink, LinkSpec, Opener};
use corelane_rss::Key;
use corelane_serve::bridge::{Forwarder, Queues, WorkerCounts};
use corelane_stage::coalescing::{Coalescing, Counts, Plan};
use corelane_tests::{PATIENCE, namespaces, namespaces_plan, undisturbed};
use corelane_worker::CachePadded;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const GIGABYTE: usize = 1_000_000_000;
const PART: usize = 1_000_000;

/// The receiver's and the sender's address.
const ADDRESSES: [[&str; 2]; 2] = [["10.12.0.1", "10.12.0.2"], ["fd12::1", "fd12::2"]];

/// Two namespaces; in the server's a second veth, whose far end has the receiver's addresses. Nothing but the bridge merges, and
/// the sender leaves nothing to its device.
fn world() -> Option<Bed> {
    let bed = namespaces(&namespaces_plan())?;
    let made = run(
        &bed,
        "ip",
        &["link", "add", "out0", "type", "veth", "peer", "name", "out1"],
    ) && run(&bed, "ethtool", &["-K", "server0", "gro", "off"])
        && run(&bed, "ethtool", &["-K", "out1", "gro", "off"]);
    if !made {
        return None;
    }
    for device in ["out0", "out1"] {
        assert!(run(&bed, "ip", &["link", "set", device, "up"]));
    }
    wait_until_up(&bed.server, "out1");
    wait_until_up(&bed.client, "client0");
    bed.server.set("net.ipv6.conf.out1.disable_ipv6", "0").unwrap();
    bed.client.set("net.ipv6.conf.client0.disable_ipv6", "0").unwrap();
    let ip = |side: &Side, arguments: String| {
        side.run(move || {
            let done = Command::new("ip").args(arguments.split(' ')).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        });
    };
    // A bed knows the addresses of its own two ends.
    ip(&bed.client, "link set client0 arp on".to_owned());
    for [receiver, sender] in ADDRESSES {
        let length = if receiver.contains(':') { "64 nodad" } else { "24" };
        ip(&bed.server, format!("addr add dev out1 {receiver}/{length}"));
        ip(&bed.client, format!("addr add dev client0 {sender}/{length}"));
    }
    bed.client.run(|| {
        let arguments = ["-K", "client0", "tso", "off", "gso", "off", "tx", "off"];
        let done = Command::new("ethtool").args(arguments).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    });
    Some(bed)
}

/// A byte of what is sent.
fn byte(at: usize) -> u8 {
    ((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Forwards and merges until it is stopped.
fn forward(links: Vec<AnyLink>, stop: &AtomicBool, merged: Arc<Counts>) {
    let counts = Arc::new(CachePadded::new(WorkerCounts::new(links.len(), 0)));
    let stage = Merging(Coalescing::new(Plan::default(), &Key::VERIFICATION, merged));
    let queues = links.into_iter().map(|link| Queues::new(vec![link])).collect();
    let mut forwarder = Forwarder::new(queues, stage, 4096, counts);
    while !stop.load(Ordering::Relaxed) {
        if forwarder.turn(Instant::now()) == 0 {
            forwarder.rest();
            corelane_link::wait(forwarder.queues(), None);
        }
        if let Some(failure) = forwarder.failures().next() {
            panic!("{failure:?}");
        }
    }
}

/// Sends this many bytes through the bridge, and compares each that arrives.
fn receives(bytes: usize, [receiver, sender]: [&str; 2]) {
    let Some(bed) = world() else { return };
    let links = [
        "packet:server0,frames=4096,drop=0.1%,reorder=1%,seed=3",
        "packet:out0,frames=4096",
    ];
    let links = links.map(|link| {
        let spec: LinkSpec = link.parse().unwrap();
        let opener = Opener::new(spec.for_merged().unwrap());
        bed.server.run(move || opener.open()).unwrap().remove(0)
    });
    let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new(Counts::default()));
    let bridge = std::thread::spawn({
        let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
        move || forward(links.into(), &stop, counts)
    });
    let address = |text: &str| -> SocketAddr { (text.parse::<IpAddr>().unwrap(), 7000).into() };
    let (to, from) = (address(receiver), sender.parse::<IpAddr>().unwrap());
    let listener = bed.server.run(move || TcpListener::bind(to)).unwrap();
    let reading = std::thread::spawn(move || {
        let (mut connection, peer) = listener.accept().unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(peer.ip(), from);
        let (mut memory, mut at) = (vec![0; PART], 0);
        loop {
            let read = connection.read(&mut memory).unwrap();
            if read == 0 {
                return at;
            }
            let differs = (at..).zip(&memory[..read]).find(|(at, got)| byte(*at) != **got);
            assert_eq!(differs, None);
            at += read;
        }
    });
    let connect = move || TcpStream::connect_timeout(&to, PATIENCE);
    let mut connection = bed.client.run(connect).unwrap();
    connection.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut part = Vec::with_capacity(PART);
    for start in (0..bytes).step_by(PART) {
        part.clear();
        part.extend((start..start + PART).map(byte));
        connection.write_all(&part).unwrap();
    }
    connection.shutdown(Shutdown::Write).unwrap();
    assert_eq!(reading.join().unwrap(), bytes);
    stop.store(true, Ordering::Relaxed);
    bridge.join().unwrap();
    let (segments, aggregations) = (counts.segments.get(), counts.aggregations.get());
    println!("{bytes} bytes to {to}: {segments} segments in {aggregations} frames; {counts:?}");
    assert!(
        segments as usize * 1448 >= bytes - PART && aggregations < segments,
        "{counts:?}"
    );
}

#[test]
fn the_kernel_receives_merged_segments_of_ipv4() {
    undisturbed(|| receives(GIGABYTE, ADDRESSES[0]));
}

#[test]
fn the_kernel_receives_merged_segments_of_ipv6() {
    undisturbed(|| receives(GIGABYTE, ADDRESSES[1]));
}
