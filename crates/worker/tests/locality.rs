//! The observer reports on which CPU datagrams were received, on loopback and on veth.

use corelane_host::bed::BedPlan;
use corelane_host::{cpus, pin};
use corelane_tests::{namespaces, namespaces_plan, undisturbed, until};
use corelane_worker::WatchError;
use corelane_worker::group::Transport;
use corelane_worker::locality::{Direction, Observer, ObserverSettings, Sighting};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Observes all datagrams to a socket; `None` if that is not permitted.
fn observe(device: &str, destination: SocketAddr, one_in: u32) -> Option<Observer> {
    observe_direction(Direction::Received, device, destination, one_in)
}

fn observe_direction(
    direction: Direction,
    device: &str,
    address: SocketAddr,
    one_in: u32,
) -> Option<Observer> {
    let settings = ObserverSettings {
        device: Some(device.to_owned()),
        transport: Transport::Udp,
        direction,
        address,
        one_in,
    };
    match Observer::new(&settings) {
        Ok(observer) => Some(observer),
        Err(error @ WatchError::NotPermitted) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Sends that many datagrams from each CPU in turn; returns each sender's address and CPU.
fn send_from_every_cpu(ip: IpAddr, to: SocketAddr, count: usize) -> Vec<(SocketAddr, u32)> {
    let send = move |cpu| {
        pin::current_thread(cpu).unwrap();
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        for _ in 0..count {
            socket.send_to(&[7; 16], to).unwrap();
        }
        (socket.local_addr().unwrap(), cpu)
    };
    let allowed = cpus::allowed().unwrap().cpus;
    // Each on its own thread, because pinning is permanent.
    let sender = |cpu| std::thread::spawn(move || send(cpu)).join().unwrap();
    allowed.into_iter().map(sender).collect()
}

fn drain(observer: &mut Observer) -> Vec<Sighting> {
    let mut seen = Vec::new();
    observer
        .drain(usize::MAX, |sighting| seen.push(sighting))
        .unwrap();
    seen
}

/// Drains until there are so many: a busy CPU receives later than it sends.
fn drain_until(observer: &mut Observer, count: usize) -> Vec<Sighting> {
    let mut seen = Vec::new();
    until("enough datagrams are seen", || {
        seen.extend(drain(observer));
        seen.len() >= count
    });
    seen
}

/// On loopback and veth the receive path runs on the sender's CPU: the observer must report that CPU for every
/// datagram.
fn check(observer: &mut Observer, senders: &[(SocketAddr, u32)], to: SocketAddr, count: usize) {
    let mut seen = drain_until(observer, count * senders.len());
    seen.extend(drain(observer));
    for (source, cpu) in senders {
        let theirs: Vec<&Sighting> = seen
            .iter()
            .filter(|sighting| sighting.source == *source)
            .collect();
        assert_eq!(theirs.len(), count, "all datagrams of {source} are seen");
        for sighting in theirs {
            assert_eq!((sighting.cpu, sighting.destination), (*cpu, to));
        }
    }
    assert_eq!(
        seen.len(),
        count * senders.len(),
        "the observer reports nothing else"
    );
}

#[test]
fn datagrams_are_seen_on_the_cpu_that_received_them() {
    undisturbed(|| {
        for ip in ["127.0.0.1", "::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            let receiver = UdpSocket::bind((ip, 0)).unwrap();
            let other = UdpSocket::bind((ip, 0)).unwrap();
            let to = receiver.local_addr().unwrap();
            let Some(mut observer) = observe("lo", to, 1) else {
                return;
            };
            let senders = send_from_every_cpu(ip, to, 50);
            send_from_every_cpu(ip, other.local_addr().unwrap(), 50);
            check(&mut observer, &senders, to, 50);
        }
    });
}

#[test]
fn datagrams_over_veth_are_seen_on_the_cpu_that_received_them() {
    undisturbed(|| {
        let Some(bed) = namespaces(&namespaces_plan()) else {
            return;
        };
        let to: SocketAddr = (bed.server.address(), 7_001).into();
        let device = bed.server.device().to_owned();
        let observed = bed.server.run(move || {
            let receiver = UdpSocket::bind(to).unwrap();
            observe(&device, to, 1).map(|observer| (observer, receiver))
        });
        let Some((mut observer, _receiver)) = observed else {
            return;
        };
        let from = bed.client.address();
        let senders = bed.client.run(move || send_from_every_cpu(from, to, 50));
        check(&mut observer, &senders, to, 50);
    });
}

#[test]
fn datagrams_are_seen_on_the_cpu_and_the_queue_that_they_were_sent_on() {
    undisturbed(|| {
        let allowed = cpus::allowed().unwrap().cpus;
        let plan = BedPlan {
            queues: Some(allowed.len() as u32),
            ..namespaces_plan()
        };
        let Some(bed) = namespaces(&plan) else { return };
        // The last CPU has the first queue, so that CPU and queue cannot be confused.
        let reversed: Vec<Vec<u32>> = allowed.iter().rev().map(|cpu| vec![*cpu]).collect();
        if let Err(error) = bed.server.give_transmit_queues(&reversed) {
            eprintln!("skipped: {error}");
            return;
        }
        let (from, to) = (bed.server.address(), SocketAddr::new(bed.client.address(), 9));
        let device = bed.server.device().to_owned();
        let seen = bed.server.run(move || {
            let mut all = Vec::new();
            for (index, cpu) in allowed.iter().enumerate() {
                let cpu = *cpu;
                // A fixed source port lets the observer select the flow.
                let own = SocketAddr::new(from, 7_100 + index as u16);
                let mut observer = observe_direction(Direction::Sent, &device, own, 1)?;
                let send = move || {
                    pin::current_thread(cpu).unwrap();
                    let socket = UdpSocket::bind(own).unwrap();
                    (0..20).for_each(|_| drop(socket.send_to(&[7; 100], to)));
                };
                std::thread::spawn(send).join().unwrap();
                all.push((
                    cpu,
                    allowed.len() - 1 - index,
                    own,
                    drain_until(&mut observer, 20),
                ));
            }
            Some(all)
        });
        for (cpu, queue, own, seen) in seen.into_iter().flatten() {
            assert_eq!(seen.len(), 20, "all datagrams of {own}");
            for sighting in seen {
                let expected = Sighting {
                    source: own,
                    destination: to,
                    cpu,
                    queue: Some(queue as u16),
                };
                assert_eq!(sighting, expected);
            }
        }
    });
}

#[test]
fn a_sample_is_a_part_of_all() {
    undisturbed(|| {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap();
        let Some(mut observer) = observe("lo", to, 16) else {
            return;
        };
        let senders = send_from_every_cpu(to.ip(), to, 4_000);
        let expected = 4_000 * senders.len() / 16;
        let seen = drain_until(&mut observer, expected / 2).len() + drain(&mut observer).len();
        // Half of the count is far more than ten standard deviations of a binomial count.
        assert!(seen < expected * 2, "{seen} of about {expected}");
    });
}

#[test]
fn a_drain_returns_at_most_the_limit_and_leaves_the_rest() {
    undisturbed(|| {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap();
        let Some(mut observer) = observe("lo", to, 1) else {
            return;
        };
        let all = 20 * send_from_every_cpu(to.ip(), to, 20).len();
        receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        for _ in 0..all {
            receiver.recv(&mut [0; 16]).unwrap();
        }
        assert_eq!(observer.drain(5, |_| {}).unwrap(), 5);
        assert_eq!(drain(&mut observer).len(), all - 5);
        assert!(drain(&mut observer).is_empty());
    });
}
