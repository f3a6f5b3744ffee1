//! UDP servers on wildcard addresses, of one family and of both.

use crate::common::{engines, http_plan, steering};
use corelane_host::bed::BedPlan;
use corelane_measure::counters::Counters;
use corelane_measure::share::Share;
use corelane_rss::{Bucket, IndirectionTable, Steering, Tuple};
use corelane_serve::http::{HttpServed, HttpServer};
use corelane_serve::tcp::{TcpMode, TcpPlan, TcpServed, TcpServer};
use corelane_serve::udp::{Answers, BucketServed, DropCause, Model, UdpError, UdpPlan, UdpServed, UdpServer};
use corelane_serve::{ConnectionCounts, Listening, Server};
use corelane_tests::{namespaces, undisturbed, until};
use corelane_worker::engine::EngineKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// Datagrams sent to each address, from as many sockets.
const EACH: usize = 4;

fn everywhere() -> SocketAddr {
    (Ipv6Addr::UNSPECIFIED, 0).into()
}

fn plan(engine: EngineKind) -> UdpPlan {
    UdpPlan {
        engine: Some(engine),
        ..UdpPlan::new(everywhere(), steering(2))
    }
}

/// 64 addresses of both families, which every loopback device has.
fn addresses() -> Vec<IpAddr> {
    let ipv4 = (1..=63).map(|last| Ipv4Addr::new(127, 9, 0, last).into());
    ipv4.chain([Ipv6Addr::LOCALHOST.into()]).collect()
}

fn client(ip: IpAddr) -> UdpSocket {
    let client = UdpSocket::bind((ip, 0)).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client
}

/// Sends datagrams to an address, and checks that each comes back from there: a connected socket receives nothing else.
fn ask(address: SocketAddr) {
    for number in 0..EACH {
        let own: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let client = client(own);
        client.connect(address).unwrap();
        let payload = [number as u8; 40];
        client.send(&payload).unwrap();
        let mut answer = [0; 64];
        let answer_from = |error| panic!("an answer from {address}: {error}");
        let length = client.recv(&mut answer).unwrap_or_else(answer_from);
        assert_eq!(answer[..length], payload);
    }
}

/// Sends datagrams of one flow, each when the one before was answered.
fn ask_often(address: SocketAddr) {
    let client = client(address.ip());
    for number in 0..300_u16 {
        client.send_to(&number.to_be_bytes(), address).unwrap();
        client.recv_from(&mut [0; 8]).unwrap();
    }
}

/// Checks that every datagram was answered, and every sampled one steered right.
fn check(served: &UdpServed, asked: usize, what: &str) {
    let sent = (asked * EACH) as u64;
    assert_eq!((served.seen(), served.answered()), (sent, sent), "{what}");
    assert!(served.dropped().is_empty(), "{what}: {:?}", served.dropped());
    if served.model.promises_buckets() {
        let steered = served.share(BucketServed::steering);
        assert_eq!(steered.hits, steered.samples, "{what}");
        assert!(steered.samples >= 100, "{what}: {} samples", steered.samples);
        assert!(served.buckets.iter().all(|bucket| bucket.seen > 0), "{what}");
    }
}

#[test]
fn each_of_64_addresses_of_both_families_answers_itself_steered_right() {
    undisturbed(|| {
        for engine in engines() {
            for model in Model::ALL {
                for gro in [false, true] {
                    let mut plan = plan(engine);
                    plan.model = model;
                    (plan.settings.gro, plan.settings.coalesce) = (gro, gro);
                    plan.metadata = true;
                    let server = UdpServer::start(plan).unwrap();
                    let port = server.address().port();
                    addresses().into_iter().for_each(|ip| ask((ip, port).into()));
                    let what = format!("{engine:?} {model:?} gro {gro}");
                    check(&server.stop().unwrap(), addresses().len(), &what);
                }
            }
        }
    });
}

