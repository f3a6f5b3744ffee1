//! `serve udp` and `load udp` with each other and with a bare socket, as processes on loopback.

use crate::common;
use crate::common::{Server, engines, refused, run, run_json};
use corelane_tests::{PATIENCE, undisturbed, until};
use std::io::Write;
use std::net::UdpSocket;
use std::process::Stdio;

/// The server may be off its CPUs for longer than the default allows.
const PATIENT: [&str; 2] = ["--loss-timeout", "10s"];

/// Writes the steering document of `server` to a file.
fn steering_file(server: &Server) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(server.steering.as_bytes()).unwrap();
    file
}

#[test]
fn every_datagram_of_a_window_comes_back_under_either_engine() {
    undisturbed(|| {
        for engine in engines() {
            let server = Server::start(&format!("127.0.0.1:0 --buckets 2 --share-cpus --engine {engine}"));
            let loaded = run_json(&format!(
                "load udp {} --window 16 --sockets 8 --count 20000 --loss-timeout 10s --engine {engine} --json",
                server.address
            ));
            assert_eq!(loaded["engine"], engine);
            let total = &loaded["total"];
            assert_eq!(total["sent"], 20_000);
            assert_eq!(total["returned"], 20_000, "{engine}: {total}");
            for outcome in ["lost", "duplicated", "corrupted", "too_late", "unsent"] {
                assert_eq!(total[outcome], 0, "{engine}: {outcome}");
            }
            assert_eq!(loaded["round_trip"]["count"], 20_000);
        }
    });
}

#[test]
fn the_smallest_and_the_largest_payload_come_back() {
    undisturbed(|| {
        let server = Server::start("127.0.0.1:0 --buckets 1");
        for size in ["16", "65507"] {
            let loaded = run_json(&format!(
                "load udp {} --window 1 --count 100 --workers 1 --size {size} --loss-timeout 10s --json",
                server.address
            ));
            assert_eq!(
                loaded["total"]["returned"], 100,
                "{size} bytes: {}",
                loaded["total"]
            );
            assert_eq!(loaded["total"]["corrupted"], 0, "{size} bytes");
        }
    });
}

#[test]
fn every_datagram_of_a_window_comes_back_under_every_model_and_engine() {
    undisturbed(|| {
        for model in ["single", "shared", "farm", "reuseport", "incoming_cpu", "exact"] {
            for engine in engines() {
                let how = [
                    "--buckets",
                    "2",
                    "--share-cpus",
                    "--model",
                    model,
                    "--engine",
                    engine,
                ];
                let server = Server::start(&[&["127.0.0.1:0"], &how[..]].concat());
                let flags = ["--window", "16", "--sockets", "8", "--count", "8000", "--json"];
                let loaded = run_json(&[&["load", "udp", &server.address], &flags[..], &PATIENT].concat());
                let total = &loaded["total"];
                let count = |outcome: &str| total[outcome].as_u64().unwrap();
                // Threads on one socket overtake each other, sometimes by more than the window in which duplicates are
                // detected.
                let overtaken = if model == "shared" { count("too_late") } else { 0 };
                assert_eq!(count("returned") + overtaken, 8000, "{model}, {engine}: {total}");
            }
        }
    });
}

#[test]
fn a_closed_port_is_told_as_what_it_is() {
    let (closed, _keeper) = common::closed_udp_port();
    let flags = "--rate 200 --count 20 --workers 1";
    let output = run(&format!("load udp {closed} {flags} --json"));
    assert_eq!(output.status.code(), Some(1));
    let loaded: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(loaded["total"]["returned"], 0);
    let why = format!("no datagram was answered: refused by {closed}");
    assert_eq!(loaded["failed_because"], why);
    let text = String::from_utf8(run(&format!("load udp {closed} {flags}")).stdout).unwrap();
    assert!(text.contains(&format!("failed: {why}")), "{text}");
    assert!(
        loaded["total"]["network_errors"]["refused"].as_u64().unwrap() > 0,
        "{}",
        loaded["total"]
    );
}

