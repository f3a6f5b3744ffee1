//! Where the connections of `load http` and `load tcp` go: addresses of a name, and proxies that are not used.

use crate::common::{corelane, mounting};
use crate::raw_http::RawServer;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

#[test]
fn all_addresses_of_a_name_share_the_connections_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 corelane.test\n127.7.7.7 corelane.test\n").unwrap();
    let load = |addresses: &str| {
        mounting(&format!(
            "mount --bind {} /etc/hosts && exec {} load http http://corelane.test:8080/ -c 9 {addresses} --dry-run",
            hosts.display(),
            env!("CARGO_BIN_EXE_corelane")
        ))
    };
    for (addresses, expected) in [("--addresses all", &[4, 5][..]), ("", &[9])] {
        let Some(output) = load(addresses) else { return };
        let error = String::from_utf8_lossy(&output.stderr);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
        let pools = document["plan"]["pools"].as_array().unwrap();
        let mut connections: Vec<_> = pools
            .iter()
            .map(|pool| pool["connections"].as_u64().unwrap())
            .collect();
        connections.sort_unstable();
        assert_eq!(connections, expected, "{error}");
        let targets: BTreeSet<_> = pools
            .iter()
            .map(|pool| pool["target"].as_str().unwrap())
            .collect();
        assert_eq!(targets.len(), expected.len(), "{targets:?}");
        assert!(
            error.contains("127.0.0.1:8080") && error.contains("127.7.7.7:8080"),
            "{error}"
        );
    }
}

#[test]
fn bytes_go_to_all_addresses_of_a_name_on_request() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let by_address = Arc::new(Mutex::new(BTreeMap::new()));
    let counts = Arc::clone(&by_address);
    thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let own = connection.local_addr().unwrap().ip().to_string();
            *counts.lock().unwrap().entry(own).or_insert(0) += 1;
            thread::spawn(move || io::copy(&mut connection, &mut io::sink()));
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 corelane.test\n127.7.7.7 corelane.test\n").unwrap();
    let load = |flags: &str| {
        mounting(&format!(
            "mount --bind {} /etc/hosts && exec {} load tcp corelane.test:{port} -d 100ms --addresses all {flags}",
            hosts.display(),
            env!("CARGO_BIN_EXE_corelane")
        ))
    };
    let Some(output) = load("-c 9 --drain 1m --json") else {
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    let total = &document["total"];
    assert_eq!(
        (&total["opened"], &total["open_at_end"]),
        (&9.into(), &9.into()),
        "{error}"
    );
    assert_eq!(document["connect"]["count"], 9);
    let first = document["plan"]["target"].as_str().unwrap();
    let other = document["plan"]["others"][0].as_str().unwrap();
    let expected = [(first, 5), (other, 4)].map(|(address, count)| {
        let (address, _) = address.split_once(':').unwrap();
        (address.to_owned(), count)
    });
    assert_eq!(*by_address.lock().unwrap(), BTreeMap::from(expected));
    let text = load("-c 9").map(|output| String::from_utf8(output.stdout).unwrap());
    assert!(text.is_some_and(|text| text.contains(&format!("{first}, {other}: write"))));
    // Fewer connections than addresses.
    let output = load("-c 1 --json").unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&document["total"]["opened"], &document["plan"]["others"]),
        (&1.into(), &Value::Null)
    );
}

#[test]
fn a_proxy_of_the_environment_is_named_and_not_used() {
    let server = RawServer::with_body("hello");
    for (no_proxy, noted) in [("other.example", true), ("localhost,127.0.0.1", false)] {
        let mut command = corelane(&[
            "load",
            "http",
            &server.url(),
            "-c",
            "1",
            "-n",
            "3",
            "--drain",
            "5s",
            "--json",
        ]);
        let command = command.env("http_proxy", "http://user:secret@192.0.2.1:3128");
        let output = command.env("no_proxy", no_proxy).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
        assert_eq!(document["requests"]["ok"], 3);
        let note = format!(
            "http_proxy=http://192.0.2.1:3128 is set and not used: requests go to {} itself",
            server.address
        );
        let notes = document["notes"].as_array().unwrap();
        assert_eq!(notes.contains(&Value::from(note.clone())), noted, "{notes:?}");
        assert_eq!(error.contains(&note), noted, "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