#[test]
fn every_way_to_answer_leaves_from_the_address_that_was_asked() {
    undisturbed(|| {
        for engine in engines() {
            for answers in Answers::ALL {
                let mut plan = plan(engine);
                plan.answers = answers;
                plan.device = (answers == Answers::Received).then(|| "lo".to_owned());
                let server = match UdpServer::start(plan) {
                    Err(error @ UdpError::Queues(_)) => {
                        eprintln!("skipped: {error}");
                        continue;
                    }
                    started => started.unwrap(),
                };
                let port = server.address().port();
                addresses().into_iter().for_each(|ip| ask((ip, port).into()));
                let served = server.stop().unwrap();
                check(&served, addresses().len(), &format!("{engine:?} {answers:?}"));
                let unconnected: u64 = served
                    .buckets
                    .iter()
                    .map(|bucket| bucket.answered_unconnected)
                    .sum();
                assert_eq!(unconnected, 0);
            }
        }
    });
}

#[test]
fn the_mapped_wildcard_address_is_that_of_ipv4() {
    undisturbed(|| {
        for answers in [Answers::PerSend, Answers::Connected] {
            let mut plan = plan(EngineKind::Epoll);
            (plan.answers, plan.flows) = (answers, true);
            plan.socket.address = "[::ffff:0.0.0.0]:0".parse().unwrap();
            let server = UdpServer::start(plan).unwrap();
            let address = server.address();
            assert_eq!(address.ip(), IpAddr::from(Ipv4Addr::UNSPECIFIED));
            let ipv4 = addresses().into_iter().filter(IpAddr::is_ipv4);
            ipv4.for_each(|ip| ask((ip, address.port()).into()));
            check(&server.stop().unwrap(), 63, &format!("{answers:?}"));
        }
    });
}

#[test]
fn one_socket_that_asks_many_addresses_has_a_flow_to_each() {
    undisturbed(|| {
        for answers in [Answers::PerSend, Answers::Connected] {
            let mut plan = plan(EngineKind::Epoll);
            (plan.answers, plan.flows) = (answers, true);
            let server = UdpServer::start(plan).unwrap();
            let port = server.address().port();
            let client = UdpSocket::bind((Ipv4Addr::new(127, 9, 1, 1), 0)).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            for ip in addresses().into_iter().filter(IpAddr::is_ipv4) {
                client.send_to(b"asked", (ip, port)).unwrap();
                let mut answer = [0; 8];
                assert_eq!(client.recv_from(&mut answer).unwrap(), (5, (ip, port).into()));
            }
            let flows = server.stop().unwrap().flows.unwrap();
            assert_eq!(flows.len(), 63);
            assert!(
                flows
                    .iter()
                    .all(|flow| flow.hash_type == "UDP_IPV4" && flow.bucket == flow.worker)
            );
        }
    });
}

#[test]
fn a_changed_table_steers_both_families() {
    undisturbed(|| {
        for engine in engines() {
            let mut server = UdpServer::start(plan(engine)).unwrap();
            let port = server.address().port();
            let all_to_one = IndirectionTable::from_entries(vec![Bucket::new(1); 128]).unwrap();
            assert_eq!(server.change_table(all_to_one).unwrap(), 64);
            for ip in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
                (0..5).for_each(|_| ask(SocketAddr::new(ip, port)));
            }
            let served = server.stop().unwrap();
            assert_eq!(served.buckets[0].seen, 0);
            let steered = served.share(BucketServed::steering);
            assert_eq!((steered.hits, steered.samples), (40, 40));
        }
    });
}

#[test]
fn the_cpu_that_receives_and_the_queue_that_answers_are_observed_for_both_families() {
    undisturbed(|| {
        for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            let mut server = UdpServer::start(UdpPlan {
                device: Some("lo".to_owned()),
                transmit_queues: Some(1),
                ..plan(EngineKind::Epoll)
            })
            .unwrap();
            let served = server.served();
            if let Some(reason) = served.locality_unknown {
                return eprintln!("skipped: {reason}");
            }
            let port = server.address().port();
            let observed = |server: &mut UdpServer| {
                let served = server.served();
                let of = [BucketServed::locality, BucketServed::tx_locality];
                of.map(|of| served.share(of).samples)
            };
            // One datagram in 64 is observed, at random, and of a flow only if a worker sampled it, too.
            until("both are observed", || {
                ask_often((ip, port).into());
                !observed(&mut server).contains(&0)
            });
        }
    });
}

