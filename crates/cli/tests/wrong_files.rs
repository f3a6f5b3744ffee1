//! Input files: what is wrong with one is said with file, position and what was expected.

use crate::common::refused;
use std::fs;

/// Words of parsers and of the system, which explain nothing.
const RAW: [&str; 5] = [
    "EOF",
    "missing field",
    "fill whole buffer",
    "Error reading",
    "os error 11",
];

#[test]
fn what_is_wrong_with_a_document_is_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input").display().to_string();
    let verbs = [
        ("explain 127.0.0.1:1 127.0.0.1:2 --config", "corelane host --json"),
        ("verify --log /dev/null --host", "corelane host --json"),
        (
            "plan --server 10.0.0.1 --clients 10.0.0.0/24 --steering",
            "a steering document",
        ),
        ("report merge", "load ... --json"),
    ];
    for (verb, expected) in verbs {
        for (text, what) in [
            ("", "the file is empty"),
            ("{\"schema\":\n\"x", "line 2, column 2: the document is cut off"),
            ("hello", "line 1, column 1: this is no JSON"),
            ("{\"a\": 1}", "line 1, column 8: there is no field `schema`"),
        ] {
            fs::write(&file, text).unwrap();
            let error = refused(&format!("{verb} {file}"), 2);
            assert!(error.contains(&format!("{file}: {what}")), "{verb}: {error}");
            assert!(error.contains(expected), "{verb}: {error}");
            assert!(!RAW.iter().any(|raw| error.contains(raw)), "{verb}: {error}");
        }
    }
    for (text, what) in [
        ("{", "line 1, column 1: the document is cut off"),
        (
            "{\"a\": 1}",
            "there is no field `schema`: give a document of `--json`",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let error = refused(&format!("report show {file}"), 2);
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn what_is_wrong_with_a_capture_is_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input").display().to_string();
    let header = [
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0,
    ];
    let frame = [[0; 8], [60, 0, 0, 0, 60, 0, 0, 0]].concat();
    let endless = [&[0; 8][..], &[0xff; 8]].concat();
    let whole = [&header[..], &frame, &[0; 60], &endless].concat();
    for (bytes, what) in [
        (&b"hello"[..], "neither pcap nor pcapng"),
        (&header[..20], "the file's header: it ends too early"),
        (
            &whole[..],
            "frame 2: the file is damaged: a record of 4294967295 bytes",
        ),
    ] {
        fs::write(&file, bytes).unwrap();
        let error = refused(&format!("verify --queues 4 --pcap {file}"), 2);
        assert!(error.contains(&format!("{file}: {what}")), "{error}");
        assert!(!RAW.iter().any(|raw| error.contains(raw)), "{error}");
    }
}

#[test]
fn both_ends_of_a_ring_in_one_bridge_are_refused() {
    let error = refused("bridge --link ring:both --link ring:both,capture=x.pcap", 2);
    assert!(error.contains("ring:both is given twice"), "{error}");
}
