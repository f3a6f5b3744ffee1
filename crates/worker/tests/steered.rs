//! Groups whose table changes while they serve: nothing is lost, and everything goes where the current table directs
//! it.

use corelane_rss::steer::{self, Families};
use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Steering, Tuple};
use corelane_tests::undisturbed;
use corelane_worker::group::{self, GroupSettings};
use corelane_worker::steered::{ChangeError, SteeredGroup};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const BUCKETS: usize = 4;

/// Changes per test, in at most a tenth of the time that they take at the maximum supported rate of 10,000 per minute.
const CHANGES: u32 = 1000;

fn steering() -> Steering {
    Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, BUCKETS).unwrap(),
        cpus: vec![0; BUCKETS],
        generation: 0,
    }
}

/// The table with every entry moved by `by` buckets.
fn turned(by: u32) -> IndirectionTable {
    let entries = (0..128).map(|entry| Bucket::new(((entry + by) % BUCKETS as u32) as u16));
    IndirectionTable::from_entries(entries.collect()).unwrap()
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

#[test]
fn every_datagram_goes_where_the_table_in_force_says_through_a_thousand_changes() {
    undisturbed(|| {
        let program = steer::program(&steering(), Families::V4).unwrap();
        let sockets = group::udp(loopback(), BUCKETS, Some(&program), &GroupSettings::default()).unwrap();
        let server = sockets[0].local_addr().unwrap();
        let mut group = SteeredGroup::new(&sockets[0], BUCKETS, Families::V4, steering()).unwrap();
        let clients: Vec<UdpSocket> = (0..16).map(|_| UdpSocket::bind(loopback()).unwrap()).collect();
        for socket in &sockets {
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        }
        for change in 1..=CHANGES {
            assert_eq!(group.change(turned(change)).unwrap(), 128);
            let steerer = group.steering().steerer();
            for client in &clients {
                client.send_to(&change.to_be_bytes(), server).unwrap();
                let tuple = Tuple::new(client.local_addr().unwrap(), server).unwrap();
                let bucket = steerer.bucket_of(&tuple).index();
                let mut payload = [0; 4];
                let (_, from) = sockets[bucket]
                    .recv_from(&mut payload)
                    .expect("a datagram arrived");
                assert_eq!(
                    (payload, from),
                    (change.to_be_bytes(), client.local_addr().unwrap())
                );
            }
        }
        assert_eq!(group.steering().generation, u64::from(CHANGES));
    });
}

#[test]
fn no_connection_is_refused_or_reset_by_changes_under_way() {
    let program = steer::program(&steering(), Families::V4).unwrap();
    let listeners = group::tcp(
        loopback(),
        BUCKETS,
        Some(&program),
        1024,
        &GroupSettings::default(),
    )
    .unwrap();
    let server = listeners[0].local_addr().unwrap();
    let mut group = SteeredGroup::new(&listeners[0], BUCKETS, Families::V4, steering()).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for listener in &listeners {
            // Each ends with the first connection that requests it.
            scope.spawn(move || {
                for connection in listener.incoming() {
                    let mut connection = connection.unwrap();
                    let mut byte = [0];
                    connection.read_exact(&mut byte).unwrap();
                    if byte == [0] {
                        return;
                    }
                    connection.write_all(&byte).unwrap();
                }
            });
        }
        let client = scope.spawn(|| {
            let mut connections = 0_u32;
            while !stop.load(Ordering::Relaxed) || connections < 100 {
                let mut connection = TcpStream::connect(server).expect("not refused");
                connection.write_all(&[1]).expect("not reset");
                let mut byte = [0];
                connection.read_exact(&mut byte).expect("not reset");
                connections += 1;
            }
        });
        for change in 1..=CHANGES {
            group.change(turned(change)).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        client.join().unwrap();
        // Each listener in turn gets all entries, and a connection that ends it.
        for bucket in 0..BUCKETS {
            let to = Bucket::new(bucket as u16);
            group
                .change(IndirectionTable::from_entries(vec![to; 128]).unwrap())
                .unwrap();
            TcpStream::connect(server).unwrap().write_all(&[0]).unwrap();
        }
    });
}

/// The bucket whose socket receives a datagram of this client.
fn receiver(sockets: &[UdpSocket], client: &UdpSocket) -> usize {
    client.send_to(&[1], sockets[0].local_addr().unwrap()).unwrap();
    let receives = |socket: &UdpSocket| socket.recv_from(&mut [0]).is_ok();
    sockets.iter().position(receives).expect("a socket received it")
}

#[test]
fn a_change_reaches_all_groups_or_none() {
    let program = steer::program(&steering(), Families::V4).unwrap();
    let open = || group::udp(loopback(), BUCKETS, Some(&program), &GroupSettings::default()).unwrap();
    let groups = [open(), open()];
    // On loopback a datagram is queued when its send returns.
    let sockets = groups.iter().flatten();
    sockets.for_each(|socket| socket.set_nonblocking(true).unwrap());
    let mut group = SteeredGroup::new(&groups[0][0], BUCKETS, Families::V4, steering()).unwrap();
    group.also(&groups[1][1], Families::V4).unwrap();
    let client = UdpSocket::bind(loopback()).unwrap();
    let all_to = |bucket| IndirectionTable::from_entries(vec![Bucket::new(bucket); 128]).unwrap();
    let receivers = || groups.each_ref().map(|sockets| receiver(sockets, &client));
    group.change(all_to(2)).unwrap();
    assert_eq!(receivers(), [2, 2]);
    // No group: the kernel rejects the program.
    group.also(&client, Families::V4).unwrap();
    assert!(matches!(group.change(all_to(3)), Err(ChangeError::Program(_))));
    assert_eq!(group.steering().table, all_to(2));
    assert_eq!(receivers(), [2, 2]);
}

#[test]
fn only_moved_entries_are_reported() {
    let program = steer::program(&steering(), Families::V4).unwrap();
    let sockets = group::udp(loopback(), BUCKETS, Some(&program), &GroupSettings::default()).unwrap();
    let mut group = SteeredGroup::new(&sockets[0], BUCKETS, Families::V4, steering()).unwrap();
    let reported = Arc::<Mutex<Vec<_>>>::default();
    let recorder = Arc::clone(&reported);
    group.on_move(move |moved| {
        let moves = moved
            .entries
            .iter()
            .map(|entry| (entry.entry, entry.from.index(), entry.to.index()));
        recorder
            .lock()
            .unwrap()
            .push((moved.steering.generation, moves.collect::<Vec<_>>()));
    });
    assert_eq!(group.change(steering().table).unwrap(), 0);
    let mut entries = steering().table.entries().to_vec();
    (entries[5], entries[9]) = (Bucket::new(3), Bucket::new(0));
    assert_eq!(
        group
            .change(IndirectionTable::from_entries(entries).unwrap())
            .unwrap(),
        2
    );
    assert_eq!(*reported.lock().unwrap(), [(1, vec![(5, 1, 3), (9, 1, 0)])]);
    let wide = IndirectionTable::round_robin(128, BUCKETS + 1).unwrap();
    assert!(matches!(
        group.change(wide),
        Err(ChangeError::Buckets { named: 5, sockets: 4 })
    ));
    let long = IndirectionTable::round_robin(256, BUCKETS).unwrap();
    assert!(matches!(group.change(long), Err(ChangeError::Size { .. })));
    assert_eq!(reported.lock().unwrap().len(), 1);
}
