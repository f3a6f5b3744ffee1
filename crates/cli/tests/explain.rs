//! `corelane explain` predicts the CPU of a packet: the test sends packets and observes the CPU on which they are
//! received.

use crate::common;
use crate::common::{refused, run_json};
use corelane_host::bed::{Bed, Side};
use corelane_host::{cpus, pin};
use corelane_tests::{PATIENCE, undisturbed, until};
use corelane_worker::WatchError;
use corelane_worker::locality::{Direction, Observer, ObserverSettings};
use serde_json::Value;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

/// Two CPUs, or `None` after printing that only one is usable.
fn two_cpus() -> Option<(u32, u32)> {
    match cpus::allowed().unwrap().cpus[..] {
        [first, second, ..] => Some((first, second)),
        _ => {
            eprintln!("skipped: two CPUs are needed to distinguish them");
            None
        }
    }
}

/// Runs a shell line in a side of the bed with its own `/sys` mount, and returns its output.
fn shell(side: &Side, line: String) -> String {
    let output = side.run(move || {
        let script = format!("mount -t sysfs sysfs /sys && {line}");
        let words = ["--mount", "--propagation", "private", "sh", "-c", &script];
        Command::new("unshare")
            .args(words)
            .output()
            .expect("unshare starts")
    });
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn explained(side: &Side, source: SocketAddr, destination: SocketAddr, more: &str) -> Value {
    let program = env!("CARGO_BIN_EXE_corelane");
    let line = format!("exec {program} explain {source} {destination} --proto udp --json {more}");
    serde_json::from_str(&shell(side, line)).expect("one document")
}

/// Number of datagrams to send and observe.
const COUNT: usize = 20;

/// A socket in the server's namespace and an observer of the packets that it receives.
struct Receiving {
    socket: UdpSocket,
    observer: Observer,
}

impl Receiving {
    /// Binds to `destination` and observes `device`; `None` after printing that observation is not permitted.
    fn start(bed: &Bed, device: &str, destination: SocketAddr) -> Option<Receiving> {
        let settings = ObserverSettings {
            device: Some(device.to_owned()),
            transport: corelane_worker::group::Transport::Udp,
            direction: Direction::Received,
            address: destination,
            one_in: 1,
        };
        let observer = match bed.server.run(move || Observer::new(&settings)) {
            Err(error @ WatchError::NotPermitted) => {
                eprintln!("skipped: {error}");
                return None;
            }
            observer => observer.unwrap(),
        };
        let socket = bed.server.run(move || UdpSocket::bind(destination)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(Receiving { socket, observer })
    }

    /// The CPUs on which the datagrams were received, as the observer recorded them.
    fn seen_on(mut self) -> Vec<u32> {
        // A datagram is observed before the socket receives it.
        for _ in 0..COUNT {
            self.socket.recv_from(&mut [0; 64]).unwrap();
        }
        let mut cpus = Vec::new();
        self.observer
            .drain(usize::MAX, |sighting| cpus.push(sighting.cpu))
            .unwrap();
        assert_eq!(cpus.len(), COUNT);
        cpus.dedup();
        cpus
    }
}

fn send(socket: &UdpSocket, destination: SocketAddr) {
    for _ in 0..COUNT {
        socket.send_to(&[7; 16], destination).unwrap();
    }
}

/// Sends datagrams from `cpu` and returns the CPUs on which they were received.
fn seen_on(bed: &Bed, source: SocketAddr, destination: SocketAddr, cpu: u32) -> Option<Vec<u32>> {
    let receiving = Receiving::start(bed, bed.server.device(), destination)?;
    let sender = bed.client.spawn(move || {
        pin::current_thread(cpu).unwrap();
        send(&UdpSocket::bind(source).unwrap(), destination);
    });
    sender.unwrap().join().unwrap();
    Some(receiving.seen_on())
}

#[test]
fn on_veth_with_rps_the_packet_is_seen_on_the_cpu_that_was_named() {
    undisturbed(|| {
        let (Some(bed), Some((first, second))) = (common::bed(), two_cpus()) else {
            return;
        };
        let ends: (SocketAddr, SocketAddr) = (
            "10.11.2.7:4007".parse().unwrap(),
            "10.11.2.1:9007".parse().unwrap(),
        );
        for (rps, sender) in [(first, second), (second, first)] {
            let device = bed.server.device();
            let mask = 1_u64 << rps;
            shell(
                &bed.server,
                format!("echo {mask:x} > /sys/class/net/{device}/queues/rx-0/rps_cpus"),
            );
            let explanation = explained(&bed.server, ends.0, ends.1, "");
            let there = &explanation["directions"][0];
            assert_eq!(there["device"], device, "{there}");
            assert_eq!(
                (&there["cpu"], &there["cpu_confidence"]),
                (&rps.into(), &"certain".into()),
                "{there}"
            );
            let Some(seen) = seen_on(&bed, ends.0, ends.1, sender) else {
                return;
            };
            assert_eq!(seen, [rps], "sent from {sender}");
        }
    });
}

#[test]
fn on_veth_without_rps_the_packet_is_seen_on_the_sender_s_cpu_and_explain_says_so() {
    undisturbed(|| {
        let (Some(bed), Some((first, second))) = (common::bed(), two_cpus()) else {
            return;
        };
        let ends: (SocketAddr, SocketAddr) = (
            "10.11.2.8:4008".parse().unwrap(),
            "10.11.2.1:9008".parse().unwrap(),
        );
        let unasked = explained(&bed.server, ends.0, ends.1, "");
        let there = &unasked["directions"][0];
        assert!(there["cpu"].is_null(), "{there}");
        let steps = there["steps"].as_array().unwrap();
        let cpu = steps.iter().find(|step| step["step"] == "cpu").unwrap();
        assert!(
            cpu["rule"].as_str().unwrap().contains("the CPU that sends"),
            "{cpu}"
        );
        for sender in [first, second] {
            let explanation = explained(&bed.server, ends.0, ends.1, &format!("--sender-cpu {sender}"));
            assert_eq!(explanation["directions"][0]["cpu"], sender);
            let Some(seen) = seen_on(&bed, ends.0, ends.1, sender) else {
                return;
            };
            assert_eq!(seen, [sender]);
        }
    });
}

#[test]
fn on_loopback_the_cpu_of_a_bound_sender_is_named_from_its_socket_and_the_packet_is_seen_there() {
    undisturbed(|| {
        let Some((_, second)) = two_cpus() else { return };
        let Some(bed) = common::bed() else { return };
        // A thread bound to one CPU, which waits for the signal to send.
        let (waiting, thread) = std::sync::mpsc::channel();
        let (source, destination): (SocketAddr, SocketAddr) = (
            "127.0.0.1:4009".parse().unwrap(),
            "127.0.0.1:9009".parse().unwrap(),
        );
        let Some(receiving) = Receiving::start(&bed, "lo", destination) else {
            return;
        };
        let sender = bed.server.spawn(move || {
            pin::current_thread(second).unwrap();
            let socket = UdpSocket::bind(source).unwrap();
            waiting
                .send(std::fs::read_link("/proc/thread-self").unwrap())
                .unwrap();
            socket.recv_from(&mut [0; 16]).unwrap();
            send(&socket, destination);
        });
        let sender = sender.unwrap();
        let call = std::path::Path::new("/proc")
            .join(thread.recv().unwrap())
            .join("syscall");
        until("the sender waits", || {
            !std::fs::read_to_string(&call).unwrap().starts_with("running")
        });
        let explanation = explained(&bed.server, source, destination, "");
        receiving.socket.send_to(&[1], source).unwrap();
        sender.join().unwrap();
        assert_eq!(receiving.seen_on(), [second]);
        let there = &explanation["directions"][0];
        assert_eq!(there["role"], "keeps");
        assert_eq!(
            (&there["device"], &there["cpu"]),
            (&"lo".into(), &second.into()),
            "{there}"
        );
    });
}

/// Waits until every thread of a server waits: only then the file names the CPU to which the thread is bound.
fn until_idle(server: &common::Server) {
    until("the server's threads wait", || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
        let calls = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("syscall")));
        calls
            .map(Result::unwrap_or_default)
            .all(|call| call != "running\n")
    });
}

