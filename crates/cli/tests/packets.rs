//! `corelane load packets` and `corelane serve packets` end to end: every frame sent is accounted for.

use crate::common;
use corelane_host::bed::{Bed, BedPlan};
use corelane_link::capture::{CaptureLink, CaptureWriter};
use corelane_link::{FaultPlan, FrameLayout, Link, Wrapped};
use corelane_tests::{namespaces, namespaces_plan, undisturbed, until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn document(output: &Output) -> Value {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("one JSON document and nothing else")
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

#[test]
fn what_is_written_to_a_capture_is_accounted_for_from_it() {
    let folder = tempfile::tempdir().unwrap();
    for (family, sizes) in [
        ("198.18.0.0/24", ["60", "60-1514", "imix"]),
        ("2001:db8::/64", ["80", "80-1514", "imix"]),
    ] {
        for size in sizes {
            let file = path(&folder, "sent.pcap");
            let sent = common::run_json(&format!(
                "load packets pcap:out={file} --from {family} --to {family} --size {size} --count 1200 \
--json"
            ));
            assert_eq!(
                (&sent["sent"], &sent["schema"]),
                (&1200.into(), &"corelane/loaded-packets/1".into())
            );
            let came = common::run_json(&["serve", "packets", &format!("pcap:{file}"), "--json"]);
            assert_eq!(came["schema"], "corelane/received-packets/1");
            let counts = ["received", "marked", "changed_or_foreign", "not_udp"]
                .map(|name| came[name].as_u64().unwrap());
            assert_eq!(counts, [1200, 1200, 0, 0], "{family} {size}");
            let total = ["received", "lost", "duplicated", "reordered"]
                .map(|name| came["total"][name].as_u64().unwrap());
            assert_eq!(total, [1200, 0, 0, 0], "{family} {size}");
            assert_eq!(came["received_bytes"], sent["sent_bytes"]);
            assert!(
                came["latency_unknown"]
                    .as_str()
                    .unwrap()
                    .contains("another clock"),
                "{came}"
            );
        }
    }
}

#[test]
fn tshark_finds_every_checksum_right() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "sent.pcapng");
    for family in ["198.18.0.0/24", "2001:db8::/64"] {
        common::run_json(&format!(
            "load packets pcap:out={file} --from {family} --to {family} --size imix --count 600 \
--json"
        ));
        let output = Command::new("tshark")
            .args([
                "-r",
                &file,
                "-o",
                "udp.check_checksum:TRUE",
                "-o",
                "ip.check_checksum:TRUE",
            ])
            .args([
                "-Y",
                "udp.checksum.status == 1 && !(ip && ip.checksum.status != 1)",
            ])
            .output();
        match output {
            Err(error) => eprintln!("skipped: tshark: {error}"),
            Ok(output) => {
                assert_eq!(
                    String::from_utf8_lossy(&output.stdout).lines().count(),
                    600,
                    "{family}"
                );
            }
        }
    }
}

#[test]
fn faults_on_the_way_come_out_under_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let (sent, harmed) = (path(&folder, "sent.pcap"), path(&folder, "harmed.pcap"));
    common::run_json(&format!("load packets pcap:out={sent} --count 5000 --json"));
    let plan = FaultPlan {
        seed: 3,
        drop: 0.05,
        corrupt: 0.02,
        duplicate: 0.03,
        reorder: 0.04,
        ..FaultPlan::default()
    };
    let read = CaptureLink::open(Some(Path::new(&sent)), None, FrameLayout::default()).unwrap();
    let mut faulty = Wrapped::new(read, Some(plan), None);
    let mut write = CaptureLink::open(None, Some(Path::new(&harmed)), FrameLayout::default()).unwrap();
    while !faulty.is_ended() {
        let burst = faulty.receive(64).unwrap();
        write.send(burst.iter()).unwrap();
    }
    drop(write);
    let injected = faulty.injected().unwrap();
    let came = common::run_json(&["serve", "packets", &format!("pcap:{harmed}"), "--json"]);
    let number = |value: &Value| value.as_u64().unwrap();
    // A changed bit in addresses or ports leaves the mark intact; one in the mark, or in headers about it, does not.
    let foreign = number(&came["changed_or_foreign"]) + number(&came["not_udp"]);
    assert!(
        foreign > 20 && foreign <= injected.corrupted + injected.duplicated,
        "{came} {injected:?}"
    );
    let total = &came["total"];
    let [received, lost] = ["received", "lost"].map(|name| number(&total[name]));
    assert_eq!(received + lost, 5000, "{total} {injected:?}");
    assert!(
        lost >= injected.dropped && lost <= injected.dropped + injected.corrupted,
        "{total} {injected:?}"
    );
    assert!(
        number(&total["reordered"]) > 100 && number(&total["duplicated"]) > 80,
        "{total} {injected:?}"
    );
}

