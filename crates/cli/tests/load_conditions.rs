//! What every report of a generator has besides its figures: the machine, and what may have spoilt the result.

use crate::common::{Server, run, unshared};
use serde_json::Value;
use std::fs;

/// Runs a generator with a document and a page, and checks that both and the text have the conditions of the run.
fn has_conditions(load: &[&str], crosses_loopback: bool) {
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
    assert_eq!(named("offloads of lo"), crosses_loopback, "{snapshot}");

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
    has_conditions(&[&["load", "udp", &server.address][..], &count].concat(), true);
}

#[test]
fn a_generator_of_frames_reports_the_machine_and_its_conditions() {
    let folder = tempfile::tempdir().unwrap();
    let out = format!("pcap:out={}", folder.path().join("out.pcap").display());
    has_conditions(&["load", "packets", &out, "--count", "100"], false);
}

#[test]
fn the_device_that_leads_to_the_server_has_its_conditions() {
    let tried = "ip link add near type veth peer name far";
    let script = format!(
        "{tried} && ip address add 10.9.0.1/24 dev near && ip link set near up && ip link set far up || exit 99
        {} load udp 10.9.0.2:9 --count 1 --no-answers --json",
        env!("CARGO_BIN_EXE_corelane")
    );
    let Some(output) = unshared("-n", tried, &script) else {
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    let conditions = document["conditions"]["conditions"].as_array().unwrap();
    let named = |name: &str| conditions.iter().find(|condition| condition["name"] == name);
    let offloads = named("offloads of near").expect("the device of the route");
    assert!(offloads["value"].as_str().unwrap().contains("gso"), "{offloads}");
    assert!(named("offloads of lo").is_none() && named("offloads of far").is_none());
}
