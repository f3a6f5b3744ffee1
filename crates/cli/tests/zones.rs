//! Link-local addresses, which need the name of a device, between two network namespaces.

use crate::common::{Server, corelane, has_engine, refused, run_json};
use crate::raw_http::RawServer;
use corelane_host::bed::{Bed, BedPlan, Side};
use corelane_tests::namespaces;
use serde_json::Value;
use std::net::TcpListener;
use std::process::{Command, Stdio};

/// Two namespaces whose devices have the addresses fe80::a (server) and fe80::b (client).
fn bed() -> Option<Bed> {
    let clients = vec!["fd12::/120".parse().unwrap()];
    let bed = namespaces(&BedPlan::new("fd11::1".parse().unwrap(), clients))?;
    for (side, address) in [(&bed.server, "fe80::a/64"), (&bed.client, "fe80::b/64")] {
        // A bed's devices resolve no neighbours.
        for words in [
            &["link", "set", "arp", "on", "dev"][..],
            &["address", "add", address, "nodad", "dev"],
        ] {
            let mut ip = Command::new("ip");
            ip.args(words).arg(side.device());
            let done = side.run(move || ip.status());
            assert!(done.expect("ip is installed").success());
        }
    }
    Some(bed)
}

/// Starts `corelane serve` on this port of the server's link-local address.
fn serve(bed: &Bed, what: &str, port: u16) -> Server {
    let address = format!("[fe80::a%{}]:{port}", bed.server.device());
    let mut command = corelane(&["serve", what, &address, "--buckets", "1"]);
    command.stdout(Stdio::piped());
    let started = bed.server.run(move || command.spawn());
    Server::of(started.expect("the server starts"))
}

/// The document of a generator on this side.
fn load(side: &Side, arguments: &str) -> Value {
    let mut command = corelane(arguments);
    let output = side.run(move || command.arg("--json").output()).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn requests_to_a_link_local_address_leave_by_its_device_which_the_host_field_does_not_name() {
    let Some(bed) = bed() else { return };
    let listener = bed.server.run(|| TcpListener::bind("[::]:0")).unwrap();
    let server = RawServer::with_body_at(listener, "hello");
    let (port, device) = (server.address.port(), bed.client.device());
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("scenario.toml");
    let text = format!(
        "[[client]]\nname = \"c\"\nurls = \"u\"\nserver = \"s\"\nconnections = 1\n\
         [[urls]]\nname = \"u\"\nentry = [{{ path = \"/\" }}]\n\
         [[server]]\nname = \"s\"\naddresses = [\"[fe80::a%{device}]:{port}\"]\n"
    );
    std::fs::write(&scenario, text).unwrap();
    for (given, engine) in [
        (format!("http://[fe80::a%25{device}]:{port}/ -c 1"), "epoll"),
        (
            format!("http://[fe80::a%{device}]:{port}/ -c 1 --sources fe80::b"),
            "epoll",
        ),
        (
            format!("http://[fe80::a%{device}]:{port}/ -c 1 --sources fe80::b"),
            "io_uring",
        ),
        (format!("--scenario {}", scenario.display()), "epoll"),
    ] {
        if !has_engine(engine) {
            continue;
        }
        let loaded = load(
            &bed.client,
            &format!("load http {given} -n 3 --drain 5s --engine {engine}"),
        );
        assert_eq!(loaded["requests"]["ok"], 3, "{given} {engine}");
        let head = String::from_utf8(server.last.lock().unwrap().clone()).unwrap();
        let host = format!("Host: [fe80::a]:{port}");
        assert!(head.lines().any(|line| line == host), "{head}");
    }
    let peers = server.peers.lock().unwrap();
    assert!(
        peers
            .iter()
            .all(|peer| peer.ip() == "fe80::b".parse::<std::net::Ipv6Addr>().unwrap()),
        "{peers:?}"
    );
}

#[test]
fn servers_of_a_link_local_address_are_reached_by_bytes_and_datagrams() {
    let Some(bed) = bed() else { return };
    let (_tcp, _udp) = (serve(&bed, "tcp", 8081), serve(&bed, "udp", 8082));
    let device = bed.client.device();
    for sources in ["", "--sources fe80::b"] {
        let loaded = load(
            &bed.client,
            &format!("load tcp [fe80::a%{device}]:8081 -c 2 -d 200ms --drain 10s {sources}"),
        );
        assert!(loaded["total"]["sent_bytes"].as_u64().unwrap() > 0, "{loaded}");
        let loaded = load(
            &bed.client,
            &format!("load udp [fe80::a%{device}]:8082 -n 10 --window 1 --loss-timeout 10s {sources}"),
        );
        assert_eq!(loaded["total"]["returned"], 10, "{loaded}");
    }
    let explain = format!("explain [fe80::b%{device}]:4000 [fe80::a]:8081");
    assert_eq!(load(&bed.client, &explain)["directions"][0]["device"], device);
}

#[test]
fn a_link_local_address_without_a_device_is_refused_with_the_form_to_write() {
    for verb in ["load tcp", "load udp", "serve tcp", "serve udp", "serve http"] {
        let error = refused(&format!("{verb} [fe80::a]:8080"), 2);
        assert!(error.contains("as in [fe80::a%eth0]:8080"), "{verb}: {error}");
        let error = refused(&format!("{verb} [fe80::a%nodev0]:8080"), 2);
        assert!(error.contains("there is no device nodev0"), "{verb}: {error}");
    }
    for (url, words) in [
        ("http://[fe80::a]:8080/", "as in [fe80::a%eth0]:8080"),
        ("http://[fe80::a%25nodev0]:8080/", "there is no device nodev0"),
    ] {
        let error = refused(&format!("load http {url}"), 2);
        assert!(error.contains("URL") && error.contains(words), "{error}");
    }
    // What is hashed only needs none.
    let hashed = run_json("hash fe80::b%nodev0 [fe80::a]:80 --json");
    assert!(hashed.is_object());
}
