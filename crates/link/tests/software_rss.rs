//! Software RSS on a veth pair: frames arrive on the CPU of their bucket, whole and in order, and nothing stays attached.

use corelane_host::bed::{Bed, Side};
use corelane_host::cpus;
use corelane_link::LinkError;
use corelane_link::software_rss::{RssCounts, RssState, SoftwareRss, detach};
use corelane_link::xdp::XdpHook;
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering, Tuple};
use corelane_tests::{PATIENCE, namespaces, namespaces_plan, until};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::Command;

/// A rule of two buckets, on the first and the last CPU that is allowed.
fn steering() -> Steering {
    let cpus = cpus::allowed().unwrap().cpus;
    Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, 2).unwrap(),
        cpus: vec![cpus[0], cpus[cpus.len() - 1]],
        generation: 0,
    }
}

/// Attached to the server's end; `None` after printing why this machine permits it not.
fn attached(bed: &Bed, rule: &Steering, hook: XdpHook) -> Option<SoftwareRss> {
    attached_to(bed, rule, false, hook)
}

fn attached_to(bed: &Bed, rule: &Steering, inner: bool, hook: XdpHook) -> Option<SoftwareRss> {
    let (device, rule) = (bed.server.device().to_owned(), rule.clone());
    match bed
        .server
        .run(move || SoftwareRss::attach(&device, &rule, inner, hook))
    {
        Err(LinkError::Unavailable(reason)) => {
            eprintln!("skipped: {reason}");
            None
        }
        attached => Some(attached.unwrap()),
    }
}

/// A server, and clients of many ports.
struct Traffic {
    server: UdpSocket,
    clients: Vec<UdpSocket>,
}

impl Traffic {
    fn new(bed: &Bed) -> Traffic {
        Self::between(bed, [bed.server.address(), bed.client.address()])
    }

    /// Between these addresses of the server and the client.
    fn between(bed: &Bed, [server, client]: [IpAddr; 2]) -> Traffic {
        let at = |side: &Side, address| {
            let address = SocketAddr::new(address, 0);
            side.run(move || UdpSocket::bind(address).unwrap())
        };
        let server = at(&bed.server, server);
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let clients: Vec<UdpSocket> = (0..50).map(|_| at(&bed.client, client)).collect();
        for client in &clients {
            client.connect(server.local_addr().unwrap()).unwrap();
        }
        Traffic { server, clients }
    }

    /// Each client sends numbered datagrams, and the server receives all of them, those of each client in order. Returns
    /// those of each bucket.
    fn pass(&self, rule: &Steering) -> Vec<u64> {
        const EACH: u8 = 4;
        let mut buckets = vec![0; rule.table.buckets()];
        // No more at once than the server's buffer has room for.
        for clients in self.clients.chunks(10) {
            for number in 0..EACH {
                for client in clients {
                    client.send(&[number]).unwrap();
                    let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
                    let tuple = Tuple::new(ends.0, ends.1).unwrap();
                    buckets[rule.steerer().bucket_of(&tuple).index()] += 1;
                }
            }
            let mut next = HashMap::new();
            for _ in 0..usize::from(EACH) * clients.len() {
                let mut byte = [0];
                let (_, from) = self.server.recv_from(&mut byte).expect("every datagram arrives");
                let next = next.entry(from).or_insert(0);
                assert_eq!(byte[0], *next, "{from}");
                *next += 1;
            }
        }
        buckets
    }
}

/// Frames of each CPU, of those sent to the buckets.
fn per_cpu(rule: &Steering, buckets: &[u64], cpus: usize) -> Vec<u64> {
    let mut arrived = vec![0; cpus];
    for (bucket, frames) in buckets.iter().enumerate() {
        arrived[rule.cpus[bucket] as usize] += frames;
    }
    arrived
}

#[test]
fn frames_arrive_on_the_cpu_of_their_bucket_also_after_a_change() {
    let Some(bed) = namespaces(&namespaces_plan()) else {
        return;
    };
    let rule = steering();
    let Some(mut rss) = attached(&bed, &rule, XdpHook::Auto) else {
        return;
    };
    let traffic = Traffic::new(&bed);
    let first = traffic.pass(&rule);
    assert!(first.iter().all(|frames| *frames > 0), "{first:?}");
    let other = Steering {
        table: IndirectionTable::from_entries(vec![Bucket::new(1)]).unwrap(),
        generation: 1,
        ..rule.clone()
    };
    rss.change(&other, false).unwrap();
    let second = traffic.pass(&other);
    assert_eq!(second[0], 0);
    let counts = rss.end().unwrap();
    let buckets = vec![first[0], first[1] + second[1]];
    let expected = RssCounts {
        arrived: per_cpu(&rule, &buckets, counts.arrived.len()),
        buckets,
        not_hashed: counts.not_hashed,
    };
    assert_eq!(counts, expected);
    assert_eq!(counts.queue_full(), 0);
    // Nothing is attached any more.
    traffic.pass(&rule);
    assert!(attached(&bed, &rule, XdpHook::Native).is_some());
}

