//! `serve http|tcp --dev`, `plan --host` and `verify --dev` on a device with real RSS: the virtio-net of an emulated
//! machine. Connections are planned by the device's `host --json`, and each must reach the bucket of its queue, before
//! and after ethtool changes the table while the servers run.

use crate::common::run_json;
use corelane_guest::{GuestError, GuestOutput, GuestParts, GuestPlan, boot};
use corelane_host::bed::{Bed, BedPlan};
use corelane_tests::{guest_parts, namespaces};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The addresses of the guest and of this side.
const GUEST: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const HERE: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);

/// Queues of the device, and CPUs of the guest.
pub const QUEUES: usize = 4;

/// The hash key of the device. The kernel draws a key at each boot; with one of about 400 keys too few of a test's 2,000
/// source ports reach the smallest part of the table.
const KEY: &str = "0d:30:2b:d2:dc:e7:fb:9e:9e:f2:b8:21:51:da:82:ee:3a:4a:01:43:c3:06:28:bc:98:f5:d9:56:42:18:08:af:c9:91:\
46:9a:08:ac:a4:df";

/// The time limit for the guest: it needs half a minute alone, and more when other programs use all CPUs.
const LIMIT: Duration = Duration::from_secs(1200);

/// The guest's script. It waits for this side at two ports: 7001 serves its inventory, a connection to 7002 lets it
/// continue.
const COMMAND: &str = "
alive() { kill -0 $http && kill -0 $tcp || { cat /tmp/*.err; exit 12; }; }
ip addr add 10.99.0.2/24 dev eth0 && ip link set eth0 up || exit 10
ethtool -X eth0 weight 1 2 4 9 || exit 11
corelane serve http 10.99.0.2:80 --dev eth0 --json > /tmp/http.json 2> /tmp/http.err &
http=$!
corelane serve tcp 10.99.0.2:81 --dev eth0 --mode echo --json > /tmp/tcp.json 2> /tmp/tcp.err &
tcp=$!
corelane verify --dev eth0 --duration 1h --json > /tmp/verify.json 2> /tmp/verify.err &
verify=$!
until [ \"$(grep -c ' 0A ' /proc/net/tcp)\" -ge 8 ]; do alive; usleep 50000; done
corelane host --json > /tmp/host.json
nc -l -p 7001 < /tmp/host.json
nc -l -p 7002 < /dev/null
kill -INT $verify; wait $verify
ethtool -X eth0 weight 9 4 2 1 || exit 13
until grep -q 'table of eth0' /tmp/http.err && grep -q 'table of eth0' /tmp/tcp.err; do alive; usleep 50000; done
corelane host --json > /tmp/host.json
nc -l -p 7001 < /tmp/host.json
nc -l -p 7002 < /dev/null
kill -INT $http $tcp; wait $http; wait $tcp
for document in verify http tcp; do tr -d '\\n' < /tmp/$document.json; echo; done
";

/// A guest that sets the key of its device and runs `command`, and its bed, or `None` after printing what this machine lacks.
pub fn parts(command: &str) -> Option<(GuestPlan, GuestParts, Bed)> {
    let parts = guest_parts()?;
    let places = ["/usr/sbin/ethtool", "/sbin/ethtool", "/usr/bin/ethtool"].map(Path::new);
    let Some(ethtool) = places.into_iter().find(|path| path.is_file()) else {
        eprintln!("skipped: ethtool is missing: apt-get install ethtool");
        return None;
    };
    let mut plan = BedPlan::new([10, 98, 0, 1].into(), vec!["10.98.0.0/24".parse().unwrap()]);
    plan.loopback_ok = false;
    let bed = namespaces(&plan)?;
    let guest = GuestPlan {
        cpus: QUEUES as u32,
        modules: parts.modules(&["virtio_pci", "virtio_net"]).unwrap(),
        programs: vec![env!("CARGO_BIN_EXE_corelane").into(), ethtool.to_owned()],
        devices: [
            "-netdev",
            &format!("tap,id=n0,ifname=guest0,queues={QUEUES},script=no,downscript=no,vhost=off"),
            "-device",
            "virtio-net-pci,netdev=n0,mac=02:63:6c:00:00:09,mq=on,rss=on,hash=on,vectors=10",
        ]
        .map(str::to_owned)
        .to_vec(),
        limit: LIMIT,
        ..GuestPlan::new(format!("ethtool -X eth0 hkey {KEY} || exit 9\n{command}"))
    };
    Some((guest, parts, bed))
}

/// This side of the link to the guest, inside the bed.
pub struct Link {
    /// The guest.
    pub guest: JoinHandle<Result<GuestOutput, GuestError>>,
}

impl Link {
    /// Adds the address to the emulator's tap once it exists, and disables packets that the kernel would send on its
    /// own.
    pub fn up(guest: JoinHandle<Result<GuestOutput, GuestError>>) -> Link {
        let link = Link { guest };
        let ip = |words: &str| Command::new("ip").args(words.split(' ')).output().unwrap();
        let silent = "link set guest0 addrgenmode none up";
        while !ip(silent).status.success() {
            link.pause();
        }
        assert!(ip("addr add 10.99.0.1/24 dev guest0").status.success());
        link
    }

    /// Sleeps briefly, and fails if the guest has ended.
    fn pause(&self) {
        assert!(!self.guest.is_finished(), "the guest ended early");
        thread::sleep(Duration::from_millis(20));
    }

    /// Connects to the guest, from source port `from` unless it is 0; retries until the guest accepts.
    fn connect(&self, from: u16, to: u16) -> TcpStream {
        loop {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from((HERE, from)).into()).unwrap();
            let to = SocketAddr::from((GUEST, to)).into();
            if socket.connect_timeout(&to, Duration::from_secs(60)).is_ok() {
                let stream = TcpStream::from(socket);
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                return stream;
            }
            self.pause();
        }
    }

    /// Everything that the guest sends on a port until it closes the connection.
    fn hear(&self, port: u16) -> Vec<u8> {
        let mut heard = Vec::new();
        self.connect(0, port).read_to_end(&mut heard).unwrap();
        heard
    }
}

/// Connections planned by the guest's inventory for a server of the guest: the source ports by bucket, and the CPUs of
/// the buckets.
fn planned(inventory: &Path, server: &str, ports: &str, shape: &str) -> (Vec<Vec<u16>>, Vec<u64>) {
    let document = run_json(&format!(
        "plan --host {} --server {server} --client 10.99.0.1 --ports {ports} --flows 60 \
--shape {shape} --json",
        inventory.to_str().unwrap()
    ));
    let port = |flow: &Value| flow[0].as_str().unwrap().parse::<SocketAddr>().unwrap().port();
    let buckets = document["buckets"].as_array().unwrap().iter();
    let ports = buckets.map(|bucket| bucket["flows"].as_array().unwrap().iter().map(port).collect());
    let cpus = document["steering"]["cpus"].as_array().unwrap().iter();
    (ports.collect(), cpus.filter_map(Value::as_u64).collect())
}

/// One round: plans by the guest's inventory, connects, and adds the expected count of each bucket.
fn round(link: &Link, number: u16, shape: &str, expected: &mut [Vec<u64>; 2]) -> Vec<u64> {
    let folder = tempfile::tempdir().unwrap();
    let inventory = folder.path().join("host.json");
    fs::write(&inventory, link.hear(7001)).unwrap();
    let first = 20_000 + 4_000 * number;
    let http = planned(
        &inventory,
        "10.99.0.2:80",
        &format!("{first}-{}", first + 1_999),
        shape,
    );
    let tcp = planned(
        &inventory,
        "10.99.0.2:81",
        &format!("{}-{}", first + 2_000, first + 3_999),
        shape,
    );
    for (bucket, port) in http
        .0
        .iter()
        .enumerate()
        .flat_map(|(bucket, ports)| ports.iter().map(move |port| (bucket, *port)))
    {
        let mut stream = link.connect(port, 80);
        write!(
            stream,
            "GET /size/100 HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(
            answer.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
        expected[0][bucket] += 1;
    }
    for (bucket, port) in tcp
        .0
        .iter()
        .enumerate()
        .flat_map(|(bucket, ports)| ports.iter().map(move |port| (bucket, *port)))
    {
        let mut stream = link.connect(port, 81);
        stream.write_all(b"there and back").unwrap();
        let mut answer = [0; 14];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"there and back");
        expected[1][bucket] += 1;
    }
    link.hear(7002);
    http.1
}

#[test]
fn connections_reach_the_bucket_of_their_queue_and_a_table_changed_by_ethtool_is_followed() {
    let Some((guest, parts, bed)) = parts(COMMAND) else {
        return;
    };
    let booting = bed.server.spawn(move || boot(&guest, &parts)).unwrap();
    let (expected, cpus, ended) = bed.server.run(move || {
        let link = Link::up(booting);
        let mut expected = [vec![0; QUEUES], vec![0; QUEUES]];
        let cpus = round(&link, 0, "skewed:1", &mut expected);
        round(&link, 1, "one:3", &mut expected);
        (expected, cpus, link.guest.join().unwrap())
    });
    let ended = ended.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(ended.status, 0, "{}", ended.output);
    let documents: Vec<Value> = ended
        .output
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let [verified, http, tcp] = &documents[..] else {
        panic!("{}", ended.output)
    };
    // The device's own rule, with every frame attributed to the queue it reports.
    let from = json!({ "key": "device", "hash_types": "device", "table": "device", "not_read": [] });
    assert_eq!(verified["rule_from"], from);
    assert_eq!(verified["misplaced"], 0, "{verified}");
    assert!(verified["frames"].as_u64().unwrap() > 500, "{verified}");
    for (served, expected) in [http, tcp].into_iter().zip(expected) {
        let buckets = served["buckets"].as_array().unwrap();
        let of = |name: &str| -> Vec<u64> {
            buckets
                .iter()
                .map(|bucket| bucket[name].as_u64().unwrap())
                .collect()
        };
        assert_eq!(of("accepted"), expected, "{served}");
        assert_eq!(of("cpu"), cpus);
        assert_eq!(served["steering"]["generation"], 1, "one change was followed");
    }
}
