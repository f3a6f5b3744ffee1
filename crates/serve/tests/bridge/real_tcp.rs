//! The kernel's own TCP receives behind a bridge that merges segments: over a veth that merges nothing itself, under loss and
//! reordering, it gets the bytes that were sent.

use super::namespaces::{plan, run, start, wait_until_up};
use corelane_host::bed::{Bed, Side};
use corelane_serve::Server as _;
use corelane_serve::bridge::{BridgePlan, LONGEST_BURST};
use corelane_stage::StagePlans;
use corelane_stage::coalescing::Plan;
use corelane_tests::{PATIENCE, namespaces, namespaces_plan, undisturbed};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;

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

/// Sends this many bytes through the bridge, and compares each that arrives.
fn receives(bytes: usize, [receiver, sender]: [&str; 2]) {
    let Some(bed) = world() else { return };
    let links = [
        "packet:server0,frames=4096,drop=0.1%,reorder=1%,seed=3",
        "packet:out0,frames=4096",
    ];
    let coalescing = BridgePlan {
        burst: LONGEST_BURST,
        stages: StagePlans {
            coalesce: Some(Plan::default()),
            ..StagePlans::default()
        },
        ..plan(&links, 1)
    };
    let Some(bridge) = start(&bed, coalescing) else {
        return;
    };
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
    let bridged = bridge.stop().unwrap();
    assert_eq!(bridged.unaccounted(), 0, "{bridged:?}");
    let counts = &bridged.stages["coalesce"];
    let (segments, aggregations) = (counts["segments"], counts["aggregations"]);
    println!("{bytes} bytes to {to}: {segments} segments in {aggregations} frames, {counts:?}");
    println!("{:?}", bridged.batch_wait);
    let payload = 1448 * segments as usize;
    assert!(payload >= bytes - PART && aggregations < segments, "{counts:?}");
    let waited = bridged.batch_wait.expect("coalescing measures it");
    assert!(waited.count >= segments && waited.max_ns >= waited.p50_ns);
}

#[test]
fn the_kernel_receives_merged_segments_of_ipv4() {
    undisturbed(|| receives(GIGABYTE, ADDRESSES[0]));
}

#[test]
fn the_kernel_receives_merged_segments_of_ipv6() {
    undisturbed(|| receives(GIGABYTE, ADDRESSES[1]));
}
