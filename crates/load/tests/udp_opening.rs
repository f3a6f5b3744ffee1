//! A generator of datagrams opens its sockets before it sends, and says so meanwhile.

use corelane_load::sources::{Lease, PlannedWorker, Ports};
use corelane_load::udp::{Probes, UdpLoad, UdpLoadError, UdpPlan, Until};
use corelane_load::{Generator, Moment};
use corelane_rss::plan::Landing;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

/// One datagram from each of two sockets of `address`, which nobody answers.
fn plan(server: &UdpSocket, address: &str) -> UdpPlan {
    let lease = Lease {
        address: address.parse::<IpAddr>().unwrap(),
        ports: Ports::Kernel,
        connections: 2,
        landing: Landing::default(),
    };
    let worker = PlannedWorker {
        cpu: corelane_host::cpus::allowed().unwrap().cpus[0],
        leases: vec![lease],
        ..PlannedWorker::default()
    };
    let until = Until {
        datagrams: Some(2),
        ..Until::default()
    };
    let target = server.local_addr().unwrap();
    UdpPlan {
        until,
        answers: false,
        ..UdpPlan::new(target, Probes::new(64).unwrap(), vec![worker])
    }
}

#[test]
fn sockets_are_opened_in_a_stage_of_their_own() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut load = UdpLoad::start(plan(&server, "127.0.0.1")).unwrap();
    // Sending begins with the first wait at which all sockets are open.
    assert_eq!(load.snapshot().stage, "opening");
    assert_eq!((load.reached(), load.left()), (None, None));
    while !load.wait(Duration::from_secs(1)) {}
    assert_eq!(load.snapshot().stage, "draining");
    assert_eq!(load.reached(), Some(Moment::Sent));
    let report = load.finish().unwrap();
    assert_eq!(report.total.sent, 2);
    assert!(report.opening_s > 0.0, "{}", report.opening_s);
}

#[test]
fn a_socket_that_cannot_be_opened_ends_the_run_with_its_address() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    // An address of documentation (RFC 5737), which this machine does not have.
    let load = UdpLoad::start(plan(&server, "192.0.2.1")).unwrap();
    let error = load.finish().unwrap_err();
    assert!(matches!(error, UdpLoadError::Source { .. }), "{error}");
}