/// Connects to a port at both loopback addresses, 40 times each; returns the connections that each bucket should have,
/// by the addresses on the wire.
fn connect_to_both(steering: &Steering, port: u16) -> [u64; 2] {
    let mut expected = [0; 2];
    for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        for _ in 0..40 {
            let stream = TcpStream::connect((ip, port)).unwrap();
            let tuple = Tuple::new(stream.local_addr().unwrap(), (ip, port).into()).unwrap();
            expected[steering.steerer().bucket_of(&tuple).index()] += 1;
        }
    }
    expected
}

/// Waits until a server has accepted all connections; returns the number of each bucket.
fn accepted<S: Server>(server: &mut S, count: impl Fn(&S::Served) -> [u64; 2]) -> [u64; 2] {
    let mut counted = [0; 2];
    until("all connections are accepted", || {
        counted = count(&server.served());
        counted.iter().sum::<u64>() == 80
    });
    counted
}

/// Checks that every connection was found in the bucket of its hash.
fn check_steering<'a>(buckets: impl Iterator<Item = &'a ConnectionCounts>) {
    let steered = Share::sum(buckets.map(ConnectionCounts::steering));
    assert_eq!((steered.hits, steered.samples), (80, 80));
}

#[test]
fn connections_that_the_kernel_assigns_are_found_in_wrong_buckets() {
    let listening = Listening {
        kernel_hash: true,
        ..Listening::new(everywhere(), steering(2))
    };
    let mut server = TcpServer::start(TcpPlan {
        listening,
        ..TcpPlan::new(everywhere(), TcpMode::Echo, steering(2))
    })
    .unwrap();
    connect_to_both(&steering(2), server.address().port());
    let of = |served: &TcpServed| [0, 1].map(|index| served.buckets[index].connections.accepted);
    accepted(&mut server, of);
    let served = server.stop().unwrap();
    let right = served.sum(|bucket| bucket.connections.steering_right);
    // Half of 80, by chance: all or none has a probability of 2^-79.
    assert_eq!(served.sum(|bucket| bucket.connections.steering_samples), 80);
    assert!((1..80).contains(&right), "{right} of 80");
}

#[test]
fn connections_of_both_families_reach_the_bucket_of_their_hash() {
    for engine in engines() {
        let plan = Listening {
            engine: Some(engine),
            ..Listening::new(everywhere(), steering(2))
        };
        let mut http_plan = http_plan(engine, 2);
        http_plan.listening = plan.clone();
        let mut http = HttpServer::start(http_plan).unwrap();
        let expected = connect_to_both(&plan.steered.steering, http.address().port());
        let of = |served: &HttpServed| [0, 1].map(|index| served.buckets[index].connections.accepted);
        assert_eq!(accepted(&mut http, of), expected, "HTTP {engine:?}");
        let served = http.stop().unwrap();
        check_steering(served.buckets.iter().map(|bucket| &bucket.connections));
        let mut tcp = TcpServer::start(TcpPlan {
            listening: plan.clone(),
            ..TcpPlan::new(everywhere(), TcpMode::Echo, steering(2))
        })
        .unwrap();
        let expected = connect_to_both(&plan.steered.steering, tcp.address().port());
        let of = |served: &TcpServed| [0, 1].map(|index| served.buckets[index].connections.accepted);
        assert_eq!(accepted(&mut tcp, of), expected, "TCP {engine:?}");
        let served = tcp.stop().unwrap();
        check_steering(served.buckets.iter().map(|bucket| &bucket.connections));
    }
}

