//! The calculator and the planner against the published vectors.

use crate::common::{refused, run, run_json};
use std::collections::HashSet;

/// Rows of a vector file: fields separated by tabs, comments skipped.
fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split('\t').collect())
}

#[test]
fn the_verification_suite_comes_out() {
    let mut checked = 0;
    for row in rows(include_str!("../../rss/tests/vectors/rss.tsv")) {
        let [source, source_port, destination, destination_port, two, four] = row[..] else {
            panic!("{row:?}")
        };
        let endpoint = |address: &str, port: &str| match address.contains(':') {
            true => format!("[{address}]:{port}"),
            false => format!("{address}:{port}"),
        };
        let document = run_json(&format!(
            "hash {} {} --buckets 4 --json",
            endpoint(source, source_port),
            endpoint(destination, destination_port)
        ));
        assert_eq!(document["hash_2tuple"], format!("0x{two}"));
        assert_eq!(document["hash_4tuple"], format!("0x{four}"));
        let bucket = u64::from_str_radix(four, 16).unwrap() % 128 % 4;
        assert_eq!(document["bucket_4tuple"], bucket);
        checked += 1;
    }
    assert_eq!(checked, 8);
}

#[test]
fn an_ipv6_address_that_may_end_in_a_port_is_refused_by_every_verb() {
    let (ambiguous, needed) = ("2001:db8::1:80", "write [2001:db8::1:80] or [2001:db8::1]:80");
    for command in [
        "hash X [::1]:443",
        "hash [::1]:443 X",
        "explain X 127.0.0.1:443",
        "plan --clients 2001:db8::/120 --server X",
        "verify --log /dev/null --clients 2001:db8::/120 --server X",
    ] {
        let error = refused(&command.replace('X', ambiguous), 2);
        assert!(error.contains(needed), "{command}: {error}");
    }
    // These need a port.
    for command in ["serve udp X", "load tcp X", "steer --pid 1 --port 80 --address X"] {
        let error = refused(&command.replace('X', ambiguous), 2);
        assert!(
            error.contains("write 10.11.2.1:8080, [2001:db8::1]:8080"),
            "{command}: {error}"
        );
    }
    for (given, source) in [
        ("[2001:db8::1]:80", "[2001:db8::1]:80"),
        ("[2001:db8::1:80]", "2001:db8::1:80"),
        ("2001:db8::1", "2001:db8::1"),
        ("2001:db8::1:abcd", "2001:db8::1:abcd"),
        ("2001:db8:0:0:0:0:1:80", "2001:db8::1:80"),
        ("::1", "::1"),
    ] {
        let hashed = run_json(&format!("hash {given} 2001:db8::2 --json"));
        assert_eq!(hashed["source"], source, "{given}");
    }
    for given in ["[[::1]]", "::1]", "[::1", "[192.0.2.1]", "2001:db8::1:99999"] {
        refused(&format!("hash {given} [::1]:443"), 2);
    }
}

#[test]
fn the_posts_addresses_are_planned_on_their_buckets() {
    let mut checked = 0;
    for buckets in ["4", "8"] {
        let plan = run_json(&format!(
            "plan --server 10.11.2.1 --clients 10.11.2.0/24 --buckets {buckets} --all --json"
        ));
        for row in rows(include_str!("../../rss/tests/vectors/post-buckets.tsv")) {
            if row[0] != buckets {
                continue;
            }
            let entry = &plan["buckets"][row[3].parse::<usize>().unwrap()];
            assert_eq!(entry["bucket"], row[3].parse::<u64>().unwrap());
            let addresses = entry["addresses"].as_array().unwrap();
            assert!(
                addresses.iter().any(|address| address == row[2]),
                "{} of {buckets}",
                row[2]
            );
            checked += 1;
        }
    }
    assert_eq!(checked, 12);
}

#[test]
fn every_port_is_planned_once_and_lands_where_the_calculator_says() {
    let plan = run_json(
        "plan --server 10.11.2.1:8080 --client 10.11.2.3 --buckets 5 --table-size 64 --all \
--json",
    );
    let mut seen = HashSet::new();
    for entry in plan["buckets"].as_array().unwrap() {
        let ports = entry["ports"].as_array().unwrap();
        assert!(ports.iter().all(|port| seen.insert(port.as_u64().unwrap())));
        let source = format!("10.11.2.3:{}", ports[ports.len() / 2]);
        let hash = run_json(&format!(
            "hash {source} 10.11.2.1:8080 --buckets 5 --table-size 64 --json"
        ));
        assert_eq!(hash["bucket_4tuple"], entry["bucket"]);
    }
    assert_eq!(
        seen.len(),
        65_536 - 1024,
        "every port from 1024 on belongs to a bucket"
    );
}

#[test]
fn without_all_one_source_a_bucket_is_named() {
    let plan = run_json("plan --server 10.11.2.1 --clients 10.11.2.0/24 --buckets 8 --json");
    for entry in plan["buckets"].as_array().unwrap() {
        assert_eq!(entry["addresses"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn bad_input_is_refused_with_the_flag_named() {
    let key = refused("hash 1.2.3.4:5 6.7.8.9:10 --key 6d5a", 2);
    assert!(key.contains("--key") && key.contains("40"), "{key}");
    let family = refused("hash 1.2.3.4:5 [::1]:10", 2);
    assert!(family.contains("SOURCE"), "{family}");
    for verb in [
        "hash 1.2.3.4:5 6.7.8.9:10",
        "plan --server 10.11.2.1 --clients 10.11.2.0/24",
        "key audit",
        "serve udp 127.0.0.1:0 --share-cpus",
    ] {
        let many = refused(&format!("{verb} --buckets 1000000000000"), 2);
        assert!(
            many.contains("--buckets") && many.contains("1000000000000"),
            "{many}"
        );
    }
    let many = refused("load tcp 127.0.0.1:9 --connections 100G", 2);
    assert!(many.contains("--connections"), "{many}");
    let much = refused("load udp 127.0.0.1:9 --sockets 100M --count 1", 77);
    assert!(
        much.contains("memory") && much.contains("fewer connections"),
        "{much}"
    );
    let table = refused("hash 1.2.3.4:5 6.7.8.9:10 --table-size 5000", 2);
    assert!(table.contains("--table-size"), "{table}");
    let pool = refused(
        "plan --server 10.11.2.1 --clients 10.11.2.3,10.11.2.4 --buckets 4",
        2,
    );
    assert!(pool.contains("--clients") && pool.contains("2, 3"), "{pool}");
    let no_ports = refused(
        "plan --server 10.11.2.1:80 --client 10.11.2.3 --hash 2tuple --buckets 4",
        2,
    );
    assert!(no_ports.contains("--client"), "{no_ports}");
}

#[test]
fn a_plan_of_all_sources_is_whole_in_a_pipe() {
    let output = run("plan --server 10.11.2.1 --clients 10.11.2.0/24 --buckets 2 --all");
    let text = String::from_utf8(output.stdout).unwrap();
    let found = text
        .split_whitespace()
        .filter(|word| word.starts_with("10.11.2."));
    // The server is none of its own clients, and is named in the first line.
    assert_eq!(found.count(), 254, "{text}");
    assert!(!text.contains('\u{2026}'), "{text}");
}
