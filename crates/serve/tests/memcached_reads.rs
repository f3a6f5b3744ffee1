//! Keys of other workers are read from their memory, where that changes nothing.

use crate::common::{anywhere, connect, engines, steering};
use crate::memcached::{ask, stats};
use corelane_serve::Server;
use corelane_serve::memcached::{MemcachedPlan, MemcachedServer, RemoteReads};
use std::fmt::Write as _;

const KEYS: usize = 60;

fn started(remote_reads: RemoteReads) -> Vec<MemcachedServer> {
    let start = |engine| {
        let mut plan = MemcachedPlan::new(anywhere(), steering(3));
        plan.listening.engine = Some(engine);
        plan.remote_reads = remote_reads;
        MemcachedServer::start(plan).unwrap()
    };
    engines().into_iter().map(start).collect()
}

/// A value of most sizes up to some KiB.
fn value(key: usize, version: usize) -> String {
    format!("{version}-").repeat(key * key % 1_700)
}

/// Requests that store a version of all keys, and the answers.
fn sets(version: usize) -> (String, String) {
    let mut requests = String::new();
    for key in 0..KEYS {
        let value = value(key, version);
        write!(requests, "set key{key} {key} 0 {}\r\n{value}\r\n", value.len()).unwrap();
    }
    (requests, "STORED\r\n".repeat(KEYS))
}

fn get(key: usize, version: usize) -> (String, String) {
    let value = value(key, version);
    let answer = format!("VALUE key{key} {key} {}\r\n{value}\r\nEND\r\n", value.len());
    (format!("get key{key}\r\n"), answer)
}

#[test]
fn what_is_read_directly_is_what_was_stored_last() {
    for server in started(RemoteReads::Direct) {
        let mut client = connect(server.address());
        for version in 1..4 {
            let (requests, answers) = sets(version);
            ask(&mut client, requests.as_bytes(), answers.as_bytes());
            for key in (0..KEYS).flat_map(|key| [key; 5]) {
                let (request, answer) = get(key, version);
                ask(&mut client, request.as_bytes(), answer.as_bytes());
            }
        }
        let counts = stats(&mut client, "stats corelane");
        let sum = |what: &str| -> usize {
            let of = |worker| counts[&format!("{worker}:{what}")].parse::<usize>().unwrap();
            (0..3).map(of).sum()
        };
        let asked = 3 * KEYS * 6;
        assert_eq!(sum("local") + sum("handed_over") + sum("read_directly"), asked);
        // Of five reads the first three at most are counted by the owner; in place of a version, the next one is as often read.
        assert!(
            sum("read_directly") * 2 > asked - sum("local") - 3 * KEYS,
            "{counts:?}"
        );
        assert!(counts["not_read_unsettled"] != "0", "{counts:?}");
        let general = stats(&mut client, "stats");
        assert_eq!(general["get_hits"], (3 * KEYS * 5).to_string());
    }
}

#[test]
fn mg_is_read_directly_where_it_changes_nothing() {
    for server in started(RemoteReads::Direct) {
        let mut client = connect(server.address());
        let (requests, answers) = sets(1);
        ask(&mut client, requests.as_bytes(), answers.as_bytes());
        for key in (0..KEYS).flat_map(|key| [key; 3]) {
            let (request, answer) = get(key, 1);
            ask(&mut client, request.as_bytes(), answer.as_bytes());
        }
        let mut read_directly = || {
            let counts = stats(&mut client, "stats corelane");
            let of = |worker, what| counts[&format!("{worker}:{what}")].parse::<usize>().unwrap();
            let remote: usize = (0..3).map(|worker| KEYS - of(worker, "items")).min().unwrap();
            ((0..3).map(|worker| of(worker, "read_directly")).sum(), remote)
        };
        let (before, remote): (usize, _) = read_directly();
        let mut client = connect(server.address());
        for key in 0..KEYS {
            let value = value(key, 1);
            let request = format!("mg key{key} v f k Oabc N60 u\r\nmg key{key} h t\r\nmn\r\n");
            let answer = format!(
                "VA {} f{key} kkey{key} Oabc\r\n{value}\r\nHD h1 t-1\r\nMN\r\n",
                value.len()
            );
            ask(&mut client, request.as_bytes(), answer.as_bytes());
        }
        let (after, _) = read_directly();
        assert!(after - before >= 2 * remote, "{before}, {after}, {remote}");
        for key in 0..KEYS {
            let request =
                format!("mg key{key} T100 t\r\nmg nokey{key}\r\nmg key{key} y\r\nmd key{key} I q\r\n");
            let answer = "HD t100\r\nEN\r\nCLIENT_ERROR invalid flag\r\n";
            ask(&mut client, request.as_bytes(), answer.as_bytes());
            let request = format!("mg key{key} f\r\nmg key{key} f\r\n");
            let answer = format!("HD f{key} X W\r\nHD f{key} Z X\r\n");
            ask(&mut client, request.as_bytes(), answer.as_bytes());
        }
        let (last, _) = read_directly();
        // The last of each key alone, if its answer has come before.
        assert!(last - after <= KEYS, "{after}, {last}");
    }
}

#[test]
fn a_connection_reads_what_it_has_just_stored_and_nothing_that_it_has_flushed() {
    for server in started(RemoteReads::Direct) {
        let mut client = connect(server.address());
        let (requests, answers) = sets(1);
        ask(&mut client, requests.as_bytes(), answers.as_bytes());
        for key in (0..KEYS).flat_map(|key| [key; 4]) {
            let (request, answer) = get(key, 1);
            ask(&mut client, request.as_bytes(), answer.as_bytes());
        }
        let (mut requests, mut answers) = (String::new(), String::new());
        for key in 0..KEYS {
            let ((old, first), (new, second)) = (get(key, 1), get(key, 2));
            let value = value(key, 2);
            write!(
                requests,
                "{old}set key{key} {key} 0 {}\r\n{value}\r\n{new}",
                value.len()
            )
            .unwrap();
            write!(answers, "{first}STORED\r\n{second}").unwrap();
        }
        ask(&mut client, requests.as_bytes(), answers.as_bytes());
        for key in (0..KEYS).flat_map(|key| [key; 4]) {
            let (request, answer) = get(key, 2);
            ask(&mut client, request.as_bytes(), answer.as_bytes());
        }
        let mut others: Vec<_> = (0..3).map(|_| connect(server.address())).collect();
        ask(&mut client, b"flush_all\r\n", b"OK\r\n");
        for key in 0..KEYS {
            let (request, _) = get(key, 2);
            ask(&mut others[key % 3], request.as_bytes(), b"END\r\n");
        }
    }
}

#[test]
fn without_direct_reads_all_of_other_workers_is_handed_over() {
    for server in started(RemoteReads::Handoff) {
        let mut client = connect(server.address());
        let (requests, answers) = sets(1);
        ask(&mut client, requests.as_bytes(), answers.as_bytes());
        for key in (0..KEYS).flat_map(|key| [key; 5]) {
            let (request, answer) = get(key, 1);
            ask(&mut client, request.as_bytes(), answer.as_bytes());
        }
        let counts = stats(&mut client, "stats corelane");
        for worker in 0..3 {
            assert_eq!(counts[&format!("{worker}:read_directly")], "0");
        }
    }
}
