//! `corelane host`: lists every device with its facts and their sources, reports missing facts as unknown, and checks
//! the host.

use crate::common;
use crate::common::{parsed, refused, run, run_json};
use corelane_host::bed::Bed;
use serde_json::Value;
use std::process::Command;

fn device<'a>(document: &'a Value, name: &str) -> &'a Value {
    let devices = document["devices"].as_array().expect("devices");
    let found = devices.iter().find(|device| device["name"] == name);
    found.unwrap_or_else(|| panic!("no device {name}"))
}

/// Collects the facts of a document that lack a source, or lack both a value and a reason.
fn facts_without_reason(path: &str, value: &Value, found: &mut Vec<String>) {
    if let Some(fields) = value.as_object() {
        let is_fact = fields.contains_key("value") && fields.contains_key("source");
        let reasons = ["absent_because", "unknown_because"];
        let explained = reasons
            .iter()
            .any(|reason| fields.get(*reason).is_some_and(Value::is_string));
        if is_fact && fields["value"].is_null() && !explained {
            found.push(path.to_owned());
        }
        for (name, inner) in fields {
            facts_without_reason(&format!("{path}.{name}"), inner, found);
        }
    }
    for inner in value.as_array().into_iter().flatten() {
        facts_without_reason(&format!("{path}[]"), inner, found);
    }
}

#[test]
fn every_fact_has_a_source_and_a_value_or_a_reason() {
    let document = run_json("host --json");
    assert_eq!(document["schema"], "corelane/host/1");
    let mut without = Vec::new();
    facts_without_reason("", &document, &mut without);
    assert!(without.is_empty(), "{without:?}");
    assert_eq!(device(&document, "lo")["link"]["kind"], "loopback");
    assert!(document["settings"]["net.core.netdev_budget"]["source"].is_string());
}

#[test]
fn the_check_lists_the_worst_first_and_fails_when_something_spoils() {
    let output = run("host --check --json");
    let document = parsed(&output);
    let spoils = document["spoils"].as_u64().expect("a count");
    assert_eq!(output.status.code(), Some(i32::from(spoils > 0)));
    let rank = |condition: &Value| match condition["severity"].as_str() {
        Some("spoils") => 0,
        Some("explains") => 1,
        _ => 2,
    };
    let ranks: Vec<i32> = document["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(rank)
        .collect();
    assert!(ranks.is_sorted(), "{ranks:?}");
    assert_eq!(ranks.iter().filter(|rank| **rank == 0).count() as u64, spoils);
}

#[test]
fn a_device_that_is_down_is_checked_only_by_name() {
    // The loopback device of a new namespace is down.
    let check = |more: &str| {
        let script = format!(
            "{} host --check --json {more}; true",
            env!("CARGO_BIN_EXE_corelane")
        );
        let output = common::unshared("-n", "true", &script)?;
        let document = parsed(&output);
        let conditions = document["conditions"].as_array().unwrap();
        let names = conditions
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned());
        let about: Vec<String> = names.filter(|name| name.ends_with(" of lo")).collect();
        Some((document["down"].clone(), about))
    };
    let Some((down, about)) = check("") else { return };
    assert!(down.as_array().unwrap().contains(&"lo".into()), "{down}");
    assert_eq!(about, [""; 0]);
    let (down, about) = check("--dev lo").unwrap();
    assert_eq!(down, serde_json::json!([]));
    assert_ne!(about, [""; 0]);
}

#[test]
fn a_device_that_is_not_there_is_refused_with_those_that_are() {
    let error = refused("host --dev no-such-device", 2);
    assert!(
        error.contains("no-such-device") && error.contains("lo"),
        "{error}"
    );
}

/// The inventory of the server's namespace; `before` is the prefix of the command.
fn inventory(bed: &Bed, before: &'static [&str]) -> Value {
    let output = bed.server.run(move || {
        let words = [before, &[env!("CARGO_BIN_EXE_corelane"), "host", "--json"]].concat();
        Command::new(words[0])
            .args(&words[1..])
            .output()
            .expect("the command starts")
    });
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("one document")
}

#[test]
fn a_server_refuses_to_follow_a_device_that_does_no_rss_and_says_what_is_in_the_way() {
    let error = refused("serve udp 127.0.0.1:0 --dev lo --dry-run", 2);
    assert!(error.contains("--dev") && error.contains("rss of lo"), "{error}");
    let error = refused("serve udp 127.0.0.1:0 --dev no-such-device --dry-run", 2);
    assert!(error.contains("no-such-device"), "{error}");
}

#[test]
fn in_a_namespace_of_its_own_the_queues_are_read_as_they_are() {
    let Some(bed) = common::bed() else { return };
    let document = inventory(&bed, &[]);
    let veth = device(&document, bed.server.device());
    assert_eq!(veth["link"]["kind"], "veth");
    assert_eq!(veth["addresses"][0], "10.11.2.1/32");
    let rps = &veth["receive_queues"][0]["rps_cpus"];
    assert!(rps["value"].is_array(), "{rps}");
}

#[test]
fn without_privilege_the_answer_is_partial_and_says_what_is_missing() {
    let Some(bed) = common::bed() else { return };
    let document = inventory(&bed, &["setpriv", "--bounding-set", "-sys_admin"]);
    let veth = device(&document, bed.server.device());
    assert_eq!(veth["link"]["kind"], "veth");
    let rps = &veth["receive_queues"][0]["rps_cpus"];
    assert!(rps["value"].is_null(), "{rps}");
    let because = rps["unknown_because"].as_str().unwrap();
    assert!(because.contains("namespace"), "{because}");
}
