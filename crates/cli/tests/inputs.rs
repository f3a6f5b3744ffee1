//! What a user gives: files that never end, names of hosts, rates and sizes in every unit.

use crate::common::{corelane, mounting, parsed, refused, run, run_json};
use crate::scrape::Exposing;
use corelane_tests::until;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::process::Stdio;

#[test]
fn a_pipe_as_a_capture_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let pipe = pipe.display().to_string();
    for (command, code) in [
        (
            format!("load packets ring:inputs-pipe --replay {pipe} --duration 1s"),
            2,
        ),
        (
            format!("bridge --link pcap:{pipe} --link ring:inputs-pipe --duration 1s"),
            2,
        ),
        (format!("serve packets pcap:{pipe} --duration 1s"), 2),
    ] {
        let error = refused(&command, code);
        assert!(error.contains("a pipe"), "{command}: {error}");
    }
}

#[test]
fn a_file_without_end_is_refused_by_its_size() {
    for command in [
        "--max-input 1MiB load http --scenario /dev/zero",
        "report show /dev/zero --max-input 1MiB",
        "hash 1.2.3.4:1 5.6.7.8:2 --steering /dev/zero --max-input 1MiB",
    ] {
        let output = run(command);
        let error = String::from_utf8_lossy(&output.stderr);
        let is_known = !error.contains("unexpected argument");
        assert!(
            !is_known || error.contains("more than 1 MiB: raise --max-input"),
            "{command}: {error}"
        );
        assert!(!output.status.success());
    }
}

#[test]
fn names_and_ports_alone_are_targets() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    for target in [format!("localhost:{port}"), format!(":{port}")] {
        let output = run(&format!("load udp {target} --no-answers --count 1 --json"));
        let loaded = parsed(&output);
        assert_eq!(loaded["total"]["sent"], 1, "{target}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            error.contains("corelane: localhost is "),
            target.starts_with('l'),
            "{error}"
        );
    }
    let hashed = run_json("hash localhost:1 127.0.0.1:2 --json");
    assert_eq!(hashed["source"], "127.0.0.1:1");
    let output = run("hash localhost 127.0.0.1:2 --hash 2tuple");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.starts_with("corelane: localhost is ") && !error.contains(":0"),
        "{error}"
    );
    let error =
        String::from_utf8(run("steer --pid 1 --port 9 --address localhost:9 --dry-run").stderr).unwrap();
    assert!(error.starts_with("corelane: localhost is "), "{error}");
    let error = refused("load tcp no.such.host.invalid:1", 2);
    assert!(error.contains("no.such.host.invalid"), "{error}");
}

/// A listener on one address, and a socket that keeps the same port of the other from listeners, so that it refuses.
fn listening_on_one_of(address: &str, other: &str) -> (TcpListener, Socket) {
    let other: IpAddr = other.parse().unwrap();
    loop {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let silent = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        if silent.bind(&SocketAddr::new(other, port).into()).is_ok() {
            return (listener, silent);
        }
    }
}

#[test]
fn every_address_of_a_name_is_tried_for_a_url_and_for_a_scenario() {
    let (folder, program) = (tempfile::tempdir().unwrap(), env!("CARGO_BIN_EXE_corelane"));
    let (hosts, file) = (folder.path().join("hosts"), folder.path().join("scenario.toml"));
    fs::write(&hosts, "127.0.0.1 corelane.test\n127.7.7.7 corelane.test\n").unwrap();
    let mounted = format!("mount --bind {} /etc/hosts && ", hosts.display());
    let Some(_) = mounting(&format!("{mounted} true")) else {
        return;
    };
    // One of them accepts connections: whichever the resolver names first, both cases occur.
    for [address, other] in [["127.0.0.1", "127.7.7.7"], ["127.7.7.7", "127.0.0.1"]] {
        let (server, _refuses) = listening_on_one_of(address, other);
        let address = server.local_addr().unwrap();
        let name = format!("corelane.test:{}", address.port());
        let scenario = format!(
            "[[client]]\nname = 'all'\nurls = 'all'\nserver = 'named'\nconnections = 1\n\
             [[urls]]\nname = 'all'\nentry = [{{ path = '/' }}]\n\
             [[server]]\nname = 'named'\nhost = '{name}'\n"
        );
        fs::write(&file, scenario).unwrap();
        let scenario = format!("--scenario {}", file.display());
        for from in [
            format!("http://{name}/ --duration 1ms"),
            format!("{scenario} --count 1"),
        ] {
            let timeouts = "--first-byte-timeout 1ms --drain 0s --json";
            let output = mounting(&format!("{mounted} {program} load http {from} {timeouts}")).unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            let used = format!("corelane: corelane.test is {address}, not ");
            assert!(error.contains(&used), "{from}: {error}");
        }
    }
}

