//! The test case of sockets on every address.

use crate::suite::world::{Notes, World, send, until};
use corelane_worker::engine::{Engine, Id};
use std::net::SocketAddr;

pub fn every_address(mut engine: impl Engine, world: &dyn World) {
    let server = engine.ops().datagrams(world.everywhere()).unwrap();
    let port = engine.ops().local_address(server).unwrap().port();
    let asked: Vec<SocketAddr> = (1..=64).map(|last| ([127, 0, 9, last], port).into()).collect();
    // A connected socket receives only from its peer.
    let connect = |address: &SocketAddr| engine.ops().datagrams(world.connect(*address)).unwrap();
    let clients: Vec<Id> = asked.iter().map(connect).collect();
    let mut notes = Notes::with_echo(server);
    for client in &clients {
        for payload in [&[1; 40], &[2; 40]] {
            send(engine.ops(), *client, None, payload);
        }
    }
    until(&mut engine, &mut notes, "all came back", |_, notes| {
        clients.iter().all(|client| notes.of(*client).len() == 2)
    });
    for client in &clients {
        assert_eq!(notes.of(*client), [[1; 40], [2; 40]]);
    }
    let received = notes.datagrams.iter().filter(|note| note.id == server);
    let mut destinations: Vec<_> = received.filter_map(|note| note.destination).collect();
    destinations.sort_unstable();
    destinations.dedup();
    assert_eq!(destinations, asked);
    assert_eq!(engine.ops().counters().send_failed.total(), 0);
}
