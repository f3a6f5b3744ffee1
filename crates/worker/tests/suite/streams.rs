//! The TCP test cases. Each gets an engine and is the only user of its network: listeners and the connections to them
//! belong to one engine.

use crate::suite::world::{PATIENCE, World, until};
use corelane_worker::Time;
use corelane_worker::engine::{Cause, ConnectOptions, Engine, Event, Full, Handler, Id, Ops};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// All events of streams, in order, and the listener whose connections echo.
#[derive(Default)]
pub struct Log {
    pub opened: Vec<(Id, Option<Id>, Option<SocketAddr>)>,
    pub bytes: HashMap<Id, Vec<u8>>,
    pub drained: Vec<Id>,
    pub ended: Vec<Id>,
    pub closed: Vec<(Id, Cause)>,
    pub failed: Vec<(Id, Cause)>,
    /// Connections to this listener send back what they receive.
    pub echo: Option<Id>,
    pub echoing: HashSet<Id>,
    pub spent: HashSet<Id>,
}

impl Log {
    pub fn of(&self, id: Id) -> &[u8] {
        self.bytes.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The connections of a listener.
    pub fn accepted(&self, listener: Id) -> Vec<Id> {
        let came = self.opened.iter().filter(|(_, to, _)| *to == Some(listener));
        came.map(|(id, _, _)| *id).collect()
    }

    pub fn is_open(&self, id: Id) -> bool {
        self.opened.iter().any(|(opened, _, _)| *opened == id)
    }

    pub fn cause(&self, id: Id) -> Option<Cause> {
        self.closed
            .iter()
            .find(|(closed, _)| *closed == id)
            .map(|(_, cause)| *cause)
    }
}

impl Handler for Log {
    fn event(&mut self, ops: &mut Ops, _: Time, id: Id, event: Event<'_>) {
        assert!(!self.spent.contains(&id), "{event:?} after the end of {id:?}");
        match event {
            Event::Opened { listener, peer } => {
                self.opened.push((id, listener, peer));
                if listener.is_some() && listener == self.echo {
                    self.echoing.insert(id);
                }
            }
            Event::Bytes(bytes) => {
                assert!(!bytes.is_empty());
                self.bytes.entry(id).or_default().extend_from_slice(bytes);
                if self.echoing.contains(&id) {
                    ops.write(id, bytes).unwrap();
                }
            }
            Event::Drained => self.drained.push(id),
            Event::PeerClosed => {
                self.ended.push(id);
                if self.echoing.contains(&id) {
                    ops.close(id);
                }
            }
            Event::Failed(cause) => self.failed.push((id, cause)),
            Event::Closed(cause) => {
                self.spent.insert(id);
                self.closed.push((id, cause));
            }
            _ => panic!("an event that this suite does not know"),
        }
    }
}

/// A listener.
pub fn listening(engine: &mut impl Engine, world: &dyn World) -> (Id, SocketAddr) {
    let listener = engine.ops().listen(world.listen()).unwrap();
    let address = engine.ops().local_address(listener).unwrap();
    (listener, address)
}

/// A connection to an address: the client's end, and the listener's.
pub fn pair(engine: &mut impl Engine, log: &mut Log, listener: Id, address: SocketAddr) -> (Id, Id) {
    let before = log.accepted(listener).len();
    let client = engine.ops().connect(address, ConnectOptions::default());
    until(engine, log, "both ends are open", |_, log| {
        log.is_open(client) && log.accepted(listener).len() > before
    });
    (client, log.accepted(listener)[before])
}

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index * 31 + index / 251 + seed) as u8)
        .collect()
}