#[test]
fn answers_that_the_generators_own_socket_dropped_are_not_lost_by_the_server() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let load = common::corelane(&format!(
        "load udp {} --window 1 --sockets 1 --workers 1 --duration 1h --json",
        server.local_addr().unwrap()
    ));
    let load = { load }.stdout(Stdio::piped()).spawn().unwrap();
    let mut datagram = [0; 2048];
    let (length, client) = server.recv_from(&mut datagram).unwrap();
    common::signal(load.id(), "STOP");
    until("the generator is stopped", || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", load.id())).unwrap();
        threads.map(Result::unwrap).all(|thread| {
            let state = std::fs::read_to_string(thread.path().join("status")).unwrap();
            state.contains("State:\tT")
        })
    });
    // More than the largest receive buffer of a socket without privileges.
    let most = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    let answers = most.trim().parse::<usize>().unwrap() / length + 1_000;
    for _ in 0..answers {
        server.send_to(&datagram[..length], client).unwrap();
    }
    common::signal(load.id(), "INT");
    common::signal(load.id(), "CONT");
    let output = load.wait_with_output().unwrap();
    let loaded: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let total = &loaded["total"];
    assert!(total["dropped_here"].as_u64().unwrap() > 0, "{total}");
    assert_eq!(total["lost"], 0, "{total}");
}

#[test]
fn under_skew_each_source_sends_its_share() {
    undisturbed(|| {
        let server = Server::start("127.0.0.1:0 --buckets 1");
        let flags = [
            "--sources",
            "127.0.0.2-127.0.0.5",
            "--sockets",
            "4",
            "--workers",
            "2",
            "--json",
        ];
        let paces: [&[&str]; 2] = [
            &["--window", "8", "--count", "8000"],
            &["--rate", "8k", "--count", "4000"],
        ];
        for pace in paces {
            let skew = ["load", "udp", &server.address, "--skew", "elephant:0.7"];
            let loaded = run_json(&[&skew[..], &flags, pace, &PATIENT].concat());
            let total = loaded["total"]["sent"].as_f64().unwrap();
            // What a preempted generator's own sockets drop has a name of its own (`dropped_here`).
            assert_eq!(loaded["total"]["lost"], 0, "{}", loaded["total"]);
            let mut shares: Vec<f64> = (loaded["sources"].as_array().unwrap().iter())
                .map(|source| source["sent"].as_f64().unwrap() / total)
                .collect();
            shares.sort_by(f64::total_cmp);
            assert!((shares[3] - 0.7).abs() < 0.02, "{pace:?}: {shares:?}");
            assert!((shares[0] - 0.1).abs() < 0.02, "{pace:?}: {shares:?}");
        }
    });
}

#[test]
fn a_generator_has_no_port_that_the_server_would_refuse() {
    let Some(bed) = common::bed() else { return };
    // Of four ports, one is the server's.
    let range = "/proc/sys/net/ipv4/ip_local_port_range";
    bed.client
        .run(move || std::fs::write(range, "40000 40003").unwrap());
    undisturbed(|| {
        let address = "10.11.2.1:40000";
        let server = format!("serve udp {address} --buckets 1");
        let mut server = common::corelane(&server);
        server.stdout(Stdio::piped());
        let _server = Server::of(bed.server.run(move || server.spawn().unwrap()));
        for how in ["--sources 10.11.2.2", "--sources 10.11.2.2 --workers 1", ""] {
            let load = format!(
                "load udp {address} --sockets 3 --window 1 --count 30 --loss-timeout 10s --json {how}"
            );
            let mut load = common::corelane(&load);
            let loaded = bed.client.run(move || load.output().unwrap());
            let loaded: serde_json::Value = serde_json::from_slice(&loaded.stdout).unwrap();
            assert_eq!(loaded["total"]["returned"], 30, "{how}: {}", loaded["total"]);
        }
    });
}

