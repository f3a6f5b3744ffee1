//! `corelane verify` as a user runs it: with logs, with captures, and with both.

use crate::common;
use crate::common::{host_with_rss, parsed, refused, run, run_json};
use corelane_rss::{HashFields, Key, Toeplitz, Tuple};
use corelane_tests::until;
use pcap_file::pcap::{PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use pcap_file::{DataLink, Endianness};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddrV4;
use std::path::Path;
use std::time::Duration;

const POST: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../rss/tests/vectors/post-wrong-ring.tsv"
);

/// Runs a verification, checks that it finds misplaced flows, and returns its document.
fn misplaced(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("another queue"), "{error}");
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

/// Runs a verification in which nothing can be checked, and returns its document.
fn unchecked(arguments: &[&str], because: &str) -> Value {
    let output = run(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(77), "{error}");
    assert!(
        error.contains("no queue was checked") && error.contains(because),
        "{error}"
    );
    serde_json::from_slice(&output.stdout).expect("one document")
}

#[test]
fn a_source_without_queues_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("pairs");
    for lines in ["", "# only a comment\n\n"] {
        fs::write(&log, lines).unwrap();
        let verify = ["verify", "--log", log.to_str().unwrap(), "--queues", "4"];
        let document = unchecked(&[&verify[..], &["--json"]].concat(), "there is no frame");
        assert_eq!(document["frames"], 0);
        let text = String::from_utf8(run(&verify).stdout).unwrap();
        assert!(
            text.contains("none of 0 frames checked") && !text.contains("misplaced;"),
            "{text}"
        );
    }
}

#[test]
fn every_frame_of_the_posts_log_is_misplaced_and_its_flow_named() {
    let naming = ["--clients", "10.11.2.0/24", "--server", "10.11.2.1"];
    let verify = ["verify", "--log", POST, "--queues", "4", "--json"];
    let document = misplaced(&[&verify[..], &naming].concat());
    assert_eq!(document["schema"], "corelane/verify/1");
    assert_eq!(
        (&document["frames"], &document["misplaced"]),
        (&json!(9), &json!(9))
    );
    let found: Vec<_> = document["misplacements"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| ["hash", "expected", "actual", "frames", "flows"].map(|name| row[name].clone()))
        .collect();
    let expected = [
        ["0x21f7db62", "2", "3", "5", "10.11.2.32:0 -> 10.11.2.1:0"],
        ["0x335a5c03", "3", "2", "4", "10.11.2.33:0 -> 10.11.2.1:0"],
    ];
    let expected = expected.map(|[hash, expected, actual, frames, flow]| {
        let number = |text: &str| json!(text.parse::<u64>().unwrap());
        [
            json!(hash),
            number(expected),
            number(actual),
            number(frames),
            json!([flow]),
        ]
    });
    assert_eq!(found, expected);
}

