//! The steering document of a running server in a file, and the documents and lines that `--steering` reads.

use crate::common;
use crate::common::{Server, number, refused, run_json};
use corelane_tests::{undisturbed, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

/// Flags of a server whose table is not the default.
const SERVER: &str = "127.11.5.1:0 --buckets 4 --share-cpus --table-size 64";

/// What prints a document with a steering in it.
const DOCUMENTS: [&str; 4] = [
    "serve udp {} --dry-run",
    "serve tcp {} --dry-run",
    "serve http {} --dry-run",
    "serve tcp {} --duration 1ms --json",
];

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A steering document with this table for two buckets.
fn document(table: [u16; 4]) -> Value {
    json!({"schema": "corelane/steering/1", "key": corelane_rss::Key::VERIFICATION.to_string(),
        "hash_fields": "4tuple", "table": table, "cpus": [0, 0], "generation": 0})
}

/// What `plan` makes of a steering document.
fn planned(path: &Path) -> Value {
    let plan = "plan --server 127.11.5.1:80 --clients 127.11.5.0/24 --flows 64 --json --steering";
    let buckets = run_json(&format!("{plan} {}", path.display()))["buckets"].clone();
    assert_eq!(buckets.as_array().map(Vec::len), Some(4), "{}", path.display());
    buckets
}

#[test]
fn clients_reach_the_buckets_by_the_file_and_by_the_line_of_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let [file, line] = ["steering.json", "line"].map(|name| folder.path().join(name));
    let server = Server::start(&format!("{SERVER} --write-steering {}", file.display()));
    fs::write(&line, &server.ready).unwrap();
    assert_eq!(planned(&file), planned(&line));
    for path in [&file, &line] {
        let loaded = run_json(&format!(
            "load udp {} --sources 127.11.5.0/24 --spread buckets --steering {} --sockets 16 --window 4 \
             --count 4000 --json",
            server.address,
            path.display()
        ));
        let workers = loaded["workers"].as_array().unwrap();
        let buckets: Vec<&Value> = workers.iter().map(|worker| &worker["bucket"]).collect();
        assert_eq!(buckets, [0, 1, 2, 3], "{}", path.display());
    }
    server.signal("INT");
    drop(server);
    assert!(file.is_file(), "the file is left at the end");
}

#[test]
fn every_document_that_has_one_steering_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("document");
    let plans = DOCUMENTS.map(|command| {
        let printed = run_json(&command.replace("{}", SERVER));
        fs::write(&file, printed.to_string()).unwrap();
        planned(&file)
    });
    assert!(plans.iter().all(|plan| *plan == plans[0]));
    let several = json!([document([0, 1, 0, 1]), {"steering": document([1, 0, 1, 0])}]);
    fs::write(&file, several.to_string()).unwrap();
    let plan = "plan --server 10.0.0.1 --clients 10.0.0.0/24 --steering";
    let error = refused(&format!("{plan} {}", file.display()), 2);
    assert!(error.contains("2 different steering documents"), "{error}");
}

#[test]
fn a_table_read_again_is_applied_and_written_and_a_wrong_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let [given, written] = ["given.json", "written.json"].map(|name| folder.path().join(name));
    for protocol in ["udp", "tcp", "http"] {
        fs::write(&given, document([0, 1, 0, 1]).to_string()).unwrap();
        let mut serving = common::corelane(&format!(
            "serve {protocol} 127.0.0.1:0 --steering {} --write-steering {}",
            given.display(),
            written.display()
        ));
        let serving = serving.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut serving = serving.spawn().unwrap();
        let mut said = BufReader::new(serving.stderr.take().unwrap()).lines();
        let server = Server::of(serving);
        let mut reread = |table: Value, expected: &str| {
            fs::write(&given, table.to_string()).unwrap();
            server.signal("HUP");
            let said = said.next().unwrap().unwrap();
            assert!(said.contains(expected), "{protocol}: {said}");
            let written = read(&written);
            (written["table"].clone(), written["generation"].clone())
        };
        let changed = (json!([0, 1, 1, 1]), json!(1));
        assert_eq!(reread(document([0, 1, 1, 1]), "1 of 4 entries moved"), changed);
        assert_eq!(
            reread(document([0, 1, 1, 2]), "the table stays as it was"),
            changed
        );
        assert_eq!(reread(json!({}), "there is no field"), changed);
        let mut other = document([0, 0, 1, 1]);
        other["hash_fields"] = json!("2tuple");
        assert_eq!(reread(other, "only the table may change"), changed);
        assert_eq!(
            reread(document([0, 1, 0, 1]), "1 of 4 entries moved"),
            (json!([0, 1, 0, 1]), json!(2))
        );
    }
}

