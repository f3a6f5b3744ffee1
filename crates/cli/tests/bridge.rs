//! `corelane bridge` end to end: captures through tables, rejected arguments, signals, Prometheus metrics, and devices
//! left as they were.

use crate::common;
use crate::scrape::Exposing;
use corelane_host::bed::Bed;
use corelane_link::capture::CaptureWriter;
use corelane_tests::until;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A UDP datagram from `source`, as a frame.
fn frame(source: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![0x02; 12];
    frame.extend([0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(source.octets());
    frame.extend([192, 0, 2, 1, 0x13, 0x88, 0x13, 0x89, 0, 26, 0, 0]);
    frame.resize(60, 0);
    frame
}

fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let mut writer = CaptureWriter::create(path).unwrap();
    for (number, frame) in (0u64..).zip(frames) {
        writer
            .write(1_700_000_000_000_000_000 + number, frame.len() as u32, frame)
            .unwrap();
    }
    writer.flush().unwrap();
}

#[test]
fn a_capture_passes_a_block_list_and_the_report_accounts_for_every_frame() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let frames: Vec<Vec<u8>> = (0..5000u32)
        .map(|number| frame(Ipv4Addr::from(0x0a00_0000 + number % 500)))
        .collect();
    write_capture(Path::new(&path("in.pcap")), &frames);
    fs::write(path("list"), "# two ranges\n10.0.0.0/26 3\n10.0.1.7\n").unwrap();
    let bridged = common::run_json(&format!(
        "bridge --link pcap:{} --link pcap:out={} --table {} --match src --json",
        path("in.pcap"),
        path("out.pcapng"),
        path("list")
    ));
    let passing: Vec<Vec<u8>> = frames
        .iter()
        .filter(|frame| {
            let source = u32::from_be_bytes(frame[26..30].try_into().unwrap()) - 0x0a00_0000;
            source >= 64 && source != 0x107
        })
        .cloned()
        .collect();
    assert_eq!(common::frames(&path("out.pcapng")), passing);
    assert_eq!(bridged["schema"], "corelane/bridge/1");
    assert_eq!(bridged["received"], 5000);
    assert_eq!(bridged["passed"], passing.len());
    assert_eq!(bridged["dropped"]["table"], 5000 - passing.len());
    assert_eq!(bridged["tables"][0]["rules"]["3"], 640);
    assert_eq!(bridged["tables"][0]["rules"]["0"], 10);
    assert_eq!(bridged["links"][1]["sent"], passing.len());
}

#[test]
fn faults_of_its_links_are_what_the_receiver_finds_and_what_the_report_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let input = format!("pcap:out={}", path("in.pcap"));
    common::run_json(&["load", "packets", &input, "--count", "5k", "--json"]);
    let from = format!(
        "pcap:{},capture={},drop=10%,delay=5ms,seed=2",
        path("in.pcap"),
        path("seen.pcap")
    );
    let to = format!(
        "pcap:out={},capture={},drop=10%,duplicate=10%,reorder=5%,faults=sent,seed=4",
        path("out.pcapng"),
        path("sent.pcapng")
    );
    let bridge = |more: &[&str]| common::run(&[&["bridge", "--link", &from, "--link", &to], more].concat());
    let bridged: Value = serde_json::from_slice(&bridge(&["--json"]).stdout).unwrap();
    let out = path("out.pcapng");
    let received = common::run_json(&["serve", "packets", &format!("pcap:{out}"), "--json"]);
    let fault = |link: usize, name: &str| common::number(&bridged["links"][link]["faults"][name]);
    let dropped = fault(0, "dropped") + fault(1, "dropped");
    assert!((800..1200).contains(&dropped), "{bridged}");
    // With these seeds the last frame is not dropped: the receiver counts up to the last frame that arrived.
    assert_eq!(received["total"]["lost"], dropped, "{bridged}\n{received}");
    assert_eq!(received["total"]["duplicated"], fault(1, "duplicated"));
    // A frame that arrives twice is overtaken once.
    assert_eq!(received["total"]["reordered"], fault(1, "reordered"));
    assert_eq!(bridged["received"], 5000 - fault(0, "dropped"));
    assert_eq!(fault(0, "delayed"), 5000 - fault(0, "dropped"));
    assert_eq!(
        bridged["links"][1]["sent"],
        5000 - dropped + fault(1, "duplicated")
    );
    assert_eq!((fault(0, "held"), fault(1, "held")), (0, 0));
    assert!(common::frames(&path("seen.pcap")) == common::frames(&path("in.pcap")));
    assert!(common::frames(&path("sent.pcapng")) == common::frames(&out));

    let text = String::from_utf8(bridge(&[]).stdout).unwrap();
    let line = format!(
        "faults of {from}: delayed {}, dropped {}\n",
        fault(0, "delayed"),
        fault(0, "dropped")
    );
    assert!(
        text.replace(',', "").contains(&line.replace(',', "")),
        "{line}{text}"
    );
    let plain = common::run_json(&format!(
        "bridge --link pcap:{out} --link pcap:out=/dev/null --json"
    ));
    assert!(plain["links"][0]["faults"].is_null(), "{plain}");
}