#[test]
fn the_text_names_queues_flows_and_causes_within_100_columns() {
    let naming = ["--clients", "10.11.2.0/24", "--server", "10.11.2.1"];
    let output = run(&[&["verify", "--log", POST, "--queues", "4"][..], &naming].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    for needed in [
        "10.11.2.32",
        "10.11.2.33",
        "0x335a5c03",
        "9 of 9 frames misplaced",
        "likely:",
    ] {
        assert!(text.contains(needed), "{needed} is missing:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

/// From 10.11.2.`client`:4000 to 10.11.2.1:8080.
fn ends(client: u8) -> [SocketAddrV4; 2] {
    let server = SocketAddrV4::new([10, 11, 2, 1].into(), 8080);
    [SocketAddrV4::new([10, 11, 2, client].into(), 4000), server]
}

fn hash(ends: [SocketAddrV4; 2], fields: HashFields) -> u32 {
    let tuple = Tuple::new(ends[0].into(), ends[1].into()).unwrap();
    Toeplitz::new(&Key::VERIFICATION).hash(&tuple, fields)
}

/// An empty UDP datagram, as a frame.
pub fn frame(ends: [SocketAddrV4; 2]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend(ends.iter().flat_map(|end| end.ip().octets()));
    frame.extend(ends.iter().flat_map(|end| end.port().to_be_bytes()));
    frame.extend([0, 8, 0, 0]);
    frame
}

const CLIENTS: std::ops::Range<u8> = 2..250;

fn write_pcap(path: &Path) {
    let mut writer = PcapWriter::new(File::create(path).unwrap()).unwrap();
    for client in CLIENTS {
        let frame = frame(ends(client));
        let packet = PcapPacket::new(Duration::from_micros(client.into()), frame.len() as u32, &frame);
        writer.write_packet(&packet).unwrap();
    }
}

fn write_pcapng(path: &Path, fields: HashFields) {
    write_hashed(path, fields, CLIENTS.map(ends));
}

/// Writes a capture whose metadata say that the device hashed `fields` and steered by the hash to four queues.
pub fn write_hashed(path: &Path, fields: HashFields, flows: impl Iterator<Item = [SocketAddrV4; 2]>) {
    let file = File::create(path).unwrap();
    let mut writer = PcapNgWriter::with_endianness(file, Endianness::Little).unwrap();
    let interface = InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: 0,
        options: vec![],
    };
    writer.write_pcapng_block(interface).unwrap();
    for ends in flows {
        let hash = hash(ends, fields);
        writer
            .get_mut()
            .write_all(&enhanced_packet(&frame(ends), hash, hash % 128 % 4))
            .unwrap();
    }
}

/// An Enhanced Packet Block with the options `epb_hash` (Toeplitz) and `epb_queue`.
fn enhanced_packet(frame: &[u8], hash: u32, queue: u32) -> Vec<u8> {
    let words = |words: &[u32]| {
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let length = frame.len() as u32;
    let mut body = words(&[0, 0, 0, length, length]);
    body.extend(frame);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend([3, 0, 5, 0, 5]);
    body.extend(hash.to_be_bytes());
    body.extend([0; 3]);
    body.extend([6, 0, 4, 0]);
    body.extend(words(&[queue, 0]));
    let total = body.len() as u32 + 12;
    [words(&[6, total]), body, words(&[total])].concat()
}

#[test]
fn a_capture_that_says_hash_and_queue_is_verified_by_both() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("good.pcapng");
    write_pcapng(&path, HashFields::FourTuple);
    let path = path.to_str().unwrap();
    let verify = ["verify", "--pcap", path, "--queues", "4", "--json"];
    let good = run_json(&[&verify[..], &["--hash", "4tuple"]].concat());
    let sum = |name: &str| -> u64 {
        let buckets = good["buckets"].as_array().unwrap();
        buckets.iter().map(|bucket| bucket[name].as_u64().unwrap()).sum()
    };
    let frames = CLIENTS.len() as u64;
    assert_eq!(good["misplaced"], 0);
    assert_eq!([sum("seen"), sum("right_hash"), sum("right_queue")], [frames; 3]);
    // If the rule hashes addresses only, the mismatch is detected and its cause named.
    let bad = misplaced(&[&verify[..], &["--hash", "2tuple"]].concat());
    assert!(bad["misplaced"].as_u64().unwrap() > frames / 2, "{bad}");
    assert_eq!(bad["causes"][0]["cause"], "fields", "{bad}");
    assert_eq!(bad["causes"].as_array().unwrap().len(), 1);
}

#[test]
fn a_capture_alone_tells_what_each_bucket_should_see_and_with_a_log_what_it_saw() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, log) = (folder.path().join("frames.pcap"), folder.path().join("pairs"));
    write_pcap(&capture);
    let mut lines: Vec<_> = CLIENTS
        .map(|client| hash(ends(client), HashFields::TwoTuple))
        .map(|hash| format!("{hash:#010x} {}", hash % 128 % 4))
        .collect();
    fs::write(&log, lines.join("\n")).unwrap();
    let (capture, log) = (capture.to_str().unwrap(), log.to_str().unwrap());
    let alone = ["verify", "--pcap", capture, "--queues", "4", "--json"];
    let document = unchecked(&alone, "none of 248 frames has a queue");
    assert_eq!(document["buckets"][0]["right_queue"], Value::Null);
    assert_eq!(document["frames"], CLIENTS.len());
    let both = [&alone[..], &["--log", log]].concat();
    assert_eq!(run_json(&both)["misplaced"], 0);
    lines[7] = format!("{:#010x} 9", hash(ends(9), HashFields::TwoTuple));
    fs::write(log, lines.join("\n")).unwrap();
    let document = misplaced(&both);
    assert_eq!(document["misplaced"], 1);
    assert_eq!(document["misplacements"][0]["actual"], 9);
    assert_eq!(
        document["misplacements"][0]["flows"],
        json!(["10.11.2.9:4000 -> 10.11.2.1:8080"])
    );
    lines.pop();
    fs::write(log, lines.join("\n")).unwrap();
    let error = refused(&both, 2);
    assert!(error.contains("ends before the capture does"), "{error}");
}

#[test]
fn reading_alone_counts_frames() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("frames.pcap");
    write_pcap(&capture);
    let output = run(&["verify", "--pcap", capture.to_str().unwrap(), "--read-only"]);
    assert_eq!(
        output.stdout,
        format!("{} frames read\n", CLIENTS.len()).as_bytes()
    );
}