#[test]
fn the_kernels_fragments_stay_together_and_are_made_whole() {
    let Some(bed) = namespaces(&namespaces_plan()) else {
        return;
    };
    let rule = steering();
    let Some(rss) = attached(&bed, &rule, XdpHook::Auto) else {
        return;
    };
    let Traffic { server, clients } = Traffic::new(&bed);
    // Three fragments of an MTU of 1,500 each.
    let datagram = [7; 4000];
    for client in &clients {
        client.send(&datagram).unwrap();
        assert_eq!(server.recv(&mut [0; 5000]).unwrap(), datagram.len());
    }
    let addresses = Steering {
        hash_fields: HashFields::TwoTuple,
        ..rule
    };
    let tuple = Tuple::new(clients[0].local_addr().unwrap(), server.local_addr().unwrap());
    let mut buckets = vec![0; 2];
    buckets[addresses.steerer().bucket_of(&tuple.unwrap()).index()] = 3 * clients.len() as u64;
    assert_eq!(rss.end().unwrap().buckets, buckets);
}

/// Runs ip(8) in a side; false after printing why it failed.
fn ip(side: &Side, arguments: &str) -> bool {
    let mut ip = Command::new("ip");
    ip.args(arguments.split_whitespace());
    let output = side.run(move || ip.output().unwrap());
    if !output.status.success() {
        eprintln!(
            "skipped: ip {arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    output.status.success()
}

#[test]
fn flows_inside_the_kernels_vxlan_go_by_their_own_addresses() {
    let Some(bed) = namespaces(&namespaces_plan()) else {
        return;
    };
    let rule = steering();
    let Some(rss) = attached_to(&bed, &rule, true, XdpHook::Auto) else {
        return;
    };
    // The neighbours are known, so that only the datagrams cross.
    let sides = [(&bed.server, &bed.client, 1), (&bed.client, &bed.server, 2)];
    let is_made = sides.iter().all(|(own, other, end)| {
        let (device, local, remote) = (own.device(), own.address(), other.address());
        let peer = 3 - end;
        [
            format!(
                "link add inside address 02:00:00:00:00:0{end} type vxlan id 7 dstport 4789 local {local} remote {remote} dev {device}"
            ),
            format!("address add 10.77.0.{end}/24 dev inside"),
            "link set inside addrgenmode none up".to_owned(),
            format!("neighbour add 10.77.0.{peer} lladdr 02:00:00:00:00:0{peer} dev inside"),
        ]
        .iter()
        .all(|arguments| ip(own, arguments))
    });
    if is_made {
        let traffic = Traffic::between(&bed, [[10, 77, 0, 1], [10, 77, 0, 2]].map(IpAddr::from));
        let buckets = traffic.pass(&rule);
        assert!(buckets.iter().all(|frames| *frames > 0), "{buckets:?}");
        assert_eq!(rss.end().unwrap().buckets, buckets);
    }
}

#[test]
fn a_cpu_that_is_not_there_is_refused_and_the_rule_stays() {
    let Some(bed) = namespaces(&namespaces_plan()) else {
        return;
    };
    let rule = steering();
    let Some(mut rss) = attached(&bed, &rule, XdpHook::Auto) else {
        return;
    };
    let wrong = Steering {
        cpus: vec![rule.cpus[0], 60_000],
        ..rule.clone()
    };
    let error = rss.change(&wrong, false).unwrap_err().to_string();
    assert!(error.contains("CPU 60000"), "{error}");
    let traffic = Traffic::new(&bed);
    assert_eq!(traffic.pass(&rule), rss.end().unwrap().buckets);
}

#[test]
fn a_second_program_is_refused_and_the_first_can_be_detached_by_its_number() {
    let Some(bed) = namespaces(&namespaces_plan()) else {
        return;
    };
    let rule = steering();
    let Some(rss) = attached(&bed, &rule, XdpHook::Generic) else {
        return;
    };
    let device = bed.server.device().to_owned();
    let second = bed
        .server
        .run(move || SoftwareRss::attach(&device, &steering(), false, XdpHook::Generic));
    let error = second.unwrap_err().to_string();
    assert!(error.contains("it has an XDP program already"), "{error}");
    let side = |bed: &Bed, rss: SoftwareRss| bed.server.run(move || (rss.state().unwrap(), rss));
    let (state, rss) = side(&bed, rss);
    assert_eq!(state, RssState::Attached);
    detach(rss.numbers().unwrap().link).unwrap();
    assert_eq!(side(&bed, rss).0, RssState::Detached);
}

#[test]
fn a_device_that_vanishes_is_noticed() {
    let Some(bed) = namespaces(&namespaces_plan()) else {
        return;
    };
    let Some(rss) = attached(&bed, &steering(), XdpHook::Auto) else {
        return;
    };
    // Its other end goes with the namespace.
    let Bed { server, client, .. } = bed;
    drop(client);
    let rss = std::sync::Arc::new(rss);
    until("the device is gone", || {
        let rss = rss.clone();
        server.run(move || rss.state().unwrap() == RssState::Gone)
    });
}