#[test]
fn the_socket_of_a_server_beside_is_the_one_that_gets_the_datagram() {
    undisturbed(|| {
        let mut server = common::Server::start("127.0.0.1:0 --buckets 4 --share-cpus --flows");
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (source, to) = (client.local_addr().unwrap(), server.address.clone());
        let line = format!("explain {source} {to} --proto udp");
        until_idle(&server);
        let explanation = run_json(&format!("{line} --json"));
        let named = |explanation: &Value| {
            let steps = explanation["directions"][0]["steps"].as_array().unwrap();
            steps
                .iter()
                .find(|step| step["step"] == "socket")
                .unwrap()
                .clone()
        };
        let socket = named(&explanation);
        client.send_to(b"one", &to).unwrap();
        client.recv_from(&mut [0; 8]).unwrap();
        server.signal("USR1");
        let row = server.lines().find(|line| line.starts_with("0x")).unwrap();
        let bucket = row.split_whitespace().nth(2).unwrap().to_owned();
        let member = format!("member {bucket}, {to} of corelane (");
        assert!(
            socket["value"].as_str().unwrap().starts_with(&member),
            "{row}: {socket}"
        );
        let text = String::from_utf8(common::run(&line).stdout).unwrap();
        assert!(text.contains(&format!("\nsocket: {member}")), "{text}");
        assert!(
            !text.contains('…') && text.lines().all(|line| line.len() <= 100),
            "{text}"
        );

        // A document that is given goes before the published one.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("steering.json");
        let mut given: Value = serde_json::from_str(&server.steering).unwrap();
        given["table"] = vec![3; 128].into();
        std::fs::write(&file, given.to_string()).unwrap();
        let socket = named(&run_json(&format!("{line} --json --steering {}", file.display())));
        assert!(
            socket["value"].as_str().unwrap().starts_with("member 3, "),
            "{socket}"
        );
    });
}