#[test]
fn two_links_cannot_be_captured_into_one_file() {
    let [a, b] = ["ring:a,capture=one.pcap", "ring:b,capture=one.pcap"];
    let refusal = common::refused(&["bridge", "--link", a, "--link", b], 2);
    assert!(
        refusal.contains("--link: one.pcap: the file is also written by --link: give another name"),
        "{refusal}"
    );
}

#[test]
fn a_device_is_bridged_with_another_device_only() {
    for other in ["packet:lo", "xdp:lo"] {
        let refusal = common::refused(&["bridge", "--link", "packet:lo", "--link", other], 2);
        let named = format!("the device of {other} is given twice");
        assert!(refusal.contains(&named), "{refusal}");
    }
}

/// Makes pairs of devices in a namespace, and runs a script there; its output, or `None` if such devices cannot be made.
fn with_pairs(pairs: &[&str], script: &str) -> Option<Output> {
    let make = |pair: &&str| {
        format!(
            "ip link add {pair}0 type veth peer name {pair}1 && ip link set {pair}0 up && ip link set {pair}1 up"
        )
    };
    let make = pairs.iter().map(make).collect::<Vec<_>>().join(" && ");
    common::unshared("-n", &make, &format!("{make} && exec bash -c '{script}'"))
}

#[test]
fn a_loop_between_two_links_ends_the_bridge_and_is_named() {
    let program = env!("CARGO_BIN_EXE_corelane");
    let direct = format!("{program} bridge --link packet:a0 --link packet:a1");
    let Some(output) = with_pairs(&["a"], &direct) else {
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("come back from packet:a") && error.contains("sent to packet:a"),
        "{error}"
    );
    // Through another bridge: one of both finds it first, and then there is no loop.
    let [one, other] =
        [0, 1].map(|end| format!("{program} bridge --link packet:a{end} --link packet:b{end}"));
    let both = format!("{one} & {other} & wait -n; code=$?; kill %1 %2; wait; exit $code");
    let output = with_pairs(&["a", "b"], &both).expect("it worked before");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("which makes a loop"), "{error}");
}

#[test]
fn what_is_wrong_is_refused_by_flag_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.txt").display().to_string();
    fs::write(&list, "10.0.0.1\n10.0.0.300\n").unwrap();
    let rings = "bridge --link ring:refused-a --link ring:refused-b";
    let refused = |more: &str| common::refused(&format!("{rings} {more}"), 2);
    let line = refused(&format!("--table {list}"));
    assert!(
        line.contains("--table:") && line.contains("list.txt: line 2") && line.contains("10.0.0.300"),
        "{line}"
    );
    assert!(refused("--table absent.txt").contains("absent.txt"));
    let uneven = refused(&format!(
        "--table {list} --table {list} --table {list} --match src --match dst"
    ));
    assert!(uneven.contains("--match: 2 are given for 3 tables"), "{uneven}");
    assert!(refused("--workers 2 --cpus 0").contains("--workers"));
    assert!(refused("--metrics 192.0.2.1:9100").contains("192.0.2.1:9100"));
    assert!(common::refused("bridge --link ring:one", 2).contains("two links"));
    assert!(common::refused("bridge --link ring:a --link wire:b", 2).contains("names no link"));
    assert!(common::refused("bridge --link ring:a --link packet:absent0", 2).contains("no device absent0"));

    let plan = common::run_json(&format!("{rings} --table {list} --on-match count --dry-run"));
    assert_eq!(plan["tables"][0]["on_match"], "count");
}

