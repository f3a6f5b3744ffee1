//! `corelane bridge` with stages, end to end: what one run does another undoes, and every frame is in one cell.

use crate::common;
use corelane_link::capture::CaptureWriter;
use corelane_packet::checksum::internet;
use serde_json::Value;

/// A folder with a capture of datagrams of 1,400 bytes.
fn capture() -> (tempfile::TempDir, Vec<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.pcap").display().to_string();
    common::run_json(&[
        "load",
        "packets",
        &format!("pcap:out={path}"),
        "--count",
        "500",
        "--size",
        "1400",
        "--sources",
        "10.0.0.0/24",
        "--json",
    ]);
    let frames = common::frames(&path);
    (folder, frames)
}

/// A capture of the frames of another that may be fragmented, each with an identification of its own (RFC 6864).
fn may_be_cut(folder: &tempfile::TempDir, frames: &mut [Vec<u8>]) {
    let path = folder.path().join("may-be-cut.pcap");
    let mut writer = CaptureWriter::create(&path).unwrap();
    for (number, frame) in (0u16..).zip(frames) {
        frame[18..20].copy_from_slice(&number.to_be_bytes());
        (frame[20], frame[24], frame[25]) = (0, 0, 0);
        let checksum = internet(&frame[14..34]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        let time = 1_700_000_000_000_000_000 + u64::from(number);
        writer.write(time, frame.len() as u32, frame).unwrap();
    }
    writer.flush().unwrap();
}

/// Bridges one capture of the folder to another; returns the report and the frames.
fn bridge(folder: &tempfile::TempDir, from: &str, to: &str, flags: &str) -> (Value, Vec<Vec<u8>>) {
    let path = |name: &str| folder.path().join(name).display().to_string();
    let bridged = common::run_json(&format!(
        "bridge --link pcap:{} --link pcap:out={} {flags} --json",
        path(from),
        path(to)
    ));
    let of = |name: &str| bridged[name].as_u64().unwrap();
    let dropped: u64 = bridged["dropped"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum();
    let cells = of("passed") + dropped + of("used") + of("held");
    assert_eq!(of("received") + of("made"), cells, "{bridged}");
    (bridged, common::frames(&path(to)))
}

#[test]
fn what_is_fragmented_is_reassembled_in_any_number_of_buckets() {
    let (folder, mut frames) = capture();
    may_be_cut(&folder, &mut frames);
    let (bridged, fragments) = bridge(&folder, "may-be-cut.pcap", "cut.pcap", "--fragment 600");
    assert_eq!(fragments.len(), 1500);
    assert_eq!(
        (&bridged["stages"]["fragment"]["cut"], &bridged["made"]),
        (&Value::from(500), &Value::from(1500))
    );
    for (number, buckets) in [
        "",
        "--buckets 3 --dispatch limit=4096",
        "--buckets 3 --hash 4tuple --dispatch limit=4096",
    ]
    .into_iter()
    .enumerate()
    {
        let out = format!("whole{number}.pcap");
        let (bridged, mut whole) = bridge(&folder, "cut.pcap", &out, &format!("--reassemble {buckets}"));
        let counts = &bridged["stages"]["reassemble"];
        assert_eq!(
            (&counts["fragments"], &counts["datagrams"]),
            (&Value::from(1500), &Value::from(500))
        );
        let mut expected = frames.clone();
        if number > 0 {
            // Flows keep their order; those of different buckets need not.
            expected.sort();
            whole.sort();
        }
        assert!(whole == expected, "{buckets}");
        match number {
            0 => assert_eq!(counts["rehashed"], 0),
            // The default fields hash no ports of UDP, so nothing moves.
            1 => assert_eq!(
                (&counts["reused"], &counts["rehashed"]),
                (&Value::from(500), &Value::from(0))
            ),
            _ => {
                let of = |name: &str| counts[name].as_u64().unwrap();
                assert_eq!((of("reused"), of("rehashed")), (0, 500));
                assert_eq!(of("kept") + of("handed_over"), 500);
                assert!(of("kept") > 50 && of("handed_over") > 50, "{counts}");
            }
        }
    }
}

#[test]
fn what_is_encapsulated_is_decapsulated() {
    let (folder, frames) = capture();
    let tunnel = "local=192.0.2.1,remote=192.0.2.2";
    for (kind, flags) in [
        ("vxlan", format!("--encapsulate vxlan,vni=7,{tunnel}")),
        ("gre", format!("--encapsulate gre,{tunnel}")),
        (
            "ipip",
            format!("--encapsulate ipip,df=unset,{tunnel} --fragment 1000"),
        ),
    ] {
        let (wrapped, name) = (format!("{kind}.pcap"), format!("{kind}-out.pcap"));
        let (bridged, _) = bridge(&folder, "in.pcap", &wrapped, &flags);
        assert_eq!(bridged["stages"]["encapsulate"]["encapsulated"], 500);
        let flags = "--reassemble --decapsulate --buckets 2 --hash 4tuple --dispatch limit=4096";
        let (bridged, mut unwrapped) = bridge(&folder, &wrapped, &name, flags);
        assert_eq!(bridged["stages"]["decapsulate"][kind], 500);
        let mut expected = frames.clone();
        expected.sort();
        unwrapped.sort();
        assert!(unwrapped == expected, "{kind}");
        // One tunnel is one flow; its inner flows are spread.
        assert!(
            bridged["stages"]["decapsulate"]["handed_over"].as_u64().unwrap() > 50,
            "{bridged}"
        );
    }
}

#[test]
fn settings_are_read_and_refused_by_the_name_of_their_flag() {
    let links = "--link ring:left --link ring:right --duration 1ms";
    for (flags, message) in [
        (
            "--reassemble=overlap_ipv6=trim",
            "--reassemble: unknown variant `trim`",
        ),
        ("--reassemble=memory=1parsec", "--reassemble: "),
        (
            "--fragment 20",
            "--fragment: an MTU of 20 bytes: IPv4 needs 68 at least",
        ),
        (
            "--encapsulate vxlan,local=::1,remote=192.0.2.1,vni=1",
            "both ends must be IPv4, or both IPv6",
        ),
        (
            "--segment",
            "--segment: there are no merged segments to cut: add coalesce",
        ),
        ("--coalesce", "stride of"),
    ] {
        let refused = common::refused(&format!("bridge {links} {flags}"), 2);
        assert!(refused.contains(message), "{flags}: {refused}");
    }
    let plan = common::run_json(&format!(
        "bridge {links} --reassemble=memory=1MiB,timeout=2s --coalesce --segment --dry-run"
    ));
    assert_eq!(plan["stages"]["reassemble"]["memory"], 1 << 20);
    assert_eq!(plan["stages"]["reassemble"]["timeout"], 2.0);
    assert_eq!(plan["burst"], 4096, "a batch of segments is as large as can be");
    let plan = common::run_json(&format!("bridge {links} --dry-run"));
    assert_eq!(plan["burst"], 1024);
}

#[test]
fn the_documents_of_a_generator_bridges_and_a_receiver_join() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let run = |command: &str, json: &str| {
        let output = common::run(&format!("{command} --json={}", path(json)));
        assert!(output.status.success(), "{command}: {output:?}");
    };
    let [whole, cut, made] = ["whole.pcap", "cut.pcap", "made.pcap"].map(path);
    run(
        &format!("load packets pcap:out={whole} --count 500 --size 1400 --sources 10.0.0.0/24"),
        "load",
    );
    run(
        &format!(
            "bridge --link pcap:{whole},drop=2%,duplicate=2%,seed=3 --link pcap:out={cut} --fragment 1000 \
             --encapsulate ipip,local=192.0.2.1,remote=192.0.2.2,df=unset"
        ),
        "cut",
    );
    run(
        &format!(
            "bridge --link pcap:{cut},drop=2%,seed=4 --link pcap:out={made},duplicate=2%,faults=sent --reassemble \
             --decapsulate --buckets 4 --dispatch limit=16"
        ),
        "made",
    );
    run(&format!("serve packets pcap:{made},drop=2%,seed=5"), "serve");
    let [load, cut, made, serve] = ["load", "cut", "made", "serve"].map(path);
    let join = format!("report join {load} {cut} {made} {serve} --json --fail-if");
    let mut arguments: Vec<&str> = join.split_whitespace().collect();
    arguments.push("unexplained > 0");
    let joined = common::run_json(&arguments[..]);
    assert_eq!(joined["schema"], "corelane/joined/1");
    let cells = |name: &str| -> u64 {
        let parts = joined["parts"].as_array().unwrap().iter();
        let cells = parts.flat_map(|part| part[name].as_object().unwrap().values());
        cells.map(common::number).sum()
    };
    assert_eq!(500 + cells("added"), cells("ended"), "{joined}");
    let part = |place: usize, cell: &str| common::number(&joined["parts"][place]["ended"][cell]);
    let pieces = common::number(&joined["parts"][1]["added"]["made by stages"]);
    assert_eq!(2 * part(1, "used by stages"), pieces, "{joined}");
    assert!(part(2, "dropped, reassemble_ended") > 0, "{joined}");
    // The second bridge received more than the generator sent.
    let impossible = common::run(&format!("report join {load} {made} {serve}"));
    assert_eq!(impossible.status.code(), Some(1), "{impossible:?}");
    let error = String::from_utf8_lossy(&impossible.stderr);
    assert!(error.contains("more frames entered bridge"), "{error}");
    let error = common::refused(&format!("report join {load} {serve} {cut}"), 2);
    assert!(error.contains("corelane/bridge/1"), "{error}");
    assert_eq!(
        common::run(&format!("report join {load} {serve}")).status.code(),
        Some(0)
    );
}
