//! What every report of a generator has besides its figures: the machine, and what may have spoilt the result.

use crate::common::{Server, run};
use serde_json::Value;
use std::fs;

/// Runs a generator with a document and a page, and checks that both and the text have the conditions of the run.
fn has_conditions(load: &[&str], devices: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (json, html) = (file("run.json"), file("page.html"));
    let output = run(&[load, &[&format!("--json={json}"), "--html", &html]].concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let document: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();

    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let kernel = kernel.trim();
    let snapshot = &document["conditions"];
    assert!(
        snapshot["kernel"].as_str().unwrap().contains(kernel),
        "{snapshot}"
    );
    assert!(!snapshot["cpus_online"].as_array().unwrap().is_empty());
    let named = |name: &str| {
        let conditions = snapshot["conditions"].as_array().unwrap();
        conditions.iter().any(|condition| condition["name"] == name)
    };
    assert!(named("mitigations") && named("steal during"), "{snapshot}");
    for device in ["lo", "veth"] {
        let crossed = devices.contains(&device);
        assert_eq!(named(&format!("offloads of {device}")), crossed, "{snapshot}");
    }

    let page = fs::read_to_string(&html).unwrap();
    for shown in [&text, &page] {
        assert!(shown.contains(&format!("kernel {kernel}")), "{shown}");
    }
    assert!(
        text.contains("conditions, worst first") && page.contains(">steal during<"),
        "{text}"
    );
    let again = run(&["report", "show", &json]);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), text);
}

#[test]
fn a_generator_over_sockets_reports_the_machine_and_its_conditions() {
    let server = Server::start("127.0.0.1:0 --buckets 1");
    let count = ["--count", "50", "--window", "8"];
    has_conditions(&[&["load", "udp", &server.address][..], &count].concat(), &["lo"]);
}

#[test]
fn a_generator_of_frames_reports_the_machine_and_its_conditions() {
    let folder = tempfile::tempdir().unwrap();
    let out = format!("pcap:out={}", folder.path().join("out.pcap").display());
    has_conditions(&["load", "packets", &out, "--count", "100"], &[]);
}
