//! What would surprise: a run that takes longer than was asked, a file that grows without a bound, frames that no link takes.

use crate::common::{DOCUMENTS, corelane, parsed, run, run_json, unshared};
use serde_json::Value;
use std::fs;

#[test]
fn packets_for_a_file_are_bounded_unless_a_bound_is_given() {
    let count = |flags: &str| {
        let plan = corelane(&format!("load packets {flags} --dry-run"))
            .output()
            .unwrap();
        let plan = parsed(&plan);
        plan["count"].clone()
    };
    assert_eq!(count("pcap:out=/dev/null"), 1_000_000);
    assert_eq!(count("ring:causes,capture=/dev/null"), 1_000_000);
    assert_eq!(count("ring:causes"), Value::Null);
    assert_eq!(count("pcap:out=/dev/null --duration 1s"), Value::Null);
    assert_eq!(count("pcap:out=/dev/null --count 7"), 7);
}

#[test]
fn opening_that_takes_longer_than_sending_is_in_the_report() {
    let saved = fs::read_to_string(format!("{DOCUMENTS}/load-udp.json")).unwrap();
    let mut document: Value = serde_json::from_str(&saved).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let mut shown = |opening_s: f64| {
        document["opening_s"] = opening_s.into();
        document["sending_s"] = 2.0.into();
        fs::write(&file, document.to_string()).unwrap();
        let text = run(&format!("report show {}", file.display())).stdout;
        String::from_utf8(text).unwrap().contains("sockets took")
    };
    assert_eq!([6.9, 1.1, 0.9].map(&mut shown), [true, true, false]);
    let loaded = run_json("load udp 127.0.0.1:9 --count 1 --no-answers --sockets 100 --json");
    assert!(loaded["opening_s"].as_f64().unwrap() > 0.0, "{loaded}");
}

/// Sends a frame of 3,000 bytes through a bridge to a device of the usual MTU, and interrupts the bridge when it has said
/// what is wrong.
const OVERSIZED: &str = "
    ip link add in0 mtu 9000 type veth peer name in1 mtu 9000 || exit 99
    ip link add out0 type veth peer name out1 || exit 99
    for device in in0 in1 out0 out1; do ip link set $device up || exit 99; done
    $program bridge --link packet:in1,stride=4096 --link packet:out0,stride=4096 --json > ended 2> said & bridge=$!
    until grep -q ethtool said || ! kill -0 $bridge; do
        $program load packets packet:in0,stride=4096 --count 1 --size 3000 > sent 2>&1 || { cat sent >&2; exit 98; }
    done
    kill -INT $bridge; wait $bridge || exit 97
    cat said";

#[test]
fn frames_that_a_device_merged_are_named_while_the_bridge_runs() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_corelane");
    let script = format!("cd {}; program={program}\n{OVERSIZED}", folder.path().display());
    let tried = "ip link add in0 type veth peer name in1";
    let Some(output) = unshared("-n", tried, &script) else {
        return;
    };
    let (said, error) = [output.stdout, output.stderr]
        .map(|text| String::from_utf8(text).unwrap())
        .into();
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(
        said.contains("not sent to packet:out0,stride=4096: ")
            && said.contains("`ethtool -K in1 gro off lro off`"),
        "{said}"
    );
}