#[test]
fn a_server_of_ipv6_only_leaves_ipv4_to_another_server() {
    undisturbed(|| {
        let mut ipv6_only = plan(EngineKind::Epoll);
        ipv6_only.socket.ipv6_only = true;
        // A port that the kernel chose for one family, another test may hold in the other.
        let port = 9_317;
        ipv6_only.socket.address.set_port(port);
        let ipv6 = UdpServer::start(ipv6_only).unwrap();
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let ipv4 = UdpServer::start(UdpPlan::new(address, steering(2))).unwrap();
        ask((Ipv4Addr::LOCALHOST, port).into());
        ask((Ipv6Addr::LOCALHOST, port).into());
        for server in [ipv4, ipv6] {
            let served = server.stop().unwrap();
            assert_eq!((served.seen(), served.answered()), (EACH as u64, EACH as u64));
        }
    });
}

#[test]
fn a_broadcast_to_a_server_of_both_families_is_not_answered() {
    undisturbed(|| {
        for engine in engines() {
            let mut server = UdpServer::start(plan(engine)).unwrap();
            let port = server.address().port();
            let client = client(Ipv4Addr::LOCALHOST.into());
            client.set_broadcast(true).unwrap();
            client
                .send_to(b"to all", (Ipv4Addr::new(127, 255, 255, 255), port))
                .unwrap();
            until("both copies of the broadcast are counted", || {
                server.served().dropped().get(&DropCause::RefusedBroadcast) == Some(&2)
            });
            ask((Ipv4Addr::LOCALHOST, port).into());
            let served = server.stop().unwrap();
            assert_eq!(served.answered(), EACH as u64);
            // Every bucket received a copy, so copies are not samples of steering.
            let steered = served.share(BucketServed::steering);
            assert_eq!((steered.hits, steered.samples), (EACH as u64, EACH as u64));
        }
    });
}

/// A link-local address of a namespace's loopback device, where no other machine has to answer for it.
const LINK_LOCAL: &str = "fe80::9";

#[test]
fn a_link_local_address_answers_on_its_own_link() {
    let mut bed_plan = BedPlan::new("fd11::1".parse().unwrap(), vec!["fd12::/120".parse().unwrap()]);
    bed_plan.loopback_ok = false;
    let Some(bed) = namespaces(&bed_plan) else {
        return;
    };
    let ip = |words: String| {
        bed.server
            .run(move || Command::new("ip").args(words.split(' ')).output())
    };
    match ip(format!("-6 addr add {LINK_LOCAL}/64 dev lo nodad")) {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => return eprintln!("skipped: ip: {error}"),
    }
    // A kernel thread adds its route, and waits for what other tests change before.
    until("the address has a route", || {
        let route = ip(format!("-6 route show table local {LINK_LOCAL}")).unwrap();
        route.status.success() && !route.stdout.is_empty()
    });
    undisturbed(|| {
        for engine in engines() {
            for answers in [Answers::PerSend, Answers::Connected] {
                bed.server.run(move || {
                    let mut plan = plan(engine);
                    plan.answers = answers;
                    let server = UdpServer::start(plan).unwrap();
                    // The loopback device is the first of every namespace.
                    let address =
                        SocketAddrV6::new(LINK_LOCAL.parse().unwrap(), server.address().port(), 0, 1);
                    ask(address.into());
                    // A peer whose own address has no scope.
                    let client = client("fd11::1".parse().unwrap());
                    client.send_to(b"asked", address).unwrap();
                    // Its scope is then that of the peer's own address.
                    let (length, from) = client.recv_from(&mut [0; 8]).unwrap();
                    assert_eq!(
                        (length, from.ip(), from.port()),
                        (5, (*address.ip()).into(), address.port())
                    );
                    let served = server.stop().unwrap();
                    assert_eq!(served.answered(), 1 + EACH as u64);
                    let steered = served.share(BucketServed::steering);
                    assert_eq!(steered.hits, steered.samples);
                });
            }
        }
    });
}
