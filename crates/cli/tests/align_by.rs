//! `load udp|tcp|http --align-by`: what the server receives, what it answers, or both, on the chosen buckets. Over veth the
//! buckets are those of the oracle, for the addresses of the real sockets, and the server's report agrees; on a device with
//! real RSS, the virtio-net of an emulated machine, they are the queues that received the replies.

use crate::common;
use crate::common::{Server, corelane, number, refused};
use crate::serve_device::{self, Link, QUEUES};
use corelane_guest::{GuestFile, boot};
use corelane_host::bed::{Bed, BedPlan};
use corelane_tests::{namespaces, undisturbed};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::Stdio;

/// Buckets of the server, and of the client's steering.
const BUCKETS: usize = 4;

/// A server and its clients in two namespaces, IPv4 or IPv6; `None` if they are not permitted.
fn bed(v4: bool) -> Option<Bed> {
    let (server, clients) = match v4 {
        true => ("10.11.2.1", "10.12.0.0/29"),
        false => ("fd11::1", "fd12::/125"),
    };
    namespaces(&BedPlan {
        loopback_ok: false,
        ..BedPlan::new(server.parse().unwrap(), vec![clients.parse().unwrap()])
    })
}

fn list(counts: &Value) -> Vec<u64> {
    counts.as_array().into_iter().flatten().map(number).collect()
}

/// Asserts that every socket of a direction was observed where it was planned, by `by_queue` on a queue; returns the plan.
fn assert_right(landed: &Value, direction: &str, sockets: u64, by_queue: u64) -> Vec<u64> {
    let landed = &landed[direction];
    let planned = list(&landed["planned"]);
    assert_eq!(planned.iter().sum::<u64>(), sockets, "{direction}: {landed}");
    assert_eq!(list(&landed["observed"]), planned, "{direction}");
    let counts = ["right", "unknown", "by_queue"].map(|count| number(&landed[count]));
    assert_eq!(counts, [sockets, 0, by_queue], "{direction}: {landed}");
    planned
}

/// Runs one generator against one server in a bed; returns its document, and what the server counted by bucket.
fn run(bed: &Bed, what: &str, flags: &str) -> (Value, Vec<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (steering, report, loaded) = (file("steering.json"), file("served.json"), file("loaded.json"));
    let address = std::net::SocketAddr::new(bed.server.address(), 9000).to_string();
    let serve = format!("serve {what} {address} --buckets {BUCKETS} --cpus 0,1 --share-cpus");
    let planned = common::run(&format!("{serve} --dry-run"));
    fs::write(&steering, planned.stdout).unwrap();
    let mut command = corelane(&format!("{serve} --json={report}"));
    command.stdout(Stdio::piped());
    let mut server = Server::of(bed.server.run(move || command.spawn().unwrap()));
    // Each flow of datagrams is answered, however late.
    let (target, amount) = match what {
        "udp" => (address, "--window 1 --count 6400 --loss-timeout 30s"),
        "http" => (format!("http://{address}/size/10"), "--duration 500ms"),
        _ => (address, "--duration 500ms"),
    };
    let mut load = corelane(&format!(
        "load {what} {target} --cpus 0,1 --steering {steering} {amount} --json={loaded} {flags} --fail-if landed<100%"
    ));
    let output = bed.client.run(move || load.output().unwrap());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} {flags}: {error}");
    server.signal("INT");
    server.wait();
    let read = |path: &str| -> Value { serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap() };
    let buckets = read(&report)["buckets"].as_array().unwrap().clone();
    let count = |bucket: &Value| match what {
        "udp" => u64::from(number(&bucket["seen"]) > 0),
        _ => number(&bucket["accepted"]),
    };
    (read(&loaded), buckets.iter().map(count).collect())
}

#[test]
fn sockets_land_where_they_were_planned_in_each_direction_of_each_protocol_and_family() {
    undisturbed(|| {
        for v4 in [true, false] {
            let Some(bed) = bed(v4) else { return };
            let clients = bed.clients()[0];
            for (what, sockets) in [
                ("udp", "--flows"),
                ("tcp", "--connections"),
                ("http", "--connections"),
            ] {
                for (by, align) in [
                    ("forward", "bucket"),
                    ("reply", "bucket"),
                    ("both", "bucket"),
                    ("both", "even"),
                ] {
                    let flags = format!("{sockets} 64 --sources {clients} --align {align} --align-by {by}");
                    let (loaded, served) = run(&bed, what, &flags);
                    let landed = &loaded["landed"];
                    if by != "reply" {
                        let planned = assert_right(landed, "forward", 64, 0);
                        let planned = planned.into_iter().map(|sockets| match what {
                            "udp" => u64::from(sockets > 0),
                            _ => sockets,
                        });
                        assert_eq!(served, planned.collect::<Vec<_>>(), "{what} {flags}: {landed}");
                    }
                    if by != "forward" {
                        let planned = assert_right(landed, "reply", 64, 0);
                        assert_eq!(planned, [16; BUCKETS], "{what} {flags}");
                    }
                    let cpus =
                        ["received_on_own_cpu", "received_on_other_cpu"].map(|count| number(&landed[count]));
                    let expected = if by == "forward" { 0 } else { 64 };
                    assert_eq!(cpus.iter().sum::<u64>(), expected, "{what} {flags}: {landed}");
                }
            }
        }
    });
}

