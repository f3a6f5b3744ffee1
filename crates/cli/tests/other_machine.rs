//! Hashes of other machines: transforms of the ends of a flow, named keys, and the output of `ethtool -x`.

use crate::common::{corelane, parsed, refused, run, run_json};
use corelane_rss::{Key, Transform, Tuple};
use std::fs::{self, File};
use std::process::Stdio;

/// The first row of the verification suite.
const FLOW: &str = "66.9.149.187:2794 161.142.100.80:1766";

const TEXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ethtool/eth0.txt");
const JSON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ethtool/eth0.json");

/// The transforms, and the 4-tuple and 2-tuple hash of [`FLOW`], computed bit by bit.
const HASHES: [(&str, &str, &str); 4] = [
    ("plain", "0x51ccc178", "0x323e8fc2"),
    ("symmetric-xor", "0xac2b58ca", "0x887bd7bc"),
    ("symmetric-or-xor", "0xa65524fa", "0x277806fe"),
    ("symmetric-sort", "0x759c4e0e", "0x323e8fc2"),
];

#[test]
fn a_transform_hashes_both_directions_alike() {
    let (source, destination) = FLOW.split_once(' ').unwrap();
    for (transform, four, two) in HASHES {
        for flow in [FLOW.to_owned(), format!("{destination} {source}")] {
            let document = run_json(&format!("hash {flow} --transform {transform} --json"));
            let is_as_given = document["hash_4tuple"] == four && document["hash_2tuple"] == two;
            assert_eq!(
                is_as_given,
                transform != "plain" || flow == FLOW,
                "{flow} {transform}"
            );
            assert_eq!(document["transform"], transform);
        }
    }
    let text = run(&format!("hash {FLOW} --transform symmetric-sort")).stdout;
    assert!(String::from_utf8(text).unwrap().ends_with(", symmetric-sort\n"));
}

#[test]
fn a_named_key_is_the_key() {
    for (name, digits) in Key::NAMED {
        let document = run_json(&format!("hash {FLOW} --key {name} --json"));
        assert_eq!(document["key"], digits, "{name}");
    }
    assert_eq!(
        run_json(&format!("hash {FLOW} --key intel --json"))["hash_4tuple"],
        HASHES[0].1
    );
    let (_, ena) = Key::NAMED.into_iter().find(|(name, _)| *name == "ena").unwrap();
    for lab in ["simulate --flows 1", "scale udp --bed loopback"] {
        let plan = run_json(&format!("lab {lab} --buckets 1 --key ena --dry-run"));
        assert!(plan.to_string().contains(ena), "{lab}: {plan}");
    }
    for verb in [
        &format!("hash {FLOW}"),
        "steer --pid 1 --port 80",
        "lab scale tcp",
        "lab simulate",
    ] {
        let error = refused(&format!("{verb} --key bnxt"), 2);
        assert!(error.contains("or give a name: intel, mlx, i40e, ena"), "{error}");
    }
}

#[test]
fn what_ethtool_shows_is_the_rule_of_every_verb_that_hashes() {
    for file in [TEXT, JSON] {
        // Hash 0xac2b58ca: entry 10 of 16 has queue 1.
        let document = run_json(&format!("hash {FLOW} --steering {file} --json"));
        let found = [
            "transform",
            "hash_4tuple",
            "entry_4tuple",
            "bucket_4tuple",
            "entry_2tuple",
            "bucket_2tuple",
        ];
        let found = found.map(|name| document[name].clone());
        let expected = serde_json::json!(["symmetric-xor", "0xac2b58ca", 10, 1, 12, 3]);
        assert_eq!(serde_json::json!(found), expected, "{file}");

        let audit = run_json(&format!(
            "key audit --steering {file} --hash 2tuple --flows 1k --json"
        ));
        assert_eq!(audit["hash_fields"], "2tuple");
        assert_eq!(
            (&audit["symmetric_ipv4"], &audit["transform"]),
            (&true.into(), &"symmetric-xor".into())
        );

        let plan = run_json(&format!(
            "plan --client 10.11.2.3 --server 10.11.2.1:80 --steering {file} --json"
        ));
        assert_eq!(
            (&plan["hash_fields"], &plan["table_size"]),
            (&"4tuple".into(), &16.into())
        );
        for bucket in plan["buckets"].as_array().unwrap() {
            let port = bucket["ports"][0].as_u64().unwrap();
            let flow = format!("10.11.2.1:80 10.11.2.3:{port}");
            let answer = run_json(&format!("hash {flow} --steering {file} --json"));
            assert_eq!(answer["bucket_4tuple"], bucket["bucket"], "{flow}");
        }
    }
    // A document says the fields; a server needs CPUs, which ethtool does not say.
    let error = refused(&format!("serve udp 127.0.0.1:0 --steering {TEXT} --dry-run"), 2);
    assert!(error.contains("ethtool -x does not say the CPUs"), "{error}");
}

#[test]
fn a_minus_is_standard_input() {
    let output = corelane(&format!("hash {FLOW} --steering - --json"))
        .stdin(Stdio::from(File::open(JSON).unwrap()))
        .output()
        .unwrap();
    let document = parsed(&output);
    assert_eq!(document["hash_4tuple"], "0xac2b58ca");
}

#[test]
fn frames_of_a_device_that_mixes_the_ends_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    for (name, ..) in HASHES {
        let transform = Transform::ALL
            .into_iter()
            .find(|transform| transform.to_string() == name)
            .unwrap();
        let path = folder.path().join(name);
        // As the device of the file steers: 4 queues, 128 entries in turn.
        crate::captures::write_mixed(&path, |tuple: &Tuple| transform.of_tuple(tuple));
        let path = path.to_str().unwrap();
        let verify = format!("verify --pcap {path} --queues 4 --hash 4tuple --json");
        let document = run_json(&format!("{verify} --transform {name}"));
        let counts = ["frames", "misplaced"].map(|count| document[count].as_u64());
        assert_eq!(counts, [Some(300), Some(0)], "{name}");
        if transform == Transform::Plain {
            continue;
        }
        // Under the plain rule, the cause is named; under this rule, that of a device that does not mix them.
        let output = run(&verify);
        let document = parsed(&output);
        assert_eq!(document["causes"][0]["cause"], name);
        let plain = folder.path().join("plain");
        let output = run(&format!(
            "verify --pcap {} --queues 4 --hash 4tuple --json --transform {name}",
            plain.display()
        ));
        let document = parsed(&output);
        assert_eq!(document["causes"][0]["cause"], "not-symmetric", "{name}");
        let inferred = run_json(&format!("infer --pcap {path} --key intel --json"));
        assert_eq!(inferred["transform"], name);
    }
    assert!(fs::metadata(folder.path().join("plain")).is_ok());
}
