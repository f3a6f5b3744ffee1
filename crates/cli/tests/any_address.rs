//! Servers on any address of a prefix that is routed to them, and generators that add addresses of their own, run as
//! commands in network namespaces.

use crate::common;
use crate::common::{Server, corelane};
use corelane_host::bed::{self, Bed, BedPlan, Side};
use corelane_serve::udp::{BucketServed, UdpServed};
use corelane_tests::{PATIENCE, namespaces, undisturbed, until};
use nix::unistd::geteuid;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// One address family: the server, the clients, and a prefix routed to the server, with two of its addresses and the
/// wildcard.
struct Family {
    server: &'static str,
    clients: &'static str,
    prefix: &'static str,
    addresses: [&'static str; 2],
    all: &'static str,
}

const FAMILIES: [Family; 2] = [
    Family {
        server: "10.11.2.1",
        clients: "10.12.0.0/24",
        prefix: "10.20.0.0/16",
        addresses: ["10.20.0.7", "10.20.255.200"],
        all: "0.0.0.0",
    },
    Family {
        server: "fd11::1",
        clients: "fd12::/120",
        prefix: "fd20::/64",
        addresses: ["fd20::7", "fd20::ffff:0:0:c8"],
        all: "[::]",
    },
];

/// Two namespaces, or `None` if they are not permitted.
fn bed(family: &Family) -> Option<Bed> {
    let plan = BedPlan {
        loopback_ok: false,
        server_networks: vec![family.prefix.parse().unwrap()],
        ..BedPlan::new(
            family.server.parse().unwrap(),
            vec![family.clients.parse().unwrap()],
        )
    };
    namespaces(&plan)
}

/// An address of the prefix with a port, in the command's syntax.
fn with_port(address: &str, port: u16) -> String {
    let address = address.trim_matches(['[', ']']).parse::<IpAddr>().unwrap();
    SocketAddr::from((address, port)).to_string()
}

/// Starts a server in the server's namespace.
fn serve(bed: &Bed, what: &str, address: &str, more: &[&str]) -> Server {
    let all = [&["serve", what, address, "--buckets", "2", "--share-cpus"], more].concat();
    let mut command = corelane(&all);
    command.stdout(Stdio::piped());
    Server::of(
        bed.server
            .run(move || command.spawn().expect("the server starts")),
    )
}

/// Sends a datagram, and returns whether it comes back from the address that was asked: a connected socket receives
/// nothing else.
fn ask_datagram(side: &Side, address: &str) -> bool {
    let address: SocketAddr = address.parse().unwrap();
    side.run(move || {
        let own: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((own, 0)).unwrap();
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let payload = [7; 64];
        socket.send(&payload).unwrap();
        let mut answer = [0; 128];
        let length = socket.recv(&mut answer).unwrap();
        answer[..length] == payload
    })
}

/// Connects from the clients' namespace, sends the request, and returns the peer's address and the response.
fn ask(bed: &Bed, address: &str, request: &'static [u8]) -> (IpAddr, String) {
    let address = address.to_owned();
    bed.client.run(move || {
        let mut stream = TcpStream::connect(&address).unwrap();
        let peer = stream.peer_addr().unwrap().ip();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (peer, answer)
    })
}

#[test]
fn one_server_answers_from_each_address_of_a_prefix_that_is_asked() {
    undisturbed(|| {
        for family in &FAMILIES {
            let Some(bed) = bed(family) else { return };
            let _http = serve(&bed, "http", &with_port(family.all, 8080), &[]);
            let _tcp = serve(&bed, "tcp", &with_port(family.all, 8081), &["--mode", "echo"]);
            let _udp = serve(&bed, "udp", &with_port(family.all, 8082), &[]);
            for address in family.addresses {
                let (peer, answer) = ask(&bed, &with_port(address, 8080), b"GET /size/3 HTTP/1.0\r\n\r\n");
                assert_eq!(peer, address.parse::<IpAddr>().unwrap());
                assert!(
                    answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("012"),
                    "{answer}"
                );
                let (peer, answer) = ask(&bed, &with_port(address, 8081), b"hello");
                assert_eq!((peer, answer.as_str()), (address.parse().unwrap(), "hello"));
                assert!(ask_datagram(&bed.client, &with_port(address, 8082)), "{address}");
            }
        }
    });
}

#[test]
fn a_folder_for_every_user_is_below_none_that_only_its_owner_may_reach() {
    let open = common::folder_for_anyone();
    let private = tempfile::tempdir_in(&open).unwrap();
    fs::set_permissions(private.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let below = private.path().join("open");
    fs::create_dir(&below).unwrap();
    let places = [private.path(), &below, open.path()].map(Into::into);
    let folder = common::folder_for_anyone_in(&places);
    assert_eq!(folder.path().parent(), Some(open.path()));
}

/// The user `nobody`, which has this number in every distribution.
const NOBODY: u32 = 65534;

#[test]
fn without_privilege_64_addresses_of_both_families_answer_themselves_all_steered_right() {
    undisturbed(|| {
        let Some(bed) = bed(&FAMILIES[1]) else { return };
        let (folder, program) = common::program_for_anyone();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let document = folder.path().join("served.json");
        let mut command = Command::new(program);
        command
            .args(["serve", "udp", "[::]:8082", "--buckets", "2", "--share-cpus"])
            .arg(format!("--json={}", document.display()))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let mut server = Server::of(
            bed.server
                .run(move || command.spawn().expect("the server starts")),
        );
        for last in 1..=32 {
            for _ in 0..4 {
                assert!(
                    ask_datagram(&bed.client, &format!("[fd20::{last:x}]:8082")),
                    "fd20::{last:x}"
                );
                assert!(
                    ask_datagram(&bed.server, &format!("127.9.0.{last}:8082")),
                    "127.9.0.{last}"
                );
            }
        }
        server.signal("INT");
        assert!(server.wait().success());
        let served: UdpServed = serde_json::from_str(&fs::read_to_string(document).unwrap()).unwrap();
        assert_eq!(
            (served.seen(), served.answered()),
            (256, 256),
            "{:?}",
            served.dropped()
        );
        let steered = served.share(BucketServed::steering);
        assert_eq!(steered.hits, steered.samples);
        assert!(steered.samples >= 100, "{}", steered.samples);
    });
}

#[test]
fn one_server_of_each_family_shares_a_port_and_ipv6_only_takes_an_ipv6_address() {
    let Some(bed) = bed(&FAMILIES[1]) else { return };
    for what in ["udp", "tcp", "http"] {
        let _ipv4 = serve(&bed, what, "0.0.0.0:8083", &[]);
        let refused = bed.server.run(move || {
            let words = ["serve", what, "[::]:8083", "--buckets", "2", "--share-cpus"];
            String::from_utf8(corelane(&words).output().unwrap().stderr).unwrap()
        });
        assert!(
            refused.contains("[::]:8083 is in use") && refused.contains("--ipv6-only"),
            "{refused}"
        );
        let _ipv6 = serve(&bed, what, "[::]:8083", &["--ipv6-only"]);
        let error = common::refused(&["serve", what, "0.0.0.0:0", "--ipv6-only"], 2);
        assert!(
            error.contains("--ipv6-only: 0.0.0.0:0 is an IPv4 address"),
            "{error}"
        );
    }
}

#[test]
fn a_server_takes_an_address_that_no_device_has_when_told_so() {
    undisturbed(|| {
        for family in &FAMILIES {
            let Some(bed) = bed(family) else { return };
            let [address, other] = family.addresses;
            let _http = serve(&bed, "http", &with_port(address, 8080), &["--free-bind"]);
            let _tcp = serve(
                &bed,
                "tcp",
                &with_port(address, 8081),
                &["--free-bind", "--mode", "echo"],
            );
            let (_, answer) = ask(&bed, &with_port(address, 8080), b"GET / HTTP/1.0\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            assert_eq!(ask(&bed, &with_port(address, 8081), b"hello").1, "hello");
            let servers = [address, other]
                .map(|address| serve(&bed, "udp", &with_port(address, 8082), &["--free-bind"]));
            for server in &servers {
                assert!(ask_datagram(&bed.client, &server.address), "{}", server.address);
            }
        }
    });
}

/// Whether the address is local to the server's namespace, and the port range there.
fn state(bed: &Bed, address: &'static str) -> (bool, String) {
    bed.server.run(move || {
        let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let local = bed::foreign(vec![address.parse().unwrap()]).is_empty();
        (local, range.split_whitespace().collect::<Vec<_>>().join(" "))
    })
}

#[test]
fn a_generator_sets_up_its_own_namespace_and_puts_it_back() {
    const SOURCE: &str = "10.40.0.1";
    let Some(bed) = bed(&FAMILIES[0]) else { return };
    let _server = serve(&bed, "http", "0.0.0.0:8080", &[]);
    // Two ports per address, for five connections each.
    bed.server
        .run(|| fs::write("/proc/sys/net/ipv4/ip_local_port_range", "2000 2001").unwrap());
    let before = (false, "2000 2001".to_owned());
    let arguments = [
        "load",
        "http",
        "http://10.11.2.1:8080/",
        "--sources",
        "10.40.0.0/29",
        "--connections",
        "30",
        "--json",
        "--workers",
        "1",
        "--own-namespace",
    ];
    let start = |more: &[&str]| {
        let mut command = corelane(&[&arguments[..], more].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        bed.server.run(move || command.spawn().unwrap())
    };
    let finished = |child: Child| -> Value {
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let loaded = finished(start(&["--requests", "300"]));
    assert_eq!(loaded["requests"]["ok"], 300, "{}", loaded["requests"]);
    assert_eq!(loaded["connections"]["opened"], 30);
    let notes = loaded["notes"].to_string();
    assert!(
        notes.contains("for this run: ip route add local 10.40.0."),
        "{notes}"
    );
    assert!(
        notes.contains("for this run: sysctl -w net.ipv4.ip_local_port_range='1024 65535'"),
        "{notes}"
    );
    assert_eq!(state(&bed, SOURCE), before);

    let endless = start(&["--duration", "1h"]);
    until("the addresses are set up", || state(&bed, SOURCE) != before);
    // The set-up precedes the first connection, so an interrupted run may report that it got no response.
    common::signal(endless.id(), "INT");
    endless.wait_with_output().unwrap();
    assert_eq!(state(&bed, SOURCE), before);
}

#[test]
fn datagrams_and_streams_leave_from_addresses_set_up_for_the_run() {
    undisturbed(|| {
        const SOURCE: &str = "10.40.0.1";
        let Some(bed) = bed(&FAMILIES[0]) else { return };
        let _udp = serve(&bed, "udp", "10.11.2.1:8082", &[]);
        let _tcp = serve(&bed, "tcp", "10.11.2.1:8081", &[]);
        let udp = [
            "udp",
            "10.11.2.1:8082",
            "--count",
            "40",
            "--window",
            "1",
            "--sockets",
            "4",
            "--loss-timeout",
            "10s",
        ];
        let tcp = [
            "tcp",
            "10.11.2.1:8081",
            "--connections",
            "4",
            "--duration",
            "50ms",
        ];
        for (what, done) in [(&udp[..], "/total/returned"), (&tcp, "/total/opened")] {
            let sources = [
                "--sources",
                "10.40.0.0/29",
                "--workers",
                "1",
                "--json",
                "--own-namespace",
            ];
            let mut command = corelane(&[&["load"], what, &sources].concat());
            let output = bed.server.run(move || command.output().unwrap());
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(
                error.contains("for this run: ip route add local 10.40.0."),
                "{error}"
            );
            let loaded: Value = serde_json::from_slice(&output.stdout).unwrap();
            let expected = if what == udp { 40 } else { 4 };
            assert_eq!(loaded.pointer(done), Some(&expected.into()), "{loaded}");
            assert!(!state(&bed, SOURCE).0, "put back");
        }
    });
}

#[test]
fn the_machines_own_namespace_is_refused() {
    if !bed::in_first_namespace() {
        eprintln!("skipped: the test runs in a network namespace of its own");
        return;
    }
    for (what, target) in [
        ("http", "http://127.0.0.1:9/"),
        ("tcp", "127.0.0.1:9"),
        ("udp", "127.0.0.1:9"),
    ] {
        let sources = ["--sources", "10.40.0.0/29", "--own-namespace"];
        let error = common::refused(&[&["load", what, target], &sources[..]].concat(), 77);
        assert!(
            error.contains("--own-namespace") && error.contains("ip route add local 10.40.0."),
            "{error}"
        );
    }
}