#[test]
fn a_replay_keeps_the_pace_of_its_capture_or_goes_faster() {
    let folder = tempfile::tempdir().unwrap();
    let (first, again) = (path(&folder, "first.pcap"), path(&folder, "again.pcapng"));
    let sent = path(&folder, "sent.pcap");
    common::run_json(&format!(
        "load packets pcap:out={sent} --count 1000 --size 100 --json"
    ));
    // A frame each half millisecond, however late the generator was.
    let mut writer = CaptureWriter::create(Path::new(&first)).unwrap();
    for (number, frame) in (0u64..).zip(common::frames(&sent)) {
        writer.write(number * 500_000, 100, &frame).unwrap();
    }
    writer.flush().unwrap();
    let replay = |more: &[&str]| {
        let out = format!("pcap:out={again}");
        common::run_json(&[&["load", "packets", &out, "--replay", &first, "--json"], more].concat())
    };
    let began = Instant::now();
    let own = replay(&[]);
    let took = began.elapsed();
    assert!(took > Duration::from_micros(999 * 500), "{took:?}");
    assert_eq!(own["sent"], 1000);
    assert_eq!(common::frames(&again), common::frames(&first));
    assert_eq!(own["schedule_lag"]["count"], 1000);
    let flood = replay(&["--speed", "flood", "--times", "3"]);
    assert_eq!(flood["sent"], 3000);
    assert_eq!(
        common::frames(&again),
        [
            common::frames(&first),
            common::frames(&first),
            common::frames(&first)
        ]
        .concat()
    );
    assert!(flood["schedule_lag"].is_null());
    assert_eq!(replay(&["--speed", "1000", "--count", "10"])["sent"], 10);
}

#[test]
fn the_same_seed_sends_the_same_flows_and_planned_ones_fill_all_buckets() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "sent.pcap");
    let flows = |more: &[&str]| -> Vec<Vec<u8>> {
        let out = format!("pcap:out={file}");
        common::run_json(&[&["load", "packets", &out, "--count", "64", "--json"], more].concat());
        common::frames(&file)
            .iter()
            .map(|frame| frame[26..38].to_vec())
            .collect()
    };
    assert_eq!(flows(&["--seed", "5"]), flows(&["--seed", "5"]));
    assert_ne!(flows(&["--seed", "5"]), flows(&["--seed", "6"]));
    let four = flows(&["--flows", "4"]);
    assert_eq!(four.iter().collect::<BTreeSet<_>>().len(), 4);

    let plan = common::run_json("serve udp 127.0.0.1:0 --buckets 4 --share-cpus --dry-run");
    let steering = path(&folder, "steering.json");
    std::fs::write(&steering, plan["steering"].to_string()).unwrap();
    let planned = flows(&["--flows", "16", "--steering", &steering]);
    let mut buckets = [0; 4];
    for flow in planned.iter().collect::<BTreeSet<_>>() {
        let end = |at: usize, port: usize| {
            let address = flow[at..at + 4]
                .iter()
                .map(u8::to_string)
                .collect::<Vec<_>>()
                .join(".");
            format!("{address}:{}", u16::from_be_bytes([flow[port], flow[port + 1]]))
        };
        let hashed = common::run_json(&["hash", &end(0, 8), &end(4, 10), "--buckets", "4", "--json"]);
        buckets[hashed["bucket_4tuple"].as_u64().unwrap() as usize] += 1;
    }
    assert_eq!(buckets, [4; 4]);
}

#[test]
fn what_is_wrong_is_refused_by_its_flag() {
    let refused = |more: &str| common::refused(&format!("load packets {more}"), 2);
    assert!(refused("eth0").contains("LINK"));
    assert!(refused("packet:absent0").contains("no device absent0"));
    assert!(refused("pcap:out=/dev/null --from 10.0.0.1 --to ::1").contains("--sources and --destinations"));
    assert!(refused("pcap:out=/dev/null --size 59").contains("not a frame size"));
    assert!(refused("pcap:out=/dev/null --size 9000").contains("too long"));
    assert!(refused("pcap:out=/dev/null --from ::1 --to ::2 --size 60").contains("too short"));
    assert!(refused("pcap:out=/dev/null --replay absent.pcap").contains("--replay"));
    assert!(refused("pcap:out=/dev/null --destination-link 02:03").contains("link address"));
    assert!(refused("pcap:out=/dev/null --speed=-1").contains("factor"));
}