#[test]
fn the_listener_of_a_worker_with_descriptors_of_its_own_is_named_with_its_cpu() {
    let Some(_) = two_cpus() else { return };
    let mut command = common::corelane("serve http 127.0.0.1:0");
    let server = common::Server::of(command.stdout(std::process::Stdio::piped()).spawn().unwrap());
    until_idle(&server);
    let explanation = run_json(&format!("explain 127.0.0.1:4010 {} --json", server.address));
    let there = &explanation["directions"][0];
    let planned = run_json("serve http 127.0.0.1:0 --dry-run");
    let mut cpus: Vec<&Value> = there["sockets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|socket| &socket["cpu"])
        .collect();
    cpus.sort_by_key(|cpu| cpu.as_u64());
    assert_eq!(
        cpus,
        planned["steering"]["cpus"]
            .as_array()
            .unwrap()
            .iter()
            .collect::<Vec<_>>(),
        "{there}"
    );
    let steps = there["steps"].as_array().unwrap();
    let socket = steps.iter().find(|step| step["step"] == "socket").unwrap();
    assert!(
        socket["value"].as_str().unwrap().contains("works on CPU"),
        "{socket}"
    );
}

#[test]
fn another_machine_is_explained_from_its_saved_document() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.json");
    let document = run_json("host --json");
    std::fs::write(&file, document.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let explanation = run_json(&format!("explain 127.0.0.1:7 127.0.0.1:9 --config {file} --json"));
    assert_eq!(explanation["schema"], "corelane/explain/1");
    assert_eq!(explanation["directions"][1]["from"], "127.0.0.1:9");
    std::fs::write(file, "{}").unwrap();
    let error = refused(&["explain", "127.0.0.1:7", "127.0.0.1:9", "--config", file], 2);
    assert!(error.contains("--config"), "{error}");
}

#[test]
fn what_cannot_be_explained_says_what_would_help() {
    let error = refused("explain 192.0.2.77:1 198.51.100.77:2", 2);
    assert!(error.contains("--dev"), "{error}");
    let error = refused("explain 127.0.0.1:1 [::1]:2", 2);
    assert!(error.contains("famil"), "{error}");
    let error = refused("explain 192.0.2.77:1 198.51.100.77:2 --dev no-such-device", 2);
    assert!(error.contains("no-such-device"), "{error}");
    let error = refused("explain 127.0.0.1:1 127.0.0.1:2 --sender-cpu 4000", 2);
    assert!(error.contains("--sender-cpu: CPU 4000 is not online"), "{error}");
}

#[test]
fn a_port_of_the_other_protocol_is_named() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let explanation = run_json(&format!("explain 127.0.0.1:4011 {to} --proto tcp --json"));
    let steps = explanation["directions"][0]["steps"].as_array().unwrap();
    let socket = steps.iter().find(|step| step["step"] == "socket").unwrap();
    let rule = socket["rule"].as_str().unwrap();
    let none = format!("no TCP socket here receives packets to {to}");
    assert!(rule.starts_with(&none), "{rule}");
    assert!(rule.contains(&format!("UDP {to} (--proto)")), "{rule}");
}
