//! Finds the group of a process whose threads wait on one socket each, and the thread of each socket. The process is
//! the test itself.

use corelane_rss::steer::{self, Families};
use corelane_rss::{HashFields, IndirectionTable, Key, Steering, Tuple};
use corelane_tests::{PATIENCE, undisturbed, until};
use corelane_worker::adopt::{AdoptError, Adopted, Sought};
use corelane_worker::group::{self, GroupSettings, Transport};
use corelane_worker::program::ProgramError;
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The group at this address: other tests of this process have sockets of the same number at other addresses.
fn sought(address: SocketAddr) -> Sought {
    Sought {
        process: std::process::id(),
        port: address.port(),
        transport: Some(Transport::Udp),
        address: Some(address),
    }
}

/// Replies with its index in the group; an empty datagram ends it.
fn reply(socket: &UdpSocket, place: u8) {
    // So that a test that fails ends as well.
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut payload = [0; 4];
    loop {
        let (length, from) = socket.recv_from(&mut payload).unwrap();
        if length == 0 {
            return;
        }
        socket.send_to(&[place], from).unwrap();
    }
}

#[test]
fn threads_that_wait_on_a_socket_each_are_found_and_steered() {
    undisturbed(|| {
        let loopback = "127.0.0.1:0".parse().unwrap();
        let sockets = group::udp(loopback, 2, None, &GroupSettings::default()).unwrap();
        let server = sockets[0].local_addr().unwrap();
        thread::scope(|scope| {
            for (place, socket) in sockets.iter().enumerate() {
                scope.spawn(move || reply(socket, place as u8));
            }
            let mut group = None;
            until("a thread waits on each socket", || {
                match Adopted::find(sought(server)) {
                    Ok(found) => {
                        let waited_for = found.members.iter().all(|member| member.owners.len() == 1);
                        group = Some(found);
                        waited_for
                    }
                    Err(error @ AdoptError::NotPermitted { .. }) => {
                        eprintln!("skipped: {error}");
                        true
                    }
                    Err(error) => panic!("{error}"),
                }
            });
            if let Some(group) = group {
                assert_eq!(
                    (group.transport, group.address, group.order_is_certain),
                    (Transport::Udp, server, true)
                );
                let threads: Vec<_> = group
                    .members
                    .iter()
                    .map(|member| member.owners[0].thread)
                    .collect();
                assert!(threads[0].is_some() && threads[0] != threads[1], "{threads:?}");
                steered(&group, server);
                group.detach().unwrap();
                assert!(matches!(group.detach(), Err(ProgramError::None)));
            }
            // Steering everything to one bucket ends one thread, then the other.
            for place in 0..2 {
                let entries = vec![corelane_rss::Bucket::new(place); 128];
                let steering = Steering {
                    table: IndirectionTable::from_entries(entries).unwrap(),
                    ..steering()
                };
                let program = steer::program(&steering, Families::V4).unwrap();
                corelane_worker::program::attach(&sockets[0], &program).unwrap();
                UdpSocket::bind("127.0.0.1:0")
                    .unwrap()
                    .send_to(&[], server)
                    .unwrap();
            }
        });
    });
}

#[test]
fn a_group_is_found_while_other_sockets_open_and_close() {
    let loopback = "127.0.0.1:0".parse().unwrap();
    let sockets = group::udp(loopback, 2, None, &GroupSettings::default()).unwrap();
    let server = sockets[0].local_addr().unwrap();
    let is_over = AtomicBool::new(false);
    let others = || {
        let mut open = VecDeque::new();
        while !is_over.load(Ordering::Relaxed) {
            open.push_back(UdpSocket::bind("127.0.0.1:0").unwrap());
            if open.len() > 200 {
                open.pop_front();
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(others);
        let found: Vec<_> = (0..150).map(|_| Adopted::find(sought(server))).collect();
        is_over.store(true, Ordering::Relaxed);
        for group in found {
            match group {
                Ok(group) => assert_eq!(group.members.len(), 2),
                Err(error @ AdoptError::NotPermitted { .. }) => eprintln!("skipped: {error}"),
                Err(error) => panic!("{error}"),
            }
        }
    });
}

fn steering() -> Steering {
    Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, 2).unwrap(),
        cpus: vec![0, 0],
        generation: 0,
    }
}

/// Once the program is attached, every flow gets its reply from the socket that the hash selects.
fn steered(group: &Adopted, server: SocketAddr) {
    group
        .attach(&steer::program(&steering(), group.families).unwrap())
        .unwrap();
    for _ in 0..50 {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client.send_to(&[1], server).unwrap();
        let mut answer = [0];
        client.recv(&mut answer).unwrap();
        let tuple = Tuple::new(client.local_addr().unwrap(), server).unwrap();
        assert_eq!(
            usize::from(answer[0]),
            steering().steerer().bucket_of(&tuple).index(),
            "{tuple}"
        );
    }
}

#[test]
fn a_port_that_is_not_served_is_named() {
    let error = Adopted::find(sought(([127, 0, 0, 1], 1).into())).unwrap_err();
    assert!(
        error.to_string().contains("nor its children serve port 1:"),
        "{error}"
    );
}
