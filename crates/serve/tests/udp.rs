//! UDP servers that are sent what must not be answered.

use crate::common::{engines, steering};
use corelane_serve::Server;
use corelane_serve::udp::{DropCause, Model, UdpPlan, UdpServed, UdpServer};
use corelane_tests::{undisturbed, until};
use corelane_worker::engine::EngineKind;
use corelane_worker::group::{self, GroupSettings};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

fn plan(address: SocketAddr, engine: EngineKind) -> UdpPlan {
    UdpPlan {
        engine: Some(engine),
        ..UdpPlan::new(address, steering(2))
    }
}

/// A client whose reads end.
fn client(address: SocketAddr) -> UdpSocket {
    let client = UdpSocket::bind(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client
}

/// Waits until a server has counted what is expected; returns the counts.
fn served_when(server: &mut UdpServer, expected: impl Fn(&UdpServed) -> bool) -> UdpServed {
    let mut served = server.served();
    until("the datagrams are counted", || {
        server.poll().unwrap();
        served = server.served();
        expected(&served)
    });
    served
}

#[test]
fn a_datagram_to_a_broadcast_or_multicast_address_is_counted_and_not_answered() {
    undisturbed(|| {
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        for engine in engines() {
            for model in [Model::Exact, Model::Farm, Model::Single] {
                for gro in [false, true] {
                    let mut plan = plan(any, engine);
                    (plan.model, plan.settings.gro) = (model, gro);
                    let mut server = UdpServer::start(plan).unwrap();
                    let port = server.address().port();
                    let client = client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
                    client.set_broadcast(true).unwrap();
                    client
                        .send_to(b"to all", (Ipv4Addr::new(127, 255, 255, 255), port))
                        .unwrap();
                    // Sent later, so that an answer to the first one would arrive before its own.
                    let refused =
                        |served: &UdpServed| served.dropped().get(&DropCause::RefusedBroadcast).copied();
                    let copies = if model == Model::Exact { 2 } else { 1 };
                    served_when(&mut server, |served| refused(served) == Some(copies));
                    client.send_to(b"to one", (Ipv4Addr::LOCALHOST, port)).unwrap();
                    let mut answer = [0; 16];
                    let (length, _) = client.recv_from(&mut answer).unwrap();
                    assert_eq!(&answer[..length], b"to one", "{engine:?} {model:?} gro {gro}");
                    let served = server.stop().unwrap();
                    assert_eq!(refused(&served), Some(copies));
                }
            }
        }
    });
}

/// All nodes of this machine: no device sends it (RFC 4291 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1);

/// Whether a datagram to all nodes arrives here: that takes a device with IPv6 and multicast.
fn has_multicast() -> bool {
    let received = || {
        let plain = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        plain.set_read_timeout(Some(Duration::from_secs(1)))?;
        plain.send_to(b"any", (ALL_NODES, plain.local_addr()?.port()))?;
        plain.recv(&mut [0; 8])
    };
    received().is_ok()
}

#[test]
fn a_datagram_to_an_ipv6_multicast_address_is_counted_and_not_answered() {
    if !has_multicast() {
        return eprintln!("skipped: no device with IPv6 and multicast");
    }
    undisturbed(|| {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        for engine in engines() {
            let mut server = UdpServer::start(plan(any, engine)).unwrap();
            let client = client(any);
            client
                .send_to(b"to all", (ALL_NODES, server.address().port()))
                .unwrap();
            let refused = |served: &UdpServed| served.dropped().get(&DropCause::RefusedBroadcast) == Some(&2);
            served_when(&mut server, refused);
            client
                .send_to(b"to one", (Ipv6Addr::LOCALHOST, server.address().port()))
                .unwrap();
            let mut answer = [0; 16];
            let (length, _) = client.recv_from(&mut answer).unwrap();
            assert_eq!(&answer[..length], b"to one", "{engine:?}");
        }
    });
}

/// Sends one datagram to `to` as if it came from the server: as one more member of its group, which no bucket names.
fn forge(from: &UdpServer, to: &UdpServer) {
    let member = group::connected(from.address(), to.address(), &GroupSettings::default()).unwrap();
    member.send(b"forged").unwrap();
}

#[test]
fn two_echoes_do_not_answer_each_other() {
    undisturbed(|| {
        for engine in engines() {
            let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let mut first = UdpServer::start(plan(any_port, engine)).unwrap();
            let mut second = UdpServer::start(plan(any_port, engine)).unwrap();
            forge(&first, &second);
            let refused = |served: &UdpServed| served.dropped().get(&DropCause::RefusedEcho) == Some(&1);
            assert_eq!(served_when(&mut second, refused).answered(), 0);
            assert_eq!(first.served().seen(), 0, "{engine:?}");
        }
    });
}

#[test]
fn a_datagram_that_another_echo_sends_back_for_ever_is_withheld() {
    for engine in engines() {
        let mut server = UdpServer::start(plan(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), engine)).unwrap();
        let address = server.address();
        let echo = client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        echo.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let payload = b"round and round";
        let mut datagram = [0; 64];
        until("a repeated datagram is withheld", || {
            // Again if the kernel dropped it, as it may beside the floods of other tests.
            echo.send_to(payload, address).unwrap();
            for _ in 0..1_000 {
                let Ok((length, peer)) = echo.recv_from(&mut datagram) else {
                    break;
                };
                assert_eq!((&datagram[..length], peer), (&payload[..], address));
                echo.send_to(payload, peer).unwrap();
            }
            server.served().dropped().contains_key(&DropCause::RefusedLoop)
        });
    }
}
