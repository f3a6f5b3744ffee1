//! `report merge` adds each run once, and only documents whose counts can be.

use crate::common::{DOCUMENTS, refused, run};
use serde_json::Value;
use std::fs;

fn golden(name: &str) -> String {
    fs::read_to_string(format!("{DOCUMENTS}/load-{name}.json")).unwrap()
}

#[test]
fn counts_that_cannot_be_are_refused_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    for (kind, pointer, count) in [
        ("http", "/requests/ok", u64::MAX),
        ("http", "/pools/0/requests/ok", 0),
        ("http", "/requests/begun", 1),
        ("http", "/requests/ok_late", u64::MAX),
        ("udp", "/total/returned", u64::MAX),
        ("udp", "/total/sent", u64::MAX),
        ("memcached", "/requests/ok", u64::MAX),
        ("memcached-udp", "/total/returned", u64::MAX),
        ("tcp", "/total/opened", u64::MAX),
        ("packets", "/sent", u64::MAX),
    ] {
        let mut document: Value = serde_json::from_str(&golden(kind)).unwrap();
        fs::write(&one, golden(kind)).unwrap();
        *document
            .pointer_mut(pointer)
            .unwrap_or_else(|| panic!("{kind}{pointer}")) = count.into();
        fs::write(&other, document.to_string()).unwrap();
        let error = refused(&format!("report merge {} {}", one.display(), other.display()), 2);
        let why = format!("{}: its counts cannot be: ", other.display());
        assert!(error.contains(&why), "{kind}{pointer}: {error}");
    }
}

#[test]
fn a_file_that_is_given_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [one, copy, timeline] =
        ["one", "copy", "timeline"].map(|name| folder.path().join(name).display().to_string());
    fs::write(&one, golden("udp")).unwrap();
    fs::copy(&one, &copy).unwrap();
    let load = format!("load packets pcap:out=/dev/null --count 10 --timeline {timeline}");
    assert!(run(&load).status.success());
    for (first, second) in [(&one, &one), (&one, &copy), (&timeline, &timeline)] {
        let error = refused(&format!("report merge {first} {second}"), 2);
        let why = format!("{second}: it is the same as {first}: give each run once");
        assert!(error.contains(&why), "{error}");
    }
}
