//! Servers that rebalance their table under a skewed load: the table is near the best one after so many datagrams or
//! connections, nothing is lost and no connection ends. How long that takes, the test program `measured` shows.

pub mod levelling;

use crate::common::{anywhere, engines, http_plan, steering};
use corelane_rss::balance::Policy;
use corelane_serve::http::HttpServer;
use corelane_serve::udp::{Model, UdpError, UdpPlan, UdpServer};
use corelane_serve::{ServeError, Server};
use corelane_tests::undisturbed;
use corelane_worker::engine::EngineKind;
use levelling::{BUCKETS, connections, request};
use std::net::SocketAddr;

/// Datagrams, or connections, after which the table is level.
const MOST_DATAGRAMS: u64 = 1_000_000;
const MOST_CONNECTIONS: u64 = 30_000;

/// A policy that moves as soon as there are samples enough, and forgets none: the load does not change. What it leaves
/// is, with the error of sampling, less than the 5 % that the tests permit.
fn policy() -> Policy {
    Policy {
        start: 0.01,
        tolerance: 0.005,
        memory_s: 3_600.0,
        interval_s: 0.05,
        ..Policy::new(100.0)
    }
}

fn enough_connections(number: u64) -> bool {
    number < MOST_CONNECTIONS
}

#[test]
fn a_udp_server_becomes_level_and_loses_no_datagram() {
    undisturbed(|| {
        for engine in engines() {
            levelling::udp(engine, policy(), |number| number < MOST_DATAGRAMS);
        }
    });
}

#[test]
fn a_tcp_server_becomes_level_and_its_open_connections_stay() {
    for engine in engines() {
        levelling::tcp(engine, policy(), enough_connections);
    }
}

#[test]
fn an_http_server_on_a_wildcard_address_becomes_level_and_its_open_connections_stay() {
    let mut plan = http_plan(EngineKind::Epoll, BUCKETS);
    plan.listening.socket.address = "0.0.0.0:0".parse().unwrap();
    plan.listening.steered.rebalance = Some(policy());
    let server = HttpServer::start(plan).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], server.address().port()));
    connections(server, address, request, enough_connections, |served| {
        let buckets = served.buckets.iter();
        buckets.map(|bucket| bucket.connections.clone()).collect()
    });
}

#[test]
fn a_server_without_a_table_to_change_is_refused() {
    let mut plan = UdpPlan::new(anywhere(), steering(1));
    plan.steered.rebalance = Some(Policy::default());
    assert!(matches!(
        UdpServer::start(plan.clone()),
        Err(UdpError::Serve(ServeError::NoTable))
    ));
    (plan.steered.steering, plan.model) = (steering(2), Model::Shared);
    assert!(matches!(
        UdpServer::start(plan),
        Err(UdpError::Serve(ServeError::NoTable))
    ));
}
