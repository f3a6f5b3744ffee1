//! Beds of each kind that this process may build: reachability, the frames on the link, and what remains afterwards.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;

use corelane_host::bed::{Bed, BedKind, BedPlan, Side};
use corelane_host::conditions::{self, Severity};
use corelane_host::counters::{DeviceStatistics, UdpStatistics};
use corelane_tests::{PATIENCE, namespaces, until};
use ipnet::IpNet;

const PORT: u16 = 5000;

fn plan(server: &str, pools: &[&str]) -> BedPlan {
    let pools: Vec<IpNet> = pools.iter().map(|pool| pool.parse().unwrap()).collect();
    BedPlan {
        loopback_ok: false,
        ..BedPlan::new(server.parse().unwrap(), pools)
    }
}

fn bind(address: IpAddr, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::new(address, port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Frames sent and received by the device of a side, read in the side's own namespace.
fn frames(side: &Side) -> (u64, u64) {
    let device = side.device().to_owned();
    let statistics = side.run(move || DeviceStatistics::read(&device).unwrap());
    (statistics.tx_packets, statistics.rx_packets)
}

/// Sends one datagram from each source to the server, which echoes it; returns the sources that the server saw.
fn echo(bed: &Bed, sources: &[IpAddr]) -> BTreeSet<IpAddr> {
    let server = bed.server.address();
    let listening = Arc::new(bed.server.run(move || bind(server, PORT)));
    let count = sources.len();
    let echo = {
        let listening = Arc::clone(&listening);
        bed.server
            .spawn(move || {
                let mut seen = BTreeSet::new();
                let mut buffer = [0; 2048];
                for _ in 0..count {
                    let (length, from) = listening.recv_from(&mut buffer).unwrap();
                    listening.send_to(&buffer[..length], from).unwrap();
                    seen.insert(from.ip());
                }
                seen
            })
            .unwrap()
    };
    let sources = sources.to_vec();
    bed.client.run(move || {
        for source in sources {
            let socket = bind(source, 0);
            socket
                .send_to(source.to_string().as_bytes(), (server, PORT))
                .unwrap();
            let mut buffer = [0; 2048];
            let (length, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!(from, SocketAddr::new(server, PORT));
            assert_eq!(&buffer[..length], source.to_string().as_bytes());
        }
    });
    echo.join().unwrap()
}

/// Checks that every source reaches the server, and that the counters of both ends, from the creation of the devices
/// on, are exactly the frames of the experiment.
fn every_source_arrives_and_no_other_frame_crosses(plan: &BedPlan, sources: &[&str]) {
    let Some(bed) = namespaces(plan) else { return };
    let sources: Vec<IpAddr> = sources.iter().map(|text| text.parse().unwrap()).collect();
    let seen = echo(&bed, &sources);
    assert_eq!(seen, sources.iter().copied().collect());
    let count = sources.len() as u64;
    assert_eq!(frames(&bed.client), (count, count), "client sent, received");
    assert_eq!(frames(&bed.server), (count, count), "server sent, received");
}

#[test]
fn ipv4_sources_of_a_pool_around_the_server_arrive_and_no_other_frame_crosses() {
    every_source_arrives_and_no_other_frame_crosses(
        &plan("10.11.2.1", &["10.11.2.0/24"]),
        &["10.11.2.0", "10.11.2.2", "10.11.2.99", "10.11.2.255"],
    );
}

#[test]
fn ipv4_sources_of_several_pools_arrive_and_no_other_frame_crosses() {
    every_source_arrives_and_no_other_frame_crosses(
        &plan("192.168.7.1", &["10.0.0.0/8", "172.16.5.0/24"]),
        &["10.0.0.1", "10.255.255.254", "172.16.5.77"],
    );
}

#[test]
fn ipv6_sources_of_a_pool_around_the_server_arrive_and_no_other_frame_crosses() {
    every_source_arrives_and_no_other_frame_crosses(
        &plan("fd00:11:2::1", &["fd00:11:2::/64"]),
        &[
            "fd00:11:2::2",
            "fd00:11:2::ffff",
            "fd00:11:2:0:ffff:ffff:ffff:ffff",
        ],
    );
}

#[test]
fn the_first_datagram_of_a_fresh_bed_arrives() {
    // The kernel prepares an IPv6 address asynchronously, so a single bed would prove little.
    for _ in 0..20 {
        for plan in [
            plan("10.11.2.1", &["10.11.2.0/24"]),
            plan("fd00:11:2::1", &["fd00:11:2::/64"]),
        ] {
            let Some(bed) = namespaces(&plan) else { return };
            let source = bed.client.address();
            assert_eq!(echo(&bed, &[source]), BTreeSet::from([source]));
        }
    }
}

#[test]
fn a_client_that_binds_nothing_uses_the_address_of_its_side() {
    for plan in [
        plan("10.11.2.1", &["10.11.2.0/24"]),
        plan("fd00:11:2::1", &["fd00:11:2::/64"]),
    ] {
        let Some(bed) = namespaces(&plan) else { return };
        let server = bed.server.address();
        let source = bed.client.run(move || {
            let any: IpAddr = match server {
                IpAddr::V4(_) => [0, 0, 0, 0].into(),
                IpAddr::V6(_) => [0u16; 8].into(),
            };
            let socket = bind(any, 0);
            socket.connect((server, PORT)).unwrap();
            socket.local_addr().unwrap().ip()
        });
        assert_eq!(source, bed.client.address());
    }
}

#[test]
fn the_mtu_is_that_of_the_plan() {
    let plan = BedPlan {
        mtu: Some(9000),
        ..plan("10.11.2.1", &["10.11.2.0/24"])
    };
    let Some(bed) = namespaces(&plan) else { return };
    let server = bed.server.address();
    let listening = bed.server.run(move || bind(server, PORT));
    let source = bed.client.address();
    bed.client.run(move || {
        let payload = [7; 9000 - 28];
        bind(source, 0).send_to(&payload, (server, PORT)).unwrap();
    });
    let mut buffer = [0; 9000];
    let (length, _) = listening.recv_from(&mut buffer).unwrap();
    assert_eq!(length, 9000 - 28);
    assert_eq!(frames(&bed.client), (1, 0), "one frame, not fragments");
}

#[test]
fn the_counters_of_a_side_are_those_of_its_namespace() {
    let Some(bed) = namespaces(&plan("10.11.2.1", &["10.11.2.0/24"])) else {
        return;
    };
    echo(
        &bed,
        &["10.11.2.2".parse().unwrap(), "10.11.2.3".parse().unwrap()],
    );
    for side in [&bed.server, &bed.client] {
        let counted = side.run(|| UdpStatistics::read().unwrap());
        assert_eq!((counted.ipv4.in_datagrams, counted.ipv4.out_datagrams), (2, 2));
        assert_eq!((counted.ip_v4.in_receives, counted.ip_v4.in_delivers), (2, 2));
    }
}

#[test]
fn threads_and_processes_started_in_a_side_live_in_its_namespace() {
    let Some(bed) = namespaces(&plan("10.11.2.1", &["10.11.2.0/24"])) else {
        return;
    };
    let namespace = || fs::read_link("/proc/thread-self/ns/net").unwrap();
    let own = bed.server.run(namespace);
    assert_eq!(bed.server.spawn(namespace).unwrap().join().unwrap(), own);
    let process = bed.server.run(|| {
        Command::new("readlink")
            .arg("/proc/self/ns/net")
            .output()
            .unwrap()
            .stdout
    });
    assert_eq!(String::from_utf8(process).unwrap().trim(), own.to_str().unwrap());
}

#[test]
fn the_device_of_a_side_spoils_nothing_and_every_condition_of_it_is_known_without_a_fix() {
    let Some(bed) = namespaces(&plan("10.11.2.1", &["10.11.2.0/24"])) else {
        return;
    };
    for side in [&bed.server, &bed.client] {
        let device = side.device().to_owned();
        for condition in side.run(move || conditions::of_devices(&[device])) {
            assert_ne!(condition.severity, Severity::Spoils, "{condition:?}");
            assert!(condition.value.is_some(), "{condition:?}");
            assert_eq!(condition.fix, None, "{condition:?}");
        }
    }
}

#[test]
fn beds_stand_side_by_side_and_see_nothing_of_each_other() {
    let plan = plan("10.11.2.1", &["10.11.2.0/24"]);
    let Some(first) = namespaces(&plan) else { return };
    let second = namespaces(&plan).unwrap();
    let source: IpAddr = "10.11.2.5".parse().unwrap();
    assert_eq!(echo(&first, &[source]).len(), 1);
    assert_eq!(frames(&second.client), (0, 0));
    assert_eq!(frames(&second.server), (0, 0));
}

#[test]
fn a_dropped_bed_leaves_no_thread_no_namespace_and_no_device() {
    let Some(bed) = namespaces(&plan("10.11.2.1", &["10.11.2.0/24"])) else {
        return;
    };
    let namespace = || fs::read_link("/proc/thread-self/ns/net").unwrap();
    let made = BTreeSet::from([bed.server.run(namespace), bed.client.run(namespace)]);
    assert_eq!(made.len(), 2);
    assert!(!made.contains(&namespace()));
    // The list of threads can lack one while another ends.
    until("both namespaces are in use", || {
        made.is_subset(&namespaces_in_use())
    });
    drop(bed);
    // A joined thread leaves its namespaces shortly after the join returns.
    until("the namespaces are gone", || {
        made.is_disjoint(&namespaces_in_use())
    });
    for device in ["server0", "client0"] {
        assert!(!fs::exists(format!("/sys/class/net/{device}")).unwrap());
    }
}

/// The network namespaces of every thread on the machine that this process may inspect.
fn namespaces_in_use() -> BTreeSet<std::path::PathBuf> {
    let mut found = BTreeSet::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(threads) = fs::read_dir(process.path().join("task")) else {
            continue;
        };
        for thread in threads.flatten() {
            found.extend(fs::read_link(thread.path().join("ns/net")));
        }
    }
    found
}

#[test]
fn a_setting_of_a_side_stays_in_its_namespace() {
    let Some(bed) = namespaces(&plan("10.11.2.1", &["10.11.2.0/24"])) else {
        return;
    };
    let setting = "/proc/sys/net/core/somaxconn";
    let read = move || fs::read_to_string(setting).unwrap().trim().to_owned();
    let before = read();
    bed.server.set("net.core.somaxconn", "31337").unwrap();
    assert_eq!(bed.server.run(read), "31337");
    assert_eq!(read(), before);
    assert_ne!(bed.client.run(read), "31337");
    assert!(bed.server.set("kernel.hostname", "x").is_err());
    let refusal = bed.server.set("net.core.rmem_max", "1").unwrap_err();
    assert!(refusal.to_string().contains("net.core.rmem_max"), "{refusal}");
}

/// The value of a one-line setting in the calling thread's namespace.
fn setting(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/net/{name}"))
        .unwrap()
        .trim()
        .to_owned()
}

#[test]
fn a_bed_for_many_connections_has_a_table_and_limits_of_its_own_and_leaves_the_machines() {
    let names = [
        "core/somaxconn",
        "ipv4/tcp_max_syn_backlog",
        "ipv4/ip_local_port_range",
        "ipv4/tcp_max_tw_buckets",
        "ipv4/tcp_child_ehash_entries",
    ];
    let machine = move || names.map(setting);
    let before = machine();
    let plan = BedPlan {
        connections: Some(100_000),
        ..plan("10.11.2.1", &["10.11.2.0/24"])
    };
    let Some(bed) = namespaces(&plan) else { return };
    for side in [&bed.server, &bed.client] {
        let [queue, handshakes, ports, waiting, child] = side.run(machine);
        assert_eq!((queue.as_str(), handshakes.as_str()), ("65535", "65535"));
        assert_eq!(ports, "1024\t65535");
        assert_eq!(waiting, "100000");
        // The namespace has its own table, sized to the next power of two; a shared table would show as a negative
        // number.
        assert_eq!(side.run(|| setting("ipv4/tcp_ehash_entries")), "131072");
        assert_eq!(
            child, "0",
            "the setting used to create it belongs to the previous namespace"
        );
    }
    assert_eq!(machine(), before);
}

#[test]
fn any_address_of_a_server_network_accepts_from_any_of_a_client_pool() {
    let plan = BedPlan {
        server_networks: vec!["10.20.0.0/16".parse().unwrap()],
        connections: Some(1000),
        ..plan("10.11.2.1", &["10.11.0.0/16"])
    };
    let Some(bed) = namespaces(&plan) else { return };
    let listener = bed
        .server
        .run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap());
    let targets = ["10.20.0.0", "10.20.77.3", "10.20.255.255", "10.11.2.1"];
    let accepted = bed
        .server
        .spawn(move || {
            let accept = |_| {
                let (stream, peer) = listener.accept().unwrap();
                (
                    stream.local_addr().unwrap().ip().to_string(),
                    peer.ip().to_string(),
                )
            };
            targets.map(accept)
        })
        .unwrap();
    let _open = bed
        .client
        .run(move || targets.map(|target| TcpStream::connect((target, PORT)).unwrap()));
    let client = bed.client.address().to_string();
    assert_eq!(
        accepted.join().unwrap(),
        targets.map(|to| (to.to_owned(), client.clone()))
    );
}

#[test]
fn loopback_tells_the_addresses_it_uses_and_carries_them() {
    let plan = plan("10.11.2.1", &["10.11.2.0/24"]);
    let bed = Bed::loopback(&plan, "requested".to_owned()).unwrap();
    assert_eq!(bed.kind(), BedKind::Loopback);
    assert_eq!(bed.reason(), Some("requested"));
    assert_eq!(bed.server.device(), "lo");
    assert_eq!(bed.server.address().to_string(), "127.11.2.1");
    assert_eq!(bed.clients(), ["127.11.2.0/24".parse::<IpNet>().unwrap()]);
    let describe = bed.describe();
    assert!(
        describe.contains("loopback") && describe.contains("requested"),
        "{describe}"
    );

    let server = bed.server.address();
    let listening = bed.server.run(move || bind(server, 0));
    let port = listening.local_addr().unwrap().port();
    for last in [2, 99, 254] {
        let source = IpAddr::from([127, 11, 2, last]);
        bed.client
            .run(move || bind(source, 0).send_to(b"x", (server, port)).unwrap());
        let (_, from) = listening.recv_from(&mut [0; 16]).unwrap();
        assert_eq!(from.ip(), source);
    }
}

#[test]
fn a_bed_of_namespaces_describes_itself_in_one_line() {
    let Some(bed) = namespaces(&plan("10.11.2.1", &["10.11.2.0/25", "10.11.2.128/25"])) else {
        return;
    };
    let ground = match bed.kind() {
        BedKind::Namespaces => "two network namespaces joined by a veth pair",
        BedKind::UserNamespace => "two network namespaces of a user namespace, joined by a veth pair",
        BedKind::Loopback => panic!("loopback was not allowed"),
    };
    let expected = format!("{ground}: server 10.11.2.1 on server0, clients 10.11.2.0/24 on client0");
    assert!(bed.describe().starts_with(&expected), "{}", bed.describe());
    assert_eq!(bed.reason().is_none(), bed.kind() == BedKind::Namespaces);
}