pub fn echo(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log {
        echo: Some(listener),
        ..Log::default()
    };
    let (client, _) = pair(&mut engine, &mut log, listener, address);
    let mut sent = Vec::new();
    for length in [1, 2, 100, 65_535, 65_536, 65_537, 300_000, 1] {
        let bytes = pattern(length, length);
        engine.ops().write(client, &bytes).unwrap();
        sent.extend(bytes);
        until(&mut engine, &mut log, "it came back", |_, log| {
            log.of(client).len() == sent.len()
        });
        assert!(log.of(client) == sent, "{length} bytes came back changed");
    }
    engine.ops().shutdown(client);
    until(&mut engine, &mut log, "the echo has ended", |_, log| {
        log.ended.contains(&client)
    });
    engine.ops().close(client);
    until(&mut engine, &mut log, "both are closed", |_, log| {
        log.closed.len() == 2
    });
    let asked = log.closed.iter().all(|(_, cause)| *cause == Cause::Asked);
    assert!(asked, "{:?}", log.closed);
    let counters = engine.ops().counters().streams;
    let ended = [counters.accepted, counters.connected].map(|of| (of.opened, of.closed, of.open()));
    assert_eq!(ended, [(1, 1, 0); 2]);
    let all = 2 * sent.len() as u64;
    assert_eq!((counters.bytes_sent, counters.bytes_received), (all, all));
}

pub fn each_end_knows_the_other(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    let own = engine.ops().local_address(client).unwrap();
    assert_eq!(own.ip(), address.ip());
    assert_eq!(engine.ops().local_address(server), Some(address));
    assert!(log.opened.contains(&(client, None, Some(address))));
    assert!(log.opened.contains(&(server, Some(listener), Some(own))));
}

pub fn from_a_local_address(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (first, _) = pair(&mut engine, &mut log, listener, address);
    let taken = engine.ops().local_address(first).unwrap();
    let mut free = taken;
    free.set_port(0);
    let mut options = ConnectOptions::default();
    options.local = Some(free);
    let second = engine.ops().connect(address, options);
    until(&mut engine, &mut log, "it is open", |_, log| log.is_open(second));
    let own = engine.ops().local_address(second).unwrap();
    assert!(own.ip() == taken.ip() && own.port() != taken.port(), "{own}");
    options.local = Some(taken);
    let third = engine.ops().connect(address, options);
    until(&mut engine, &mut log, "it was refused", |_, log| {
        log.cause(third).is_some()
    });
    let why = log.cause(third).unwrap();
    assert!(matches!(why, Cause::AddressInUse | Cause::NoAddress), "{why:?}");
    assert_eq!(engine.ops().counters().streams.connected.failed.total(), 1);
}

pub fn refused(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    engine.ops().close(listener);
    until(&mut engine, &mut log, "it is closed", |_, log| {
        log.cause(listener).is_some()
    });
    let client = engine.ops().connect(address, ConnectOptions::default());
    engine.ops().write(client, b"to nobody").unwrap();
    until(&mut engine, &mut log, "it was refused", |_, log| {
        log.cause(client).is_some()
    });
    assert_eq!(log.cause(client), Some(Cause::Refused));
    let failed = engine.ops().counters().streams.connected.failed;
    assert_eq!(failed.of(Cause::Refused), 1);
    assert!(log.opened.is_empty());
}

pub fn half_closed(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    engine.ops().write(client, b"question").unwrap();
    engine.ops().shutdown(client);
    engine.ops().write(client, b"never sent").unwrap();
    until(&mut engine, &mut log, "the end arrived", |_, log| {
        log.ended == [server]
    });
    assert_eq!(log.of(server), b"question");
    engine.ops().write(server, b"answer").unwrap();
    engine.ops().close(server);
    until(&mut engine, &mut log, "the answer's end arrived", |_, log| {
        log.ended.len() == 2
    });
    assert_eq!(log.of(client), b"answer");
    engine.ops().close(client);
    until(&mut engine, &mut log, "both are closed", |_, log| {
        log.closed.len() == 2
    });
    assert_eq!(log.ended, [server, client], "each end is reported once");
}

pub fn aborted(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    engine.ops().abort(client);
    until(&mut engine, &mut log, "both have ended", |_, log| {
        log.closed.len() == 2
    });
    assert_eq!(log.cause(client), Some(Cause::Asked));
    let reset = engine.ops().counters().streams.accepted.broken.of(Cause::Reset);
    assert_eq!((log.cause(server), reset), (Some(Cause::Reset), 1));
}