#[test]
fn only_bytes_that_the_kernel_took_count_as_sent() {
    // Accepted by the kernel, and never read.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let running = Exposing::start(&format!(
        "load http http://{}/ --body-size 1GiB --connections 1 --duration 1h --drain 0s --json",
        silent.local_addr().unwrap()
    ));
    until("bytes are sent", || {
        running.sum("corelane_load_sent_bytes_total") > 0.0
    });
    let loaded = running.report();
    let sent = loaded["bytes"]["sent"].as_u64().unwrap();
    assert!(sent > 0 && sent < 1 << 29, "{sent}");
}

#[test]
fn datagrams_reach_every_bucket_of_a_known_target_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steering.json");
    for fields in ["2tuple", "4tuple"] {
        let serve = format!("serve udp 127.0.0.1:8080 --buckets 4 --share-cpus --hash {fields} --dry-run");
        let planned = run_json(&serve);
        fs::write(&path, planned["steering"].to_string()).unwrap();
        let load = [
            "load",
            "udp",
            "127.0.0.1:8080",
            "--steering",
            path.to_str().unwrap(),
            "--dry-run",
        ];
        let plan = &run_json(&load)["plan"];
        assert_eq!(plan["notes"], serde_json::json!([]), "{fields}");
        let steering: corelane_rss::Steering = serde_json::from_value(planned["steering"].clone()).unwrap();
        let mut reached = [0; 4];
        for lease in (plan["workers"].as_array().unwrap().iter())
            .flat_map(|worker| worker["leases"].as_array().unwrap())
        {
            let address = lease["address"].as_str().unwrap();
            // Where addresses alone are hashed, the kernel chooses the ports.
            let listed = lease["ports"]["listed"].as_array().cloned();
            for port in listed.unwrap_or_else(|| vec![1.into()]) {
                let source = format!("{address}:{port}").parse().unwrap();
                let tuple = corelane_rss::Tuple::new(source, "127.0.0.1:8080".parse().unwrap()).unwrap();
                reached[steering.steerer().bucket_of(&tuple).index()] += 1;
            }
        }
        assert!(
            reached.iter().all(|sockets| *sockets > 0),
            "{fields}: {reached:?}"
        );
    }
    let unknown = &run_json("load udp 127.0.0.1:8080 --dry-run")["plan"]["notes"];
    assert!(unknown[0].as_str().unwrap().contains("--steering"), "{unknown}");
    let chosen = run_json("load udp 127.0.0.1:8080 --flows 64 --dry-run");
    assert_eq!(chosen["plan"]["notes"], serde_json::json!([]));
}

#[test]
fn flags_have_one_name_and_their_old_ones() {
    for (new, old) in [
        (
            "load udp 127.0.0.1:9 --flows 3 -n 5 -d 1s",
            "load udp 127.0.0.1:9 --sockets 3 --count 5 --duration 1s",
        ),
        (
            "load tcp 127.0.0.1:9 --rate-per-connection 1Mbit/s",
            "load tcp 127.0.0.1:9 --rate 125kB",
        ),
        (
            "load http http://127.0.0.1:9/ --count 1K",
            "load http http://127.0.0.1:9/ --requests 1000",
        ),
        (
            "load packets ring:x --sources 10.0.0.0/8 --destinations 10.1.0.0/16 --batch 7",
            "load packets ring:x --from 10.0.0.0/8 --to 10.1.0.0/16 --burst 7",
        ),
    ] {
        let plan = |flags: &str| {
            let mut printed = run_json(&format!("{flags} --dry-run"));
            // The needs beside a plan name what this machine has at the time.
            printed.get_mut("plan").map(Value::take).unwrap_or(printed)
        };
        assert_eq!(plan(new), plan(old), "{new}");
    }
}

#[test]
fn a_file_for_json_is_written_with_an_equals_sign_and_takes_no_other_argument() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json").display().to_string();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap();
    let flags = "--no-answers --count 1";
    let output = run(&format!("load udp --json {target} {flags}"));
    let printed = parsed(&output);
    let output = run(&format!("load udp --json={file} {target} {flags}"));
    assert!(
        String::from_utf8(output.stdout).unwrap().contains("sent"),
        "the text report is printed"
    );
    let saved: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(
        (&printed["schema"], &printed["total"]["sent"]),
        (&saved["schema"], &saved["total"]["sent"])
    );
    let output = run(&format!("hash --json={file} 10.0.0.1:1 10.0.0.2:2"));
    assert!(String::from_utf8(output.stdout).unwrap().contains("2tuple"));
    let saved: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(run_json("hash --json 10.0.0.1:1 10.0.0.2:2"), saved);
    refused(
        "serve udp 127.0.0.1:0 --json=/nowhere/run.json --duration 10ms",
        2,
    );
}

#[test]
fn a_reader_that_leaves_is_no_error_of_a_plan() {
    let plan = "plan --server 10.11.2.1 --clients 10.11.0.0/16 --all --buckets 4 --json";
    let mut child = corelane(plan).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