#[test]
fn without_permission_a_device_is_refused_by_what_it_needs() {
    /// The user `nobody`.
    const NOBODY: u32 = 65_534;
    let (_folder, program) = common::program_for_anyone();
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    for (link, needs) in [
        ("xdp:lo", "CAP_BPF"),
        ("packet:lo", "CAP_NET_RAW"),
        ("tap:denied0", "CAP_NET_ADMIN"),
    ] {
        let mut bridge = Command::new(&program);
        bridge
            .args(["bridge", "--link", link, "--link", "ring:denied"])
            .current_dir("/");
        // Only root can change its user; any other user already lacks the permission.
        if is_root {
            bridge.uid(NOBODY).gid(NOBODY);
        }
        let output = bridge.output().expect("the command starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(77), "{link}: {error}");
        for part in [link, "not permitted", needs, "run as root"] {
            assert!(error.contains(part), "{link}, {part}: {error}");
        }
    }
}

#[test]
fn a_hangup_reads_tables_again_and_prometheus_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list").display().to_string();
    fs::write(&list, "10.0.0.1\n").unwrap();
    let links = "--link ring:hangup-a --link ring:hangup-b";
    let running = Exposing::start(&format!("bridge {links} --table {list} --no-reload"));
    let entries = |number: u32| format!("corelane_bridge_table_entries{{table=\"{list}\"}} {number}\n");
    assert!(running.scrape().contains(&entries(1)));
    fs::write(&list, "10.0.0.1\n10.0.0.2\n").unwrap();
    common::signal(running.process.id(), "HUP");
    until("the table is read again", || {
        running.scrape().contains(&entries(2))
    });
    assert!(running.scrape().contains("outcome=\"taken\"} 2\n"));
}

/// For each device in the server's namespace: its name, whether an XDP program is attached, and its promiscuity count.
fn facts(bed: &Bed) -> Vec<(String, bool, u64)> {
    let shown = bed.server.run(|| {
        Command::new("ip")
            .args(["-json", "-details", "link", "show"])
            .output()
            .unwrap()
    });
    let links: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let fact = |link: &Value| {
        let name = link["ifname"].as_str().unwrap().to_owned();
        (
            name,
            link["xdp"].is_object(),
            link["promiscuity"].as_u64().unwrap_or(0),
        )
    };
    links.as_array().unwrap().iter().map(fact).collect()
}

#[test]
fn killed_it_leaves_nothing_on_the_device() {
    let Some(bed) = common::bed() else {
        return;
    };
    if Command::new("ip").arg("-V").output().is_err() {
        eprintln!("skipped: the ip command is missing");
        return;
    }
    let before = facts(&bed);
    let mut running = bed.server.run(|| {
        common::corelane("bridge --link xdp:server0 --link tap:killed0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let mut line = String::new();
    BufReader::new(running.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    if !line.starts_with("bridging") {
        return common::skip_without_permission(running);
    }
    let during = facts(&bed);
    let bridged: Vec<&(String, bool, u64)> = during
        .iter()
        .filter(|(_, xdp, promiscuity)| *xdp && *promiscuity > 0)
        .collect();
    assert_eq!(bridged.len(), 1, "{during:?}");
    assert!(during.iter().any(|(name, _, _)| name == "killed0"), "{during:?}");
    running.kill().unwrap();
    running.wait().unwrap();
    // The kernel removes the resources of an ended process asynchronously.
    until("the devices are as before", || facts(&bed) == before);
}