pub fn aborted_while_not_receiving(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    engine.ops().receive(server, false);
    engine.ops().abort(client);
    until(&mut engine, &mut log, "it is closed", |_, log| {
        log.cause(client).is_some()
    });
    engine.ops().write(server, b"to nobody").unwrap();
    until(&mut engine, &mut log, "the other end noticed", |_, log| {
        log.cause(server).is_some()
    });
    assert_eq!(log.cause(server), Some(Cause::Reset));
}

pub fn mixed_pieces(mut engine: impl Engine, world: &dyn World) {
    static STATIC: [u8; 200_000] = [b's'; 200_000];
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let mut file = tempfile::tempfile().unwrap();
    let content = pattern(300_000, 5);
    file.write_all(&content).unwrap();
    let (file, shared): (_, Arc<[u8]>) = (Arc::new(file), pattern(70_000, 9).into());
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    let mut expected = Vec::new();
    for round in 0..3 {
        let ops = engine.ops();
        ops.write(server, b"head").unwrap();
        ops.write_static(server, &STATIC);
        ops.write(server, &[]).unwrap();
        ops.write_shared(server, &shared, 10..70_000);
        ops.write_file(server, &file, 1_000, 299_000);
        ops.write_static(server, &[]);
        ops.write(server, &[round; 10]).unwrap();
        assert_eq!(ops.queued(server), 4 + 200_000 + 69_990 + 299_000 + 10);
        expected.extend_from_slice(b"head");
        expected.extend_from_slice(&STATIC);
        expected.extend_from_slice(&shared[10..]);
        expected.extend_from_slice(&content[1_000..]);
        expected.extend_from_slice(&[round; 10]);
        until(&mut engine, &mut log, "all arrived", |_, log| {
            log.of(client).len() == expected.len()
        });
        assert!(log.of(client) == expected, "round {round} came out of order");
        assert_eq!(engine.ops().queued(server), 0);
    }
}

pub fn short_file(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[7; 1_000]).unwrap();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    engine.ops().write_file(server, &Arc::new(file), 0, 2_000);
    until(&mut engine, &mut log, "it was closed", |_, log| {
        log.cause(server).is_some()
    });
    assert_eq!(log.cause(server), Some(Cause::Truncated));
    until(&mut engine, &mut log, "the earlier bytes arrived", |_, log| {
        log.ended.contains(&client)
    });
    assert_eq!(log.of(client), [7; 1_000]);
}

pub fn full_queue(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    engine.ops().receive(client, false);
    let chunk = pattern(16_384, 3);
    let mut written = 0;
    // More than the send and receive buffers and the connection's own queue hold together.
    while written < 64 << 20 {
        match engine.ops().write(server, &chunk) {
            Ok(()) => written += chunk.len(),
            Err(Full) if engine.ops().queued(server) + 16_384 > 1 << 20 => {
                let before = engine.ops().queued(server);
                let now = engine.now();
                engine.turn(now, &mut log).unwrap();
                if engine.ops().queued(server) == before {
                    break;
                }
            }
            Err(Full) => panic!("full with {} queued", engine.ops().queued(server)),
        }
    }
    assert!(written < 64 << 20, "a stopped reader accepted everything");
    assert!(engine.ops().counters().full >= 1);
    engine.ops().notify_drained(server);
    engine.ops().receive(client, true);
    until(&mut engine, &mut log, "it drained", |_, log| {
        log.drained == [server]
    });
    until(&mut engine, &mut log, "all arrived", |_, log| {
        log.of(client).len() == written
    });
    assert!(log.of(client).chunks(chunk.len()).all(|piece| piece == chunk));
    engine.ops().notify_drained(server);
    until(
        &mut engine,
        &mut log,
        "an empty queue is drained at once",
        |_, log| log.drained.len() == 2,
    );
}

pub fn stopped_reader(mut engine: impl Engine, world: &dyn World) {
    static BODY: [u8; 32 << 20] = [1; 32 << 20];
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log {
        echo: Some(listener),
        ..Log::default()
    };
    let (stopped, feeding) = pair(&mut engine, &mut log, listener, address);
    engine.ops().receive(stopped, false);
    engine.ops().write_static(feeding, &BODY);
    let (client, _) = pair(&mut engine, &mut log, listener, address);
    for round in 1..=100 {
        engine.ops().write(client, b"ping").unwrap();
        until(&mut engine, &mut log, "the other is served", |_, log| {
            log.of(client).len() == 4 * round
        });
    }
    assert!(engine.ops().queued(feeding) > 0);
    engine.ops().receive(stopped, true);
    until(&mut engine, &mut log, "all arrived", |_, log| {
        log.of(stopped).len() == BODY.len()
    });
}

