//! `corelane infer` as a user runs it, with generated samples of a device.

use crate::common::{parsed, refused, run, run_json};
use corelane_rss::{HashFields, Key, Toeplitz, Tuple};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Key given to the devices.
const GIVEN: &str = "c135f2a96e0b47d8812e9f5c3a60d7b4e81f4c96a2d35b70f9168ae34dc25b07961fe8a3d54c720b";

/// Samples of a device that hashes TCP/IPv4 4-tuples with `key` and an initial value, and whose table repeats eight
/// queues.
pub fn samples(key: &Key, initial: u32, count: u32, show_hash: bool) -> String {
    let toeplitz = Toeplitz::new(key);
    let mut random = fastrand::Rng::with_seed(3);
    let mut end = || SocketAddr::from((Ipv4Addr::from(random.u32(..)), random.u16(..)));
    let lines = (0..count).map(|_| {
        let tuple = Tuple::new(end(), end()).unwrap();
        let hash = toeplitz.hash(&tuple, HashFields::FourTuple) ^ initial;
        let shown = if show_hash {
            format!("{hash:#010x}")
        } else {
            "-".to_owned()
        };
        format!(
            "{} {} tcp {shown} {}\n",
            tuple.source(),
            tuple.destination(),
            hash % 8
        )
    });
    lines.collect()
}

/// Writes the samples to a file, which exists as long as the folder.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples");
    fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn a_device_that_reverses_its_key_and_starts_from_ones_is_found_out() {
    let mut reversed = GIVEN.parse::<Key>().unwrap().as_bytes().to_vec();
    reversed.reverse();
    let reversed = Key::from_bytes(&reversed).unwrap();
    let (_folder, path) = file(&samples(&reversed, u32::MAX, 300, true));
    let document = run_json(&format!(
        "infer --samples {} --key {GIVEN} --json",
        path.to_str().unwrap()
    ));
    assert_eq!(document["schema"], "corelane/infer/1");
    assert_eq!(document["verdict"], "settled");
    assert_eq!(document["relation"], "bytes-reversed");
    assert_eq!(document["initial_value"], "0xffffffff");
    assert_eq!(document["transform"], "plain");
    assert_eq!(document["kinds"][0]["kind"], "IPv4 TCP");
    assert_eq!(document["kinds"][0]["hashed"].as_array().unwrap().len(), 4);
    assert_eq!(document["table"]["period"], 8);
    // The hash of an IPv4 4-tuple uses the first 127 bits of the key, so only these are settled.
    assert_eq!(document["key_bits_settled"], serde_json::json!([[0, 126]]));
    assert_eq!(
        document["key"].as_str().unwrap()[..30],
        reversed.to_string()[..30]
    );
}

#[test]
fn queues_that_no_table_gives_are_said_and_exit_with_1() {
    let key = GIVEN.parse::<Key>().unwrap();
    let text = samples(&key, 0, 500, true);
    // The queue follows the number of the sample, not the hash.
    let lines = (0..).zip(text.lines()).map(|(number, line): (u32, &str)| {
        let (rest, _) = line.rsplit_once(' ').unwrap();
        format!("{rest} {}\n", number * 7 % 5)
    });
    let (_folder, path) = file(&lines.collect::<String>());
    let output = run(&["infer", "--samples", path.to_str().unwrap()]);
    let [text, error] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        text.contains("no indirection table of up to 4,096 entries gives these queues\n"),
        "{text}"
    );
    assert!(
        error.contains("a rule for single flows (ntuple, aRFS)"),
        "{error}"
    );
    let output = run(&["infer", "--samples", path.to_str().unwrap(), "--json"]);
    let document = parsed(&output);
    assert_eq!(document["verdict"], "no-table-fits");
    assert!(
        document["key"].is_string() && document["table"].is_null(),
        "{document}"
    );
}

#[test]
fn queues_are_enough_with_the_key_and_say_so_without() {
    let key = GIVEN.parse::<Key>().unwrap();
    let (_folder, path) = file(&samples(&key, 0, 500, false));
    let path = path.to_str().unwrap();
    let document = run_json(&["infer", "--samples", path, "--key", GIVEN, "--json"]);
    assert_eq!(
        (&document["relation"], &document["table"]["period"]),
        (&Value::from("same"), &Value::from(8))
    );
    let output = run(&["infer", "--samples", path, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let document = parsed(&output);
    assert_eq!(document["verdict"], "not-enough");
    assert_eq!(document["key_bits_settled"], serde_json::json!([[29, 126]]));
}

#[test]
fn too_few_samples_are_not_guessed_from() {
    let key = GIVEN.parse::<Key>().unwrap();
    let (_folder, path) = file(&samples(&key, 0, 3, true));
    let output = run(&["infer", "--samples", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("not enough: more samples of IPv4 TCP"), "{error}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("key"), "{text}");
    assert!(!text.contains('\u{2026}'), "nothing is cut into a pipe: {text}");
}

#[test]
fn a_few_samples_that_contradict_the_others_are_named_and_set_aside_when_asked() {
    let key = GIVEN.parse::<Key>().unwrap();
    let mut lines: Vec<String> = samples(&key, 0, 300, true).lines().map(str::to_owned).collect();
    for wrong in [16, 199] {
        let mut words: Vec<&str> = lines[wrong].split(' ').collect();
        words[3] = "0x00bad001";
        lines[wrong] = words.join(" ");
    }
    let (_folder, path) = file(&lines.join("\n"));
    let path = path.to_str().unwrap();
    let output = run(&["infer", "--samples", path]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("2 of 300 contradict the others (number 17, 200): --set-aside 2 infers"),
        "{error}"
    );
    let document = run_json(&["infer", "--samples", path, "--set-aside", "2", "--json"]);
    assert_eq!(document["verdict"], "settled");
    assert_eq!(document["set_aside"], serde_json::json!([16, 199]));
    assert_eq!(document["key"].as_str().unwrap()[..30], GIVEN[..30]);
    let text = String::from_utf8(run(&["infer", "--samples", path, "--tolerate", "5"]).stdout).unwrap();
    assert!(text.contains("set aside: sample 200"), "{text}");
    assert!(!text.contains('\u{2026}'), "nothing is cut into a pipe: {text}");
    assert_eq!(
        run(&["infer", "--samples", path, "--set-aside", "1"])
            .status
            .code(),
        Some(1)
    );
}

#[test]
fn lines_that_are_no_samples_are_refused_where_they_stand() {
    for (line, needed) in [
        ("10.0.0.1:1 10.0.0.2:2 sctp 0x1", "sctp"),
        ("10.0.0.1 10.0.0.2:2 tcp 0x1", "10.0.0.1"),
        ("10.0.0.1:1 10.0.0.2:2 tcp 1g", "1g"),
        ("10.0.0.1:1 10.0.0.2:2 tcp - -1", "-1"),
        ("10.0.0.1:1 [::1]:2 tcp 0x1", "families"),
    ] {
        let (_folder, path) = file(&format!("# a comment\n{line}\n"));
        let error = refused(&["infer", "--samples", path.to_str().unwrap()], 2);
        assert!(
            error.contains("line 2") && error.contains(needed),
            "{needed}: {error}"
        );
    }
}