#[test]
fn as_many_connections_as_their_addresses_can_align_both_ways_are_all_opened() {
    let plan = BedPlan {
        loopback_ok: false,
        connections: Some(65_000),
        ..BedPlan::new([10, 11, 2, 1].into(), vec!["10.12.0.0/24".parse().unwrap()])
    };
    let Some(bed) = namespaces(&plan) else { return };
    // Two of four buckets are on each of two CPUs: half of the 64,512 ports of an address satisfy both directions.
    let steering = common::run("serve http 10.11.2.1:9000 --buckets 4 --cpus 0,1 --share-cpus --dry-run");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&steering.stdout).unwrap();
    let load = format!(
        "load http http://10.11.2.1:9000/ --steering {} --cpus 0,1 --dry-run --connections 65k --align-by both --sources",
        file.path().display()
    );
    let error = refused(&format!("{load} 10.12.0.1-10.12.0.2"), 2);
    assert!(
        error.contains("need 3 source addresses, and there are 2"),
        "{error}"
    );
    let flags =
        "--connections 65k --rate 100 --align-by both --sources 10.12.0.1-10.12.0.3 --connect-timeout 60s";
    let (loaded, served) = run(&bed, "http", flags);
    let connections = &loaded["connections"];
    assert_eq!(number(&connections["opened"]), 65_000, "{connections}");
    let failed: Vec<u64> = connections["failed"]
        .as_object()
        .unwrap()
        .values()
        .map(number)
        .collect();
    assert_eq!(failed.iter().sum::<u64>(), 0, "{connections}");
    let landed = &loaded["landed"];
    assert_eq!(assert_right(landed, "forward", 65_000, 0), served);
    assert_eq!(assert_right(landed, "reply", 65_000, 0), [16_250; BUCKETS]);
}

#[test]
fn a_direction_without_a_hash_or_a_device_without_rss_is_refused() {
    let target = "127.0.0.1:9";
    let error = refused(&format!("load tcp {target} --align kernel --align-by both"), 2);
    assert!(error.contains("--align kernel ignores the hash"), "{error}");
    for what in ["udp", "tcp", "http"] {
        let target = match what {
            "http" => "http://127.0.0.1:9/",
            _ => target,
        };
        let error = refused(&format!("load {what} {target} --align-by reply"), 2);
        assert!(
            error.contains("--steering, or the receiving device with --dev"),
            "{error}"
        );
        let error = refused(&format!("load {what} {target} --align-by reply --dev lo"), 2);
        assert!(error.contains("--dev: rss of lo"), "{error}");
    }
}

/// The guest's script: the queues of its device get unequal parts of the table. The first run reaches every queue and does
/// not count, because an interrupt moves to its CPU only when it fires (`irq_move_masked_irq` in `kernel/irq/migration.c`).
const COMMAND: &str = "
ip addr add 10.99.0.2/24 dev eth0 && ip addr add 10.99.0.3/24 dev eth0 && ip link set eth0 up || exit 10
ethtool -X eth0 weight 1 2 4 9 || exit 11
ethtool -N eth0 rx-flow-hash udp4 sdfn 2> /dev/null
until nc 10.99.0.1 9000 < /dev/null > /dev/null 2>&1; do usleep 50000; done
load() {
  protocol=$1; port=$2; shift 2
  corelane load $protocol 10.99.0.1:$port --dev eth0 --steering /etc/steering.json --cpus 0-3 --json \\
    --sources 10.99.0.2-10.99.0.3 \"$@\" > /tmp/loaded.json 2> /tmp/load.err || { cat /tmp/load.err; exit 12; }
  tr -d '\\n' < /tmp/loaded.json; echo
}
tcp='--connections 96 --size 10 --rate 1kB/s --duration 500ms --connect-timeout 10m'
load tcp 9000 $tcp --align even --align-by reply > /dev/null
load tcp 9000 $tcp --align bucket --align-by reply
load tcp 9000 $tcp --align even --align-by both
load udp 9001 --flows 64 --window 1 --count 2k --align bucket --align-by reply
";

#[test]
fn replies_arrive_on_the_queues_of_a_device_that_were_planned() {
    let steering = common::run_json(&format!(
        "serve tcp 127.0.0.1:0 --buckets {BUCKETS} --cpus 0,1 --share-cpus --dry-run"
    ));
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(steering.to_string().as_bytes()).unwrap();
    let Some((mut guest, parts, bed)) = serve_device::parts(COMMAND) else {
        return;
    };
    guest.files.push(GuestFile {
        source: file.path().to_owned(),
        target: "/etc/steering.json".to_owned(),
    });
    let booting = bed.server.spawn(move || boot(&guest, &parts)).unwrap();
    let ended = bed.server.run(move || {
        let link = Link::up(booting);
        let _servers = ["tcp 10.99.0.1:9000", "udp 10.99.0.1:9001"].map(|server| {
            let mut command = corelane(&format!(
                "serve {server} --buckets {BUCKETS} --cpus 0,1 --share-cpus"
            ));
            Server::of(command.stdout(Stdio::piped()).spawn().unwrap())
        });
        link.guest.join().unwrap()
    });
    let ended = ended.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(ended.status, 0, "{}", ended.output);
    let documents = ended
        .output
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let landed: Vec<Value> = documents
        .map(|document: Value| document["landed"].clone())
        .collect();
    let [bucket, both, udp] = &landed[..] else {
        panic!("{}", ended.output)
    };
    assert_eq!(assert_right(bucket, "reply", 96, 96), [24; QUEUES]);
    assert_eq!(number(&bucket["received_on_own_cpu"]), 96, "{bucket}");
    assert_eq!(assert_right(both, "reply", 96, 96), [24; QUEUES]);
    assert_eq!(assert_right(both, "forward", 96, 0), [24; BUCKETS]);
    assert_eq!(assert_right(udp, "reply", 64, 64), [16; QUEUES]);
    assert_eq!(number(&udp["received_on_own_cpu"]), 64, "{udp}");
}
