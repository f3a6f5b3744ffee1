//! Hosts with little information: no NIC, no privilege, a device that disappears, an unknown driver. Every command
//! reports what is known and what is missing, and none crashes or waits for ever.

use crate::common::{program_for_anyone, refused, run, run_json, unshared};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;

/// Runs a shell line as root in a namespace of its own whose only device is loopback, which is down; `corelane` is on
/// the path. `None` after printing that no namespace is permitted.
fn alone(line: &str) -> Option<Output> {
    let program = env!("CARGO_BIN_EXE_corelane");
    let script = format!("corelane() {{ {program} \"$@\"; }}\n{line}");
    unshared("-n", "true", &script)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

#[test]
fn a_host_without_a_nic_tells_what_it_has_and_names_what_it_has_not() {
    let Some(host) = alone("corelane host --json") else {
        return;
    };
    assert_eq!(host.status.code(), Some(0), "{}", stderr(&host));
    let host = document(&host);
    let names: Vec<_> = host["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|device| &device["name"])
        .collect();
    assert_eq!(names, ["lo"]);
    for (line, code, needed) in [
        ("corelane host", 0, ""),
        ("corelane explain 127.0.0.1:1 127.0.0.1:2 --dev lo", 0, ""),
        ("corelane explain 192.0.2.1:1 192.0.2.2:2", 2, "--dev"),
        (
            "corelane explain 192.0.2.1:1 192.0.2.2:2 --dev eth0",
            2,
            "no device eth0",
        ),
        ("corelane verify --dev eth0", 2, "no device eth0"),
        ("corelane verify --dev lo", 2, "rss of lo"),
        (
            "corelane plan --dev eth0 --server 192.0.2.1 --clients 192.0.2.0/24",
            2,
            "no device eth0",
        ),
        (
            "corelane plan --dev lo --server 192.0.2.1 --clients 192.0.2.0/24",
            2,
            "rss of lo",
        ),
        (
            "corelane serve http 127.0.0.1:0 --dev eth0 --dry-run",
            2,
            "no device eth0",
        ),
    ] {
        let Some(output) = alone(line) else { return };
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{line}: {error}");
        assert!(error.contains(needed), "{line}: {error}");
    }
}

#[test]
fn without_any_privilege_what_can_be_told_is_told() {
    let bare = |line: &str| {
        alone(&format!(
            "exec setpriv --bounding-set -all --inh-caps -all {line}"
        ))
    };
    // Without privilege root may not reach a checkout of another user.
    let (_folder, program) = program_for_anyone();
    let program = program.display();
    let Some(host) = bare(&format!("{program} host --json")) else {
        return;
    };
    assert_eq!(host.status.code(), Some(0), "{}", stderr(&host));
    assert_eq!(document(&host)["devices"][0]["name"], "lo");
    for (words, code, needed) in [
        ("explain 127.0.0.1:1 127.0.0.1:2 --dev lo --json", 0, ""),
        ("verify --dev lo --queues 2 --duration 1s", 77, "CAP_NET_RAW"),
        (
            "plan --dev lo --server 192.0.2.1 --clients 192.0.2.0/24",
            2,
            "rss of lo",
        ),
    ] {
        let Some(output) = bare(&format!("{program} {words}")) else {
            return;
        };
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{words}: {error}");
        assert!(error.contains(needed), "{words}: {error}");
    }
}

/// A shell line that creates a pair of devices, v0 and v1.
const LINK: &str =
    "ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up || exit 99";

#[test]
fn a_device_that_goes_while_it_is_watched_ends_the_watch_and_what_was_seen_is_told() {
    // The device is removed once ten packet sockets, below a header line, are bound to one.
    let line = format!(
        "{LINK}
        corelane verify --dev v0 --queues 2 --duration 1h --ignore-hash --json & watch=$!
        until [ $(awk '$5 != 0' /proc/net/packet | wc -l) -gt 10 ] || ! kill -0 $watch; do :; done
        ip link del v0
        wait $watch"
    );
    let Some(output) = alone(&line) else { return };
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("v0 can no longer be read"), "{error}");
    let document = document(&output);
    assert_eq!(document["schema"], "corelane/verify/1");
    assert!(
        document["ended_because"].as_str().unwrap().contains("v0"),
        "{document}"
    );
}

#[test]
fn devices_that_come_and_go_never_keep_the_inventory_from_being_told() {
    let line = "while :; do ip link add v0 type veth peer name v1; ip link del v0; done & busy=$!
        trap 'kill $busy' EXIT
        for turn in 1 2 3 4 5 6 7 8 9 10; do corelane host --json > host || exit 98; done
        cat host";
    let folder = tempfile::tempdir().unwrap();
    let Some(output) = alone(&format!("cd {} || exit 97\n{line}", folder.path().display())) else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(document(&output)["devices"].is_array());
}

/// Writes this machine's `host --json` to a file, changed so that loopback is `odd0`: a device with two queues, an
/// unknown driver and no further facts.
fn host_of_an_odd_driver(folder: &Path) -> String {
    let mut host = run_json("host --json");
    let unknown = |what: &str| json!({ "value": null, "source": "ioctl", "unknown_because": what });
    let device = host["devices"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .find(|one| one["name"] == "lo");
    let device = device.unwrap();
    device["name"] = "odd0".into();
    device["link"]["kind"] = Value::Null;
    let mut second = device["receive_queues"][0].clone();
    second["queue"] = 1.into();
    device["receive_queues"].as_array_mut().unwrap().push(second);
    let driver = json!({ "name": "oddnic", "version": "1", "firmware": "", "bus": "0000:00:09.0" });
    device["driver"] = json!({ "value": driver, "source": "ioctl" });
    for fact in [
        "channels", "rings", "rss", "contexts", "fields", "rules", "features",
    ] {
        device[fact] = unknown("Input/output error");
    }
    let file = folder.join("host.json");
    std::fs::write(&file, host.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_driver_that_nobody_knows_and_that_tells_nothing_is_explained_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let file = &host_of_an_odd_driver(folder.path())[..];
    let ends = ["192.0.2.1:1", "192.0.2.2:2"];
    let explained = run_json(&format!(
        "explain {} {} --config {file} --dev odd0 --json",
        ends[0], ends[1]
    ));
    let steps = explained["directions"][0]["steps"].as_array().unwrap();
    let queue = steps
        .iter()
        .find(|step| step["step"] == "queue")
        .expect("a step for the queue");
    assert_eq!(queue["confidence"], "unknown", "{queue}");
    assert!(
        queue["rule"].as_str().unwrap().contains("Input/output error"),
        "{queue}"
    );
    let plan = [
        "plan",
        "--server",
        "192.0.2.1",
        "--clients",
        "192.0.2.0/24",
        "--host",
        file,
    ];
    let error = refused(&[&plan[..], &["--dev", "odd0"]].concat(), 2);
    assert!(error.contains("rss of odd0: Input/output error"), "{error}");
    let error = refused(&plan, 2);
    assert!(error.contains("no device in the document"), "{error}");
    std::fs::write(folder.path().join("pairs"), "0x1 0\n").unwrap();
    let log = folder.path().join("pairs");
    let verify = [
        "verify",
        "--log",
        log.to_str().unwrap(),
        "--host",
        file,
        "--dev",
        "odd0",
    ];
    let error = refused(&verify, 2);
    assert!(error.contains("rss of odd0: Input/output error"), "{error}");
    let judged = run(&[&verify[..], &["--queues", "2"]].concat());
    let text = String::from_utf8(judged.stdout).unwrap();
    assert!(
        text.contains("not read: rss of odd0: Input/output error"),
        "{text}"
    );
}