#[test]
fn on_sigusr1_the_server_tells_every_flow_by_hash_type_and_bucket() {
    undisturbed(|| {
        for answers in ["per_send", "caller", "connected"] {
            let mut server = Server::start(&format!(
                "127.0.0.1:0 --buckets 2 --share-cpus --answers {answers} --flows"
            ));
            let load = ["load", "udp", &server.address, "--window", "8", "--sockets", "4"];
            let loaded = run_json(&[&load[..], &["--count", "4000", "--json"], &PATIENT].concat());
            assert_eq!(
                loaded["total"]["returned"], 4_000,
                "{answers}: {}",
                loaded["total"]
            );
            server.signal("USR1");
            let mut counted = [0, 0];
            let mut flows = 0;
            for line in server
                .lines()
                .skip_while(|line| !line.starts_with("hash "))
                .skip(1)
            {
                let fields: Vec<&str> = line.split_whitespace().collect();
                let [hash, hash_type, bucket, worker, count] = fields[..] else {
                    panic!("a flow in five fields: {line}");
                };
                assert!(hash.starts_with("0x") && hash.len() == 10, "{line}");
                assert_eq!((hash_type, bucket), ("UDP_IPV4", worker), "{line}");
                counted[bucket.parse::<usize>().unwrap()] += count.replace(',', "").parse::<u64>().unwrap();
                flows += 1;
                if counted[0] + counted[1] == 4_000 {
                    break;
                }
            }
            assert_eq!(counted[0] + counted[1], 4_000, "{answers}");
            assert_eq!(flows, 4, "{answers}: one per socket");
        }
    });
}

#[test]
fn flows_are_in_the_last_document_and_ways_to_answer_that_cannot_be_are_refused() {
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
        let served = run_json(&format!("serve udp {address} --flows --duration 100ms --json"));
        assert_eq!(served["flows"], serde_json::json!([]));
        assert_eq!(served["flows_uncounted"], 0);
    }
    for answers in ["received", "caller", "connected"] {
        let error = refused(&format!("serve udp --answers {answers} --model farm"), 2);
        assert!(error.contains("--model exact"), "{error}");
    }
    let error = refused("serve udp 127.0.0.1:0 --answers received", 2);
    assert!(error.contains("--watch DEVICE"), "{error}");
}

#[test]
fn planned_sources_hit_every_bucket_and_no_other() {
    undisturbed(|| {
        let server = Server::start("127.11.2.1:0 --buckets 4 --share-cpus");
        let steering = steering_file(&server);
        let path = steering.path().to_str().unwrap();
        let loaded = run_json(&format!(
            "load udp {} --sources 127.11.2.0/24 --spread buckets --steering {path} --sockets 16 \
--window 8 --count 8000 --loss-timeout 10s --json",
            server.address
        ));
        assert_eq!(loaded["total"]["returned"], 8000);
        let workers = loaded["workers"].as_array().unwrap();
        let buckets: Vec<u64> = workers
            .iter()
            .map(|worker| worker["bucket"].as_u64().unwrap())
            .collect();
        assert_eq!(buckets, [0, 1, 2, 3]);
        assert!(workers.iter().all(|worker| worker["counts"]["returned"] == 2000));
    });
}

#[test]
fn the_server_checks_its_own_steering() {
    undisturbed(|| {
        let folder = tempfile::tempdir().unwrap();
        let document = folder.path().join("served.json");
        let mut server = Server::start(&format!(
            "127.11.3.1:0 --buckets 4 --share-cpus --json={}",
            document.display()
        ));
        run_json(&format!(
            "load udp {} --sockets 64 --window 4 --count 5000 --loss-timeout 10s --json",
            server.address
        ));
        server.signal("INT");
        assert!(server.wait().success());
        let served = std::fs::read_to_string(document).unwrap();
        let served: serde_json::Value = serde_json::from_str(&served).unwrap();
        let buckets = served["buckets"].as_array().unwrap();
        let sum = |field: &str| {
            buckets
                .iter()
                .map(|bucket| bucket[field].as_u64().unwrap())
                .sum::<u64>()
        };
        assert_eq!((sum("seen"), sum("answered")), (5000, 5000), "{served}");
        assert!(sum("steering_samples") > 50, "{served}");
        assert_eq!(sum("steering_samples"), sum("steering_right"), "{served}");
    });
}