pub fn discarded(mut engine: impl Engine, world: &dyn World) {
    static BODY: [u8; 32 << 20] = [1; 32 << 20];
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    engine.ops().receive(client, false);
    engine.ops().write_static(server, &BODY);
    let mut before = u64::MAX;
    while engine.ops().queued(server) < before {
        before = engine.ops().queued(server);
        let now = engine.now();
        engine.turn(now, &mut log).unwrap();
    }
    let dropped = engine.ops().discard(server);
    assert_eq!((dropped, engine.ops().queued(server)), (before, 0));
    engine.ops().notify_drained(server);
    engine.ops().shutdown(server);
    engine.ops().receive(client, true);
    until(&mut engine, &mut log, "the end arrived", |_, log| {
        log.ended == [client]
    });
    assert_eq!(log.of(client).len() as u64, BODY.len() as u64 - dropped);
    assert_eq!(log.drained, [server]);
    assert_eq!(engine.ops().discard(server), 0, "nothing is left to drop");
}

pub fn receive_off(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    let (witness, other) = pair(&mut engine, &mut log, listener, address);
    engine.ops().receive(server, false);
    for _ in 0..3 {
        let before = log.of(server).len();
        engine.ops().write(client, b"kept").unwrap();
        let seen = log.of(other).len();
        engine.ops().write(witness, b"seen").unwrap();
        until(&mut engine, &mut log, "the other arrived", |_, log| {
            log.of(other).len() == seen + 4
        });
        assert_eq!(log.of(server).len(), before);
        engine.ops().receive(server, true);
        until(&mut engine, &mut log, "it arrived", |_, log| {
            log.of(server).len() == before + 4
        });
        engine.ops().receive(server, false);
        let now = engine.now();
        engine.turn(now, &mut log).unwrap();
    }
}

pub fn receive_off_in_event(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    let sent = pattern(3_000_000, 1);
    static END: [u8; 1] = [0xee];
    let shared: Arc<[u8]> = sent.clone().into();
    engine.ops().write_shared(client, &shared, 0..sent.len());
    engine.ops().write_static(client, &END);
    engine.ops().shutdown(client);
    // Each event turns receiving off, so that nothing may be delivered before it is on again.
    while !log.ended.contains(&server) {
        let mut off = false;
        let mut handler = |ops: &mut Ops, now: Time, id: Id, event: Event<'_>| {
            if id == server && matches!(event, Event::Bytes(_)) {
                assert!(!off, "bytes arrived while receiving was off");
                off = true;
                ops.receive(id, false);
            }
            log.event(ops, now, id, event);
        };
        for _ in 0..3 {
            let until = engine.now() + Duration::from_millis(1);
            engine.turn(until, &mut handler).unwrap();
        }
        engine.ops().receive(server, true);
    }
    assert_eq!(log.of(server).len(), sent.len() + 1);
    assert!(log.of(server)[..sent.len()] == sent);
}

pub fn before_it_is_open(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log {
        echo: Some(listener),
        ..Log::default()
    };
    let client = engine.ops().connect(address, ConnectOptions::default());
    engine.ops().write(client, b"early ").unwrap();
    engine.ops().write_static(client, b"bird");
    engine.ops().shutdown(client);
    until(&mut engine, &mut log, "it came back", |_, log| {
        log.ended.contains(&client)
    });
    assert_eq!(log.of(client), b"early bird");
    let abandoned = engine.ops().connect(address, ConnectOptions::default());
    engine.ops().close(abandoned);
    until(&mut engine, &mut log, "it is closed", |_, log| {
        log.cause(abandoned).is_some()
    });
    assert_eq!(log.cause(abandoned), Some(Cause::Asked));
}