#[test]
fn a_capture_is_not_written_over_by_its_own_replay() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "sent.pcap");
    common::run_json(&format!("load packets pcap:out={file} --count 9 --json"));
    let again = path(&folder, "./sent.pcap");
    for link in [format!("pcap:out={again}"), format!("ring:none,capture={again}")] {
        let refusal = common::refused(&["load", "packets", &link, "--replay", &file], 2);
        assert!(
            refusal.contains("LINK: ") && refusal.contains("is also read by --replay"),
            "{refusal}"
        );
    }
    assert_eq!(common::frames(&file).len(), 9);
}

/// Sends in the client's namespace and receives in the server's.
fn across(bed: &Bed, receiver: &str, sender: &[&str]) -> Option<(Value, Value)> {
    let kind = receiver;
    let (receiver, sender) = (
        receiver.to_owned(),
        sender.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>(),
    );
    let mut receiving = bed.server.run(move || {
        common::corelane(&["serve", "packets", &receiver, "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    // An open receiver has a bound packet socket, or AF_XDP sockets and a promiscuous device.
    let bound = kind.starts_with("packet");
    let ready = || {
        let shown = bed
            .server
            .run(|| std::fs::read_to_string("/proc/thread-self/net/packet").unwrap());
        let sockets = shown
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().nth(4).map(str::to_owned));
        sockets.flatten().any(|device| !bound || device != "0")
    };
    let mut ended = false;
    until("the receiver has opened its link", || {
        ended = receiving.try_wait().unwrap().is_some();
        ended || ready()
    });
    if ended {
        common::skip_without_permission(receiving);
        return None;
    }
    let sent = bed.client.run(move || {
        let arguments: Vec<&str> = sender.iter().map(String::as_str).collect();
        common::run(&[&["load", "packets"], &arguments[..], &["--json"]].concat())
    });
    let sent = document(&sent);
    common::signal(receiving.id(), "INT");
    Some((sent, document(&receiving.wait_with_output().unwrap())))
}

#[test]
fn frames_across_devices_arrive_at_a_rate_and_from_several_queues() {
    undisturbed(|| {
        let plan = BedPlan {
            queues: Some(2),
            ..namespaces_plan()
        };
        let Some(bed) = namespaces(&plan) else {
            return;
        };
        for (receiver, sender, streams) in [
            ("xdp:server0,frames=8192", "xdp:client0", 2),
            ("packet:server0,frames=8192", "packet:client0", 1),
            ("xdp:server0,frames=8192", "packet:client0,queues=2", 2),
        ] {
            let arguments = [
                sender, "--rate", "20k", "--count", "4000", "--flows", "32", "--size", "imix",
            ];
            let Some((sent, came)) = across(&bed, receiver, &arguments) else {
                return;
            };
            assert_eq!(sent["sent"], 4000, "{sender}");
            assert_eq!(sent["streams"].as_array().unwrap().len(), streams, "{sender}");
            assert_eq!(came["marked"], 4000, "{sender} to {receiver}: {came}");
            assert_eq!(came["streams"].as_array().unwrap().len(), streams);
            assert_eq!(
                (&came["total"]["received"], &came["total"]["lost"]),
                (&4000.into(), &0.into()),
                "{came}"
            );
            assert_eq!(came["latency"]["count"], 4000);
            assert_eq!(sent["schedule_lag"]["count"], 4000);
        }
    });
}

#[test]
fn a_receiver_whose_device_goes_reports_and_says_so() {
    let Some(bed) = common::bed() else {
        return;
    };
    for (link, change) in [
        ("tap:gone0", &["link", "del", "gone0"][..]),
        ("packet:server0", &["link", "set", "server0", "down"]),
    ] {
        let mut receiving = bed.server.run(move || {
            common::corelane(&["serve", "packets", link])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        });
        let mut output = BufReader::new(receiving.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        if !line.starts_with("receiving on") {
            return common::skip_without_permission(receiving);
        }
        let changed = bed.server.run(move || Command::new("ip").args(change).status());
        if let Err(error) = &changed {
            receiving.kill().unwrap();
            receiving.wait().unwrap();
            eprintln!("skipped: ip: {error}");
            return;
        }
        assert!(changed.unwrap().success(), "ip {change:?}");
        let mut report = String::new();
        output.read_to_string(&mut report).unwrap();
        let output = receiving.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{link}: {error}");
        assert!(
            error.contains(link) && error.contains("is lost"),
            "{link}: {error}"
        );
        assert!(report.contains("came once"), "{link}: {report}");
    }
}

#[test]
fn a_ring_joins_two_processes_whoever_comes_first() {
    for receiver_first in [true, false] {
        let ring = format!("ring:packets-{}-{receiver_first}", std::process::id());
        let receive = || {
            common::corelane(&["serve", "packets", &ring, "--json"])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let send = || {
            let arguments = [
                "load",
                "packets",
                &ring,
                "--count",
                "20k",
                "--duration",
                "1h",
                "--json",
            ];
            common::corelane(&arguments)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let (receiving, sending) = match receiver_first {
            true => {
                let receiving = receive();
                (receiving, send())
            }
            false => {
                let sending = send();
                (receive(), sending)
            }
        };
        let sent = document(&sending.wait_with_output().unwrap());
        let came = document(&receiving.wait_with_output().unwrap());
        assert_eq!(
            (&sent["sent"], &came["marked"]),
            (&20_000.into(), &20_000.into()),
            "{came}"
        );
        assert_eq!(
            (&came["total"]["lost"], &came["total"]["reordered"]),
            (&0.into(), &0.into())
        );
        assert_eq!(came["latency"]["count"], 20_000);
    }
}

#[test]
fn a_receiver_that_is_told_to_stop_stops_though_frames_keep_coming() {
    let ring = format!("ring:flood-{}", std::process::id());
    let mut receiving = common::corelane(&["serve", "packets", &ring])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut sending = common::corelane(&["load", "packets", &ring, "--duration", "1h"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(receiving.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().starts_with("received"));
    common::signal(receiving.id(), "INT");
    let report: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(receiving.wait().unwrap().success(), "{report:?}");
    // If the receiver had not stopped by itself, the flood would have ended first.
    let ended = sending.try_wait().unwrap();
    let flooded = ended.is_none_or(|status| !status.success());
    if ended.is_none() {
        common::signal(sending.id(), "INT");
    }
    let error = sending.wait_with_output().unwrap().stderr;
    assert!(flooded, "{report:?} {}", String::from_utf8_lossy(&error));
    assert!(report.iter().any(|line| line.contains("came once")), "{report:?}");
}

#[test]
fn faults_of_either_end_are_counted_and_captures_have_what_the_link_had() {
    let folder = tempfile::tempdir().unwrap();
    let (sent_file, seen_file) = (path(&folder, "sent.pcapng"), path(&folder, "seen.pcapng"));
    let ring = format!("ring:harmed-{}", std::process::id());
    let receiver = format!("{ring},capture={seen_file},drop=10%,delay=5ms,seed=9");
    let sender = format!("{ring},capture={sent_file},drop=10%,seed=7,faults=sent");
    let receiving = common::corelane(&["serve", "packets", &receiver, "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let arguments = [
        "load",
        "packets",
        &sender,
        "--count",
        "20k",
        "--duration",
        "1h",
        "--json",
    ];
    let sent = common::run_json(&arguments);
    let came = document(&receiving.wait_with_output().unwrap());
    let fault = |report: &Value, name: &str| common::number(&report["faults"][name]);
    let (before, after) = (fault(&sent, "dropped"), fault(&came, "dropped"));
    assert!((1800..2200).contains(&before), "{sent}");
    assert!((1600..2000).contains(&after), "{came}");
    assert_eq!((&sent["sent"], fault(&sent, "held")), (&20_000.into(), 0));
    assert_eq!(common::number(&came["marked"]), 20_000 - before - after, "{came}");
    assert_eq!(common::number(&came["total"]["lost"]), before + after, "{came}");
    assert_eq!(
        (fault(&came, "delayed"), fault(&came, "held")),
        (20_000 - before - after, 0)
    );
    // The histogram reports the lower edge of a bucket: 4,096 ns here.
    assert!(
        common::number(&came["latency"]["min_ns"]) >= 5_000_000 - 4_096,
        "{came}"
    );
    let seen = common::frames(&seen_file);
    assert_eq!(seen.len() as u64, 20_000 - before);
    assert!(
        common::frames(&sent_file) == seen,
        "both ends of the ring had the same frames"
    );
}

#[test]
fn faults_that_would_befall_nothing_are_refused_with_what_to_write() {
    let load = |link| common::refused(&["load", "packets", link], 2);
    assert!(
        load("ring:none,drop=1%")
            .contains("LINK: nothing is received here, so faults have no effect: add faults=sent")
    );
    assert!(load("ring:none,drop=2").contains("'drop=2': give a share of frames such as 1% or 0.01"));
    let unwritable = load("pcap:out=/dev/null,capture=/nonexistent/seen.pcap");
    assert!(
        unwritable.contains("LINK: /nonexistent/seen.pcap: cannot be written"),
        "{unwritable}"
    );
    let serve = common::refused("serve packets ring:none,drop=1%,faults=sent", 2);
    assert!(
        serve.contains("LINK: nothing is sent here, so faults=sent has no effect: remove it"),
        "{serve}"
    );
}