#[test]
fn what_cannot_be_verified_is_refused_with_flag_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("pairs");
    fs::write(&log, "0x1 0\nring 3\n").unwrap();
    let log = log.to_str().unwrap();
    for (arguments, needed) in [
        (&["verify", "--log", log, "--queues", "4"][..], "line 2"),
        (&["verify", "--pcap", log, "--queues", "4"], "--pcap"),
        (&["verify", "--log", "absent", "--queues", "4"], "absent"),
        (&["verify", "--log", log], "--queues"),
        (&["verify", "--queues", "4"], "--log"),
        (
            &["verify", "--log", log, "--queues", "4", "--hash", "5tuple"],
            "--hash",
        ),
    ] {
        let error = refused(arguments, 2);
        assert!(error.contains(needed), "{needed}: {error}");
    }
}

#[test]
fn a_device_is_read_as_it_receives() {
    // Its loopback device carries no frames of others.
    let Some(bed) = common::bed() else {
        return;
    };
    let (mut child, from) = bed.server.run(|| {
        let to = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let from = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        let verify = "verify --dev lo --queues 4 --frames 20 --duration 1h --ignore-hash --json";
        let child = common::corelane(verify)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        (child, (from, to))
    });
    // It ends after 20 frames, or reports that it lacks the permission.
    until("the command ends", || {
        from.0.send(&[0; 4]).unwrap();
        child.try_wait().unwrap().is_some()
    });
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(77), "{output:?}");
    if output.stdout.is_empty() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let document = parsed(&output);
    assert_eq!(
        (&document["frames"], &document["misplaced"]),
        (&json!(20), &json!(0))
    );
    assert!(document["incomplete"].is_u64(), "{document}");
    // The document reports what loopback does not provide, and what is used instead.
    let rule = &document["rule_from"];
    assert_eq!(
        [&rule["key"], &rule["hash_types"], &rule["table"]],
        ["default", "default", "flag"]
    );
    assert!(
        rule["not_read"][0].as_str().unwrap().contains("rss of lo"),
        "{rule}"
    );
    let error = refused("verify --dev lo", 2);
    assert!(
        error.contains("--queues") && error.contains("rss of lo"),
        "{error}"
    );
    // Loopback has no queues: no queue can be wrong, and none is reported as right.
    assert_eq!(document["buckets"][0]["right_queue"], Value::Null);
    let error = refused("verify --dev none0 --queues 4", 2);
    assert!(error.contains("--dev") && error.contains("none0"), "{error}");
}

#[test]
fn a_capture_is_held_to_the_rule_of_a_saved_device() {
    let folder = tempfile::tempdir().unwrap();
    let (capture, host) = (
        folder.path().join("frames.pcapng"),
        folder.path().join("host.json"),
    );
    write_pcapng(&capture, HashFields::TwoTuple);
    let table: Vec<u16> = (0..128).map(|entry| entry % 4).collect();
    let key = Key::VERIFICATION.to_string();
    fs::write(&host, host_with_rss(&key, &table).to_string()).unwrap();
    let (capture, host) = (capture.to_str().unwrap(), host.to_str().unwrap());
    let verify = ["verify", "--pcap", capture, "--host", host, "--json"];
    let document = run_json(&verify);
    assert_eq!(
        (&document["frames"], &document["misplaced"]),
        (&json!(CLIENTS.len()), &json!(0))
    );
    assert_eq!((&document["key"], &document["queues"]), (&json!(key), &json!(4)));
    let from = &document["rule_from"];
    assert_eq!(
        from,
        &json!({ "key": "device", "hash_types": "device", "table": "device", "not_read": [] })
    );
    // Given options take precedence over facts of the device.
    let other = misplaced(&[&verify[..], &["--queues", "3"]].concat());
    assert_eq!(
        (&other["rule_from"]["table"], &other["rule_from"]["key"]),
        (&json!("flag"), &json!("device"))
    );
    let turned: Vec<u16> = table.iter().map(|queue| (queue + 1) % 4).collect();
    fs::write(host, host_with_rss(&key, &turned).to_string()).unwrap();
    assert_eq!(misplaced(&verify)["misplaced"], CLIENTS.len());
    let error = refused(&["verify", "--host", host, "--dev", "lo"], 2);
    assert!(error.contains("--pcap"), "{error}");
}