#[test]
fn a_file_that_cannot_be_and_a_server_without_a_table_are_refused() {
    let error = refused("serve udp 127.0.0.1:0 --write-steering /proc/none/steering", 2);
    assert!(error.contains("--write-steering: /proc/none/steering"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("steering.json");
    let shared = "serve udp 127.0.0.1:0 --model shared --write-steering";
    let error = refused(&format!("{shared} {}", file.display()), 2);
    assert!(error.contains("--model exact"), "{error}");
    assert!(!file.exists());
}

/// Whether no datagram waits in a socket of this address, as 127.0.0.1:8080.
fn all_read(address: &str) -> bool {
    let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
    let sockets = fs::read_to_string("/proc/net/udp").unwrap();
    let mut own = sockets
        .lines()
        .filter(|line| line.contains(&format!(":{port:04X} 00000000:0000 ")));
    own.all(|line| line.contains(":00000000 00:"))
}

#[test]
fn a_server_that_rebalances_logs_each_move_counts_it_and_writes_its_table() {
    undisturbed(assert_moves_are_told);
    let error = refused("serve tcp 127.0.0.1:0 --buckets 1 --rebalance", 2);
    assert!(error.contains("two buckets or more"), "{error}");
    let error = refused(
        "serve udp 127.0.0.1:0 --buckets 2 --rebalance --answers connected",
        2,
    );
    assert!(error.contains("--rebalance: answers by connected"), "{error}");
}

fn assert_moves_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let [written, served] = ["written.json", "served.json"].map(|name| folder.path().join(name));
    let mut serving = common::corelane(&format!(
        "serve udp {SERVER} --rebalance=100 --write-steering {} --json={}",
        written.display(),
        served.display()
    ));
    let mut serving = serving
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(serving.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let mut server = Server::of(serving);
    let path = written.display();
    let load = common::corelane(&format!(
        "load udp {} --sockets 64 --skew zipf:1.2 --steering {path} --align even --rate 2k --duration 1h --json",
        server.address
    ));
    let load = { load }.stdout(Stdio::piped()).spawn().unwrap();
    let first = said.next().expect("a move");
    common::signal(load.id(), "INT");
    let loaded: Value = serde_json::from_slice(&load.wait_with_output().unwrap().stdout).unwrap();
    until("everything is received", || all_read(&server.address));
    server.signal("INT");
    assert!(server.wait().success());
    let (served, written) = (read(&served), read(&written));
    let buckets = served["buckets"].as_array().unwrap();
    let seen: u64 = buckets.iter().map(|bucket| number(&bucket["seen"])).sum();
    assert_eq!(seen, number(&loaded["total"]["sent"]), "nothing is lost");
    let done = &served["rebalanced"];
    let moves = done["moves"].as_array().unwrap();
    assert!(!moves.is_empty(), "{done}");
    assert_eq!(done["moved"], moves.len());
    let lines: Vec<String> = [first].into_iter().chain(said).collect();
    let mut last = BTreeMap::new();
    for (line, moved) in lines.iter().zip(moves) {
        let [entry, from, to] = ["entry", "from", "to"].map(|field| &moved[field]);
        assert!(
            line.starts_with(&format!("corelane: entry {entry} moved from bucket {from} (")),
            "{line}"
        );
        assert!(line.contains(&format!(") to bucket {to} (")), "{line}");
        last.insert(number(entry), to);
    }
    for (entry, bucket) in last {
        assert_eq!(written["table"][entry as usize], *bucket, "entry {entry}");
    }
    assert_eq!(lines.len(), moves.len());
    assert_eq!(written["generation"], done["changes"]);
}