#[test]
fn an_open_loop_keeps_its_schedule_and_counts_from_it() {
    let server = Server::start("127.0.0.1:0 --buckets 1");
    let loaded = run_json(&format!(
        "load udp {} --rate 5k --duration 500ms --workers 1 --json",
        server.address
    ));
    let total = &loaded["total"];
    let sent = total["sent"].as_u64().unwrap() + total["unsent"].as_u64().unwrap();
    assert!(
        (2_495..=2_505).contains(&sent),
        "2,500 are on the schedule, {sent} were sent or reported as unsent"
    );
    assert_eq!(loaded["schedule_lag"]["count"], total["sent"]);
}

#[test]
fn a_server_never_answers_ports_that_would_answer_back() {
    undisturbed(|| {
        let server = Server::start("127.0.0.1:0 --buckets 1");
        let port = server.address.rsplit(':').next().unwrap();
        // An address of its own: a test beside this one may have the port at another.
        let same_port = UdpSocket::bind(format!("127.77.0.3:{port}")).unwrap();
        same_port.set_nonblocking(true).unwrap();
        let other_port = UdpSocket::bind("127.77.0.3:0").unwrap();
        other_port.set_read_timeout(Some(PATIENCE)).unwrap();
        same_port.send_to(b"loop", &server.address).unwrap();
        other_port.send_to(b"fine", &server.address).unwrap();
        assert_eq!(other_port.recv_from(&mut [0; 16]).unwrap().0, 4);
        // Its one worker answers in order.
        let unanswered = same_port.recv_from(&mut [0; 16]).unwrap_err();
        assert_eq!(unanswered.kind(), std::io::ErrorKind::WouldBlock);
    });
}

#[test]
fn a_silent_target_loses_everything_and_says_so() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap().to_string();
    let output = run(&format!(
        "load udp {target} --window 4 --count 40 --workers 1 --json"
    ));
    assert_eq!(output.status.code(), Some(1));
    let loaded: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(loaded["failed_because"], "no datagram was answered");
    assert_eq!(loaded["total"]["sent"], 40);
    assert_eq!(loaded["total"]["lost"], 40);
    assert!(loaded["round_trip"].is_null());
}

#[test]
fn plans_are_printed_and_not_run() {
    let plan = run_json("load udp 127.0.0.1:9 --sockets 5 --loss-timeout 10s --dry-run");
    assert_eq!(plan["plan"]["payload_bytes"], 510);
    assert_eq!(plan["plan"]["loss_timeout_s"], 10.0);
    let needs = plan["needs"].as_array().unwrap();
    let ports = needs
        .iter()
        .find(|need| need["what"] == "ports chosen by the kernel, per address");
    assert_eq!(ports.unwrap()["needed"], 5);
    let plan = run_json("serve udp 127.0.0.1:0 --buckets 1 --dry-run");
    assert_eq!(plan["steering"]["schema"], "corelane/steering/1");
}

#[test]
fn bad_input_is_refused_with_the_flag_named() {
    let large = refused("load udp 127.0.0.1:9 --size 65508", 2);
    assert!(large.contains("--size") && large.contains("65507"), "{large}");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let in_use = refused(&["serve", "udp", &address, "--buckets", "1"], 2);
    assert!(in_use.contains(&address), "{in_use}");
    let many = refused("serve udp 127.0.0.1:0 --buckets 5000", 2);
    assert!(many.contains("--buckets") && many.contains("5000"), "{many}");
    let workers = refused("load udp 127.0.0.1:9 --workers 5000 --count 1", 2);
    assert!(
        workers.contains("--workers") && workers.contains("5000"),
        "{workers}"
    );
    let far = refused("load udp 127.0.0.1:9 --sources 192.0.2.7 --count 1", 2);
    assert!(far.contains("--sources") && far.contains("192.0.2.7"), "{far}");
    let no_document = refused("load udp 127.0.0.1:9 --spread buckets", 2);
    assert!(no_document.contains("--steering"), "{no_document}");
    let unknown = run("load udp 127.0.0.1:9 --engine kqueue");
    assert_eq!(unknown.status.code(), Some(2));
}
