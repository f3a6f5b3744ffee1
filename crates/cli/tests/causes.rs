//! Errors state the cause and what to do.

use crate::common::{DOCUMENTS, refused, run};
use crate::scrape::Exposing;
use serde_json::{Value, json};
use std::fs;

/// Checks that each command is refused (2) with these words.
fn explained(cases: &[(&str, &[&str])]) {
    for (command, needed) in cases {
        let error = refused(*command, 2);
        for words in *needed {
            assert!(error.contains(words), "{command}: {error}");
        }
    }
}

#[test]
fn a_word_that_is_wrong_is_answered_with_the_one_that_was_meant() {
    explained(&[
        ("lab scale upd", &["no 'upd': did you mean 'udp'?"]),
        ("lba", &["no 'lba': did you mean 'lab'?"]),
        ("load htpp http://127.0.0.1:1/", &["did you mean 'http'?"]),
        ("lab scale xyzzy", &["no 'xyzzy': there are udp, http, tcp"]),
        (
            "load udp 127.0.0.1:9 --duration -1s",
            &["--duration: -1s is negative: give 0 or more"],
        ),
        ("serve udp 127.0.0.1:0 -d -1", &["-d: -1 is negative"]),
        ("load udp 127.0.0.1:9 --duration=-1s", &["'-1s'"]),
        ("steer --pid abc --port 80", &["give a process id, such as 1234"]),
        (
            "steer --pid 1 --port abc",
            &["'abc' for '--port <PORT>': give a whole number"],
        ),
        (
            "load http http://127.0.0.1:1/ --workers x",
            &["'x' for '--workers <N>': give a whole number"],
        ),
        (
            "plan --server 10.0.0.1 --client x",
            &["give an address, such as 192.0.2.1 or 2001:db8::1"],
        ),
        (
            "load udp 127.0.0.1:9 --json run.json",
            &["write --json=run.json if it is the value of --json"],
        ),
        (
            "load udp --json run.json 127.0.0.1:9",
            &["write --json=run.json if it is the value of --json"],
        ),
        (
            "host --json run.json",
            &["write --json=run.json if it is the value of --json"],
        ),
        (
            "serve udp --rebalance 5",
            &["write --rebalance=5 if it is the value of --rebalance"],
        ),
    ]);
    // The words of clap, where they say it.
    explained(&[
        ("load udp 127.0.0.1:9 --json --nonsense", &["'--nonsense'"]),
        ("load udp 127.0.0.1:9 -3", &["'-3'"]),
        ("load udp 127.0.0.1:9 --gro -3", &["unexpected argument '-3'"]),
    ]);
}

#[test]
fn addresses_that_cannot_do_what_is_asked_are_named_with_the_reason() {
    explained(&[
        (
            "plan --server ::1 --clients 10.0.0.0/24",
            &["--clients: 10.0.0.0/24 has no address of the family of ::1"],
        ),
        (
            "plan --server 10.0.0.1 --clients 10.0.0.1",
            &["--clients: 10.0.0.1 is the server itself: give other addresses"],
        ),
        (
            "key audit --server [::1]:80 --clients 10.0.0.0/24",
            &["--clients: 10.0.0.0/24 has no address of the family of ::1"],
        ),
        (
            "verify --log /dev/null --queues 4 --server ::1 --clients 10.0.0.0/24",
            &["--clients: 10.0.0.0/24 has no address of the family of ::1"],
        ),
        (
            "load udp [2001:db8::1]:9 --sources 10.0.0.0/24 --dry-run",
            &["--sources: the source pool 10.0.0.0/24 has no address of the family of 2001:db8::1"],
        ),
        (
            "load udp 10.0.0.1:9 --sources 10.0.0.1 --dry-run",
            &["--sources: the source pool has 10.0.0.1 only, which is the target itself"],
        ),
        (
            "load udp 255.255.255.255:9",
            &[
                "TARGET: 255.255.255.255:9 is a broadcast address",
                "give the address of one host",
            ],
        ),
        (
            "load udp 255.255.255.255:9 --sockets 100k --dry-run",
            &["TARGET: 255.255.255.255:9 is a broadcast address"],
        ),
        (
            "load udp 127.0.0.1:9 --sources 198.51.100.0/24",
            &[
                "--sources: ",
                "addresses are not this host's own, the first is 198.51.100.1: `ip route add local PREFIX",
            ],
        ),
    ]);
}