pub fn close_after_writing(mut engine: impl Engine, world: &dyn World) {
    static BODY: [u8; 8 << 20] = [2; 8 << 20];
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    engine.ops().write_static(server, &BODY);
    engine.ops().close(server);
    assert_eq!(engine.ops().queued(server), 0, "a closed connection has no queue");
    until(&mut engine, &mut log, "the end arrived", |_, log| {
        log.ended == [client]
    });
    assert!(log.of(client) == BODY);
    assert_eq!(log.cause(server), Some(Cause::Asked));
}

pub fn stale_id(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let (client, server) = pair(&mut engine, &mut log, listener, address);
    // In transit when the owner closes: neither tenant of the slot may receive it.
    engine.ops().write(client, b"too late").unwrap();
    engine.ops().close(server);
    until(&mut engine, &mut log, "it is closed", |_, log| {
        log.cause(server).is_some()
    });
    let (_, next) = pair(&mut engine, &mut log, listener, address);
    let (_, another) = pair(&mut engine, &mut log, listener, address);
    for id in [server, client] {
        engine.ops().abort(id);
    }
    engine.ops().write(server, b"to nobody").unwrap();
    until(&mut engine, &mut log, "the client is closed", |_, log| {
        log.cause(client).is_some()
    });
    assert!(log.of(next).is_empty() && log.of(another).is_empty());
    assert!(next != server && another != server);
    assert_eq!(log.cause(next), None);
}

pub fn thousand_connections(mut engine: impl Engine, world: &dyn World) {
    const ALL: usize = 1_000;
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log {
        echo: Some(listener),
        ..Log::default()
    };
    let mut clients = Vec::new();
    // No more at once than fit any backlog.
    for _ in 0..ALL / 100 {
        let mut options = ConnectOptions::default();
        options.timeout = Some(PATIENCE);
        clients.extend((0..100).map(|_| engine.ops().connect(address, options)));
        until(&mut engine, &mut log, "all are open", |_, log| {
            log.opened.len() == 2 * clients.len()
        });
    }
    for round in 1..=3 {
        for client in &clients {
            let number = client.slot() as u32;
            engine.ops().write(*client, &number.to_be_bytes()).unwrap();
        }
        until(&mut engine, &mut log, "all came back", |_, log| {
            clients.iter().all(|client| log.of(*client).len() == 4 * round)
        });
    }
    for client in clients {
        let number = (client.slot() as u32).to_be_bytes();
        assert_eq!(log.of(client), [number; 3].concat());
        engine.ops().close(client);
    }
    until(&mut engine, &mut log, "all are closed", |_, log| {
        log.closed.len() == 2 * ALL
    });
    let counters = engine.ops().counters().streams;
    let ended = [counters.accepted, counters.connected].map(|of| (of.closed, of.broken.total()));
    assert_eq!(ended, [(ALL as u64, 0); 2]);
}

pub fn close_in_event(mut engine: impl Engine, world: &dyn World) {
    let (listener, address) = listening(&mut engine, world);
    let mut log = Log::default();
    let clients: Vec<Id> = (0..4)
        .map(|_| engine.ops().connect(address, ConnectOptions::default()))
        .collect();
    for client in &clients {
        engine.ops().write(*client, b"hello").unwrap();
    }
    // Some connections are closed and some aborted when they open, the others when they are written to.
    let mut number = 0;
    let end = engine.now() + PATIENCE;
    while log.ended.len() + log.closed.len() < 2 * clients.len() && engine.now() < end {
        let mut handler = |ops: &mut Ops, now: Time, id: Id, event: Event<'_>| {
            let (opens, speaks) = match event {
                Event::Opened {
                    listener: Some(_), ..
                } => (true, false),
                Event::Bytes(_) => (false, true),
                _ => (false, false),
            };
            log.event(ops, now, id, event);
            if opens {
                number += 1;
                match number {
                    1 => ops.close(id),
                    2 => ops.abort(id),
                    _ => {}
                }
            } else if speaks {
                ops.close(id);
                ops.close(id);
            }
        };
        let until = engine.now() + Duration::from_millis(5);
        engine.turn(until, &mut handler).unwrap();
    }
    assert_eq!(log.accepted(listener).len(), 4);
    assert!(
        log.accepted(listener)
            .iter()
            .all(|id| log.cause(*id) == Some(Cause::Asked))
    );
}