#[test]
fn devices_folders_and_inputs_that_are_not_there_are_named_with_what_to_give() {
    explained(&[
        (
            "serve udp 198.51.100.9:8080 --duration 1s",
            &[
                "ADDRESS: no device has the address 198.51.100.9:8080",
                "(--free-bind)",
            ],
        ),
        (
            "serve udp --watch nodev0 --dry-run",
            &["--watch: there is no device nodev0: there are "],
        ),
        (
            "load packets tap:averyveryverylongname",
            &["'averyveryverylongname' is no name of a device: it has 1 to 15 bytes"],
        ),
        (
            "bridge --link packet:a/b --link ring:causes",
            &["'a/b' is no name of a device"],
        ),
        (
            "lab scale http --connections 100M --table-size 4 --dry-run",
            &[
                "--connections: 100,000,000 need ",
                "the table has 4 entries",
                "--table-size up to 4096",
            ],
        ),
        (
            "serve http 127.0.0.1:0 --root /nonexistent",
            &["--root: /nonexistent: No such file or directory"],
        ),
        (
            "serve http 127.0.0.1:0 --root /dev/null",
            &["--root: /dev/null: Not a directory"],
        ),
        (
            "plan --dev lo --server 192.0.2.1 --clients 192.0.2.0/24",
            &["rss of lo: ", "(--steering)", "`corelane infer`"],
        ),
        (
            "serve http 127.0.0.1:0 --dev lo --dry-run",
            &["rss of lo: ", "(--steering)"],
        ),
        ("verify", &["--log <FILE>", "--pcap <FILE>", "--dev <DEVICE>"]),
        ("verify --duration 5s", &["--log <FILE>"]),
    ]);
    let error = refused("verify --duration 5s", 2);
    assert!(!error.contains("--count"), "{error}");
}

#[test]
fn documents_that_cannot_be_used_are_named_with_their_kind() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, document: &Value| {
        let path = folder.path().join(name);
        fs::write(&path, document.to_string()).unwrap();
        path.display().to_string()
    };
    let later = file(
        "later",
        &json!({ "schema": "corelane/steering/99", "hash_key": "00" }),
    );
    let error = refused(
        &format!("plan --server 10.0.0.1 --clients 10.0.0.0/24 --steering {later}"),
        2,
    );
    let reads = "its schema is corelane/steering/99, and this corelane reads corelane/steering/1";
    assert!(error.contains(reads), "{error}");
    let later = file("later", &json!({ "schema": "corelane/host/99" }));
    let error = refused(&format!("explain 10.0.0.1:1 10.0.0.2:2 --config {later}"), 2);
    let reads =
        "its schema is corelane/host/99, and this corelane reads corelane/host/1: give a document written by";
    assert!(error.contains(reads), "{error}");
    let error = refused("hash 10.0.0.1 10.0.0.2 --steering /nonexistent", 2);
    assert!(
        error.contains("--steering: /nonexistent: No such file"),
        "{error}"
    );
    let [models, scale] = ["simulate", "scale-udp"].map(|name| format!("{DOCUMENTS}/{name}.json"));
    for (one, other) in [(&models, &scale), (&scale, &models)] {
        let error = refused(&format!("report diff {one} {other}"), 2);
        let why = format!("{models}: documents of corelane/simulate/1 cannot be compared");
        assert!(error.contains(&why), "{error}");
    }
    let error = refused(&format!("report diff {scale} {DOCUMENTS}/scale-tcp.json"), 2);
    assert!(error.contains("is a document of corelane/scale-tcp/"), "{error}");
    let (empty, key) = (file("empty", &Value::Null), file("key", &Value::Null));
    let serve = format!("serve http 127.0.0.1:0 --tls --certificate {empty} --private-key {key}");
    let error = refused(&serve, 2);
    assert!(
        error.contains(&format!("--certificate: {empty}: there is no certificate in it")),
        "{error}"
    );
}

#[test]
fn a_port_of_metrics_that_is_in_use_is_named_with_its_remedy() {
    let server = Exposing::start("serve udp 127.0.0.1:0 --buckets 1");
    let (_, port) = server.metrics.rsplit_once(':').unwrap();
    let error = refused(
        &format!("serve udp 127.0.0.1:0 --metrics :{port} --duration 1s"),
        2,
    );
    assert!(
        error.contains("is in use: give another port, or 0") && error.contains(&format!("'sport = {port}'")),
        "{error}"
    );
    let error = refused("serve udp 127.0.0.1:0 --metrics 198.51.100.9:1 --duration 1s", 2);
    assert!(error.contains("no device has this address"), "{error}");
}

#[test]
fn a_namespace_in_which_nothing_has_to_change_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("run.json");
    // Nobody answers, so the run fails; what counts is that it ran.
    let load = format!(
        "load udp 127.0.0.1:9 --count 1 --no-answers --own-namespace --json={}",
        saved.display()
    );
    let output = run(&load);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("--own-namespace: nothing had to be changed"),
        "{error}"
    );
    let document: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    let notes = document["notes"].to_string();
    assert!(notes.contains("nothing had to be changed"), "{notes}");
}
