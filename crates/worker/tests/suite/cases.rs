//! The test cases. Each gets an engine and matching sockets, and is the only user of its network.

use crate::suite::world::{Notes, World, anywhere, send, settle, until};
use corelane_tests::PATIENCE;
use corelane_worker::Time;
use corelane_worker::engine::{Cause, Engine, Event, Full, Id, Ops};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Fewer than the kernel queues for one socket by default.
const WINDOW: usize = 64;

/// Registers a bound socket that receives.
fn bound(engine: &mut impl Engine, world: &dyn World) -> (Id, SocketAddr) {
    let id = engine.ops().datagrams(world.bind(anywhere())).unwrap();
    let address = engine.ops().local_address(id).unwrap();
    (id, address)
}

/// Registers a connected socket that receives.
fn connected(engine: &mut impl Engine, world: &dyn World, peer: SocketAddr) -> Id {
    engine.ops().datagrams(world.connect(peer)).unwrap()
}

pub fn echo(mut engine: impl Engine, world: &dyn World) {
    let (server, address) = bound(&mut engine, world);
    let client = connected(&mut engine, world, address);
    let mut notes = Notes::with_echo(server);
    let payloads: Vec<Vec<u8>> = (0..WINDOW as u8).map(|index| vec![index; 40]).collect();
    for payload in &payloads {
        send(engine.ops(), client, None, payload);
    }
    until(&mut engine, &mut notes, "all came back", |_, notes| {
        notes.of(client).len() == payloads.len()
    });
    assert_eq!(notes.of(client), payloads);
    assert_eq!(notes.of(server), payloads);
    assert!(notes.datagrams.iter().all(|note| !note.truncated));
    let peers = notes.datagrams.iter().filter(|note| note.id == client);
    assert!(peers.into_iter().all(|note| note.peer == address));
    let counters = engine.ops().counters();
    assert_eq!((counters.received, counters.truncated), (128, 0));
    assert_eq!(counters.send_failed.total(), 0);
    until(&mut engine, &mut notes, "all were counted", |ops, _| {
        ops.counters().sent == 128
    });
}

pub fn order(mut engine: impl Engine, world: &dyn World) {
    const FLOWS: usize = 8;
    const ROUNDS: u32 = 50;
    let (server, address) = bound(&mut engine, world);
    let clients: Vec<Id> = (0..FLOWS)
        .map(|_| connected(&mut engine, world, address))
        .collect();
    let mut notes = Notes::with_echo(server);
    for round in 0..ROUNDS {
        for client in &clients {
            for index in 0..8u32 {
                let number = round * 8 + index;
                let payload = vec![number.to_be_bytes(); 1 + number as usize % 7].concat();
                send(engine.ops(), *client, None, &payload);
            }
        }
        let expected = (round as usize + 1) * 8 * FLOWS * 2;
        until(&mut engine, &mut notes, "the round came back", |_, notes| {
            notes.datagrams.len() == expected
        });
    }
    for client in clients {
        let numbers: Vec<u32> = notes
            .of(client)
            .iter()
            .map(|payload| u32::from_be_bytes(payload[..4].try_into().unwrap()))
            .collect();
        assert_eq!(numbers, (0..ROUNDS * 8).collect::<Vec<_>>());
    }
}

pub fn lengths(mut engine: impl Engine, world: &dyn World) {
    let (server, address) = bound(&mut engine, world);
    let client = connected(&mut engine, world, address);
    let mut notes = Notes::with_echo(server);
    let lengths = [
        0, 1, 0, 510, 510, 509, 1_472, 9_000, 32_768, 32_768, 65_507, 0, 65_507,
    ];
    for (sent, length) in lengths.into_iter().enumerate() {
        let payload: Vec<u8> = (0..length).map(|index| (index * 31 + sent) as u8).collect();
        send(engine.ops(), client, None, &payload);
        until(&mut engine, &mut notes, "it came back", |_, notes| {
            notes.of(client).len() == sent + 1
        });
        assert_eq!(notes.of(client)[sent], payload, "{length} bytes");
    }
}

pub fn stale_id(mut engine: impl Engine, world: &dyn World) {
    let (sender, _) = bound(&mut engine, world);
    let (first, address) = bound(&mut engine, world);
    let mut notes = Notes::default();
    send(engine.ops(), sender, Some(address), b"for the first");
    until(&mut engine, &mut notes, "it arrived", |_, notes| {
        notes.datagrams.len() == 1
    });
    // Sent and not lent yet: neither tenant of the slot may receive it.
    send(engine.ops(), sender, Some(address), b"too late");
    engine.ops().close(first);
    until(&mut engine, &mut notes, "it closed", |_, notes| {
        notes.closed == [first]
    });
    let second = engine.ops().datagrams(world.bind(address)).unwrap();
    assert_eq!((first.slot(), first != second), (second.slot(), true));
    settle(&mut engine, &mut notes);
    send(engine.ops(), sender, Some(address), b"for the second");
    until(&mut engine, &mut notes, "it arrived", |_, notes| {
        notes.of(second).contains(&b"for the second".as_slice())
    });
    assert_eq!(notes.of(first), [b"for the first"]);
    engine.ops().receive(first, false);
    engine.ops().close(first);
    send(engine.ops(), sender, Some(address), b"still there");
    until(&mut engine, &mut notes, "it arrived", |_, notes| {
        notes.of(second).contains(&b"still there".as_slice())
    });
    assert_eq!(notes.closed, [first], "an expired id closes nothing");
}

pub fn full_arena(mut engine: impl Engine, world: &dyn World) {
    let (server, address) = bound(&mut engine, world);
    let client = connected(&mut engine, world, address);
    let mut notes = Notes::default();
    for round in 1..=3 {
        let mut queued = 0;
        let refused = loop {
            let result = engine.ops().send_to(client, None, 2_000, |buffer| buffer.fill(7));
            match result {
                Ok(()) => queued += 1,
                Err(full) => break full,
            }
        };
        assert_eq!((queued, refused), (32, Full), "65,536 bytes hold 32 of 2,048");
        assert_eq!(engine.ops().counters().full, round);
        until(&mut engine, &mut notes, "all arrived", |_, notes| {
            notes.of(server).len() == 32 * round as usize
        });
        // The last completions release the arena.
        until(&mut engine, &mut notes, "all were sent", |ops, _| {
            ops.counters().sent == 32 * round
        });
    }
}

pub fn truncation(mut engine: impl Engine, world: &dyn World) {
    let (server, address) = bound(&mut engine, world);
    let client = connected(&mut engine, world, address);
    let mut notes = Notes::default();
    for length in [99usize, 100, 101, 5_000] {
        let payload: Vec<u8> = (0..length).map(|index| index as u8).collect();
        send(engine.ops(), client, None, &payload);
    }
    until(&mut engine, &mut notes, "all arrived", |_, notes| {
        notes.of(server).len() == 4
    });
    let seen: Vec<(usize, bool)> = notes
        .datagrams
        .iter()
        .map(|note| (note.payload.len(), note.truncated))
        .collect();
    assert_eq!(seen, [(99, false), (100, false), (100, true), (100, true)]);
    let beginning: Vec<u8> = (0..100).collect();
    assert_eq!(notes.datagrams[3].payload, beginning);
    assert_eq!(engine.ops().counters().truncated, 2);
}

pub fn oversize(mut engine: impl Engine, world: &dyn World) {
    let (server, address) = bound(&mut engine, world);
    let client = connected(&mut engine, world, address);
    let mut notes = Notes::default();
    send(engine.ops(), client, None, b"before");
    send(engine.ops(), client, None, &[0; 65_508]);
    let unfilled = |_: &mut [u8]| panic!("there is no room for that much");
    engine.ops().send_to(client, None, 65_536, unfilled).unwrap();
    send(engine.ops(), client, None, b"after");
    until(
        &mut engine,
        &mut notes,
        "two failed and two arrived",
        |_, notes| notes.failed.len() == 2 && notes.of(server).len() == 2,
    );
    assert_eq!(notes.failed, [(client, Cause::TooLarge); 2]);
    assert_eq!(notes.of(server), [b"before".as_slice(), b"after"]);
    until(&mut engine, &mut notes, "both were counted", |ops, _| {
        ops.counters().sent == 2
    });
    let failed = engine.ops().counters().send_failed;
    assert_eq!((failed.of(Cause::TooLarge), failed.total()), (2, 2));
}

pub fn wake(mut engine: impl Engine, _: &dyn World) {
    let mut notes = Notes::default();
    let waker = engine.waker();
    for round in 1..=100 {
        let waker = waker.clone();
        let waking = std::thread::spawn(move || (0..3).for_each(|_| waker.wake()));
        while notes.woken < round {
            // Only the wake ends this turn; in the simulator it returns at once: no other event is possible.
            engine.turn(Time::NEVER, &mut notes).unwrap();
        }
        waking.join().unwrap();
    }
    // Three wakes cause at most three events, and a wake after the last check is reported now.
    settle(&mut engine, &mut notes);
    let woken = notes.woken;
    assert!((100..=300).contains(&woken), "{woken}");
    waker.wake();
    waker.wake();
    engine.turn(Time::NEVER, &mut notes).unwrap();
    assert_eq!(notes.woken, woken + 1);
    drop(engine);
    waker.wake();
}

pub fn deadline(mut engine: impl Engine, world: &dyn World) {
    let (_, _) = bound(&mut engine, world);
    let mut notes = Notes::default();
    settle(&mut engine, &mut notes);
    let end = engine.now() + Duration::from_millis(30);
    let mut turns = 0;
    while engine.now() < end {
        engine.turn(end, &mut notes).unwrap();
        turns += 1;
    }
    assert!(turns <= 3, "{turns} turns to sleep once: it does not wait");
    assert!(notes.datagrams.is_empty());
}

pub fn past_deadline(mut engine: impl Engine, world: &dyn World) {
    let (server, address) = bound(&mut engine, world);
    let client = connected(&mut engine, world, address);
    let mut notes = Notes::with_echo(server);
    // Each of these would hang if it waited.
    for _ in 0..100 {
        engine.turn(Time::default(), &mut notes).unwrap();
    }
    send(engine.ops(), client, None, b"still served");
    let deadline = engine.now() + PATIENCE;
    while notes.of(client).is_empty() && engine.now() < deadline {
        // The virtual clock stands still unless an engine waits.
        let now = engine.now();
        engine.turn(now, &mut notes).unwrap();
        if engine.now() == now {
            engine.turn(now + Duration::from_micros(10), &mut notes).unwrap();
        }
    }
    assert_eq!(notes.of(client), [b"still served"]);
}

pub fn refused(mut engine: impl Engine, world: &dyn World) {
    let (gone, address) = bound(&mut engine, world);
    let mut notes = Notes::default();
    engine.ops().close(gone);
    until(&mut engine, &mut notes, "it closed", |_, notes| {
        notes.closed == [gone]
    });
    let client = connected(&mut engine, world, address);
    send(engine.ops(), client, None, b"anyone?");
    until(&mut engine, &mut notes, "it was refused", |_, notes| {
        !notes.failed.is_empty()
    });
    assert_eq!(notes.failed, [(client, Cause::Refused)]);
    let counters = engine.ops().counters();
    assert_eq!((counters.sent, counters.errors.of(Cause::Refused)), (1, 1));
    assert_eq!(counters.send_failed.total(), 0);
    // The socket stays usable: once the port is open, datagrams arrive.
    let server = engine.ops().datagrams(world.bind(address)).unwrap();
    send(engine.ops(), client, None, b"now?");
    until(&mut engine, &mut notes, "it arrived", |_, notes| {
        notes.of(server) == [b"now?"]
    });
}

pub fn thousand_sockets(mut engine: impl Engine, world: &dyn World) {
    let (server, address) = bound(&mut engine, world);
    let clients: Vec<Id> = (0..1_000)
        .map(|_| connected(&mut engine, world, address))
        .collect();
    let mut notes = Notes::with_echo(server);
    for (first, window) in clients.chunks(WINDOW).enumerate() {
        for (index, client) in window.iter().enumerate() {
            let number = (first * WINDOW + index) as u32;
            send(engine.ops(), *client, None, &number.to_be_bytes());
        }
        let expected = 2 * (first * WINDOW + window.len());
        until(&mut engine, &mut notes, "the window came back", |_, notes| {
            notes.datagrams.len() == expected
        });
    }
    for (number, client) in clients.iter().enumerate() {
        assert_eq!(notes.of(*client), [(number as u32).to_be_bytes()]);
    }
    clients.iter().for_each(|client| engine.ops().close(*client));
    until(&mut engine, &mut notes, "all closed", |_, notes| {
        notes.closed.len() == clients.len()
    });
}

pub fn burst_over_many_sockets(mut engine: impl Engine, world: &dyn World) {
    let (sender, _) = bound(&mut engine, world);
    let receivers: Vec<(Id, SocketAddr)> = (0..1_000).map(|_| bound(&mut engine, world)).collect();
    let mut notes = Notes::default();
    settle(&mut engine, &mut notes);
    for round in 0..2u32 {
        for (number, (_, address)) in receivers.iter().enumerate() {
            let payload = (round * 1_000 + number as u32).to_be_bytes();
            send(engine.ops(), sender, Some(*address), &payload);
        }
    }
    until(&mut engine, &mut notes, "all arrived", |_, notes| {
        notes.datagrams.len() == 2 * receivers.len()
    });
    let mut received: HashMap<Id, Vec<u32>> = HashMap::new();
    for note in &notes.datagrams {
        let number = u32::from_be_bytes(note.payload.as_slice().try_into().unwrap());
        received.entry(note.id).or_default().push(number);
    }
    for (number, (id, _)) in receivers.iter().enumerate() {
        assert_eq!(received[id], [number as u32, 1_000 + number as u32]);
    }
    assert!(notes.failed.is_empty(), "{:?}", notes.failed);
}

pub fn close_with_sends_pending(mut engine: impl Engine, world: &dyn World) {
    let (server, address) = bound(&mut engine, world);
    let client = connected(&mut engine, world, address);
    let mut notes = Notes::default();
    for index in 0..WINDOW as u8 {
        send(engine.ops(), client, None, &[index]);
    }
    engine.ops().close(client);
    until(
        &mut engine,
        &mut notes,
        "it closed and all arrived",
        |_, notes| notes.closed == [client] && notes.of(server).len() == WINDOW,
    );
    let counters = engine.ops().counters();
    assert_eq!((counters.sent, counters.send_failed.total()), (WINDOW as u64, 0));
}

pub fn closed_last(mut engine: impl Engine, world: &dyn World) {
    let (server, address) = bound(&mut engine, world);
    let client = connected(&mut engine, world, address);
    let mut notes = Notes::with_echo(server);
    for _ in 0..8 {
        send(engine.ops(), client, None, b"answered perhaps");
    }
    engine.ops().close(client);
    engine.ops().close(client);
    let mut events = Vec::new();
    let mut note = |ops: &mut Ops, now: Time, id: Id, event: Event<'_>| {
        if id == client {
            events.push(matches!(event, Event::Closed(_)));
        }
        corelane_worker::engine::Handler::event(&mut notes, ops, now, id, event);
    };
    settle(&mut engine, &mut note);
    assert_eq!(
        events,
        [true],
        "the close was requested before anything could arrive"
    );
}

pub fn receive_off_and_on(mut engine: impl Engine, world: &dyn World) {
    let (sender, _) = bound(&mut engine, world);
    let quiet = engine.ops().datagrams(world.bind(anywhere())).unwrap();
    engine.ops().receive(quiet, false);
    let address = engine.ops().local_address(quiet).unwrap();
    let mut notes = Notes::default();
    for round in 1..=5usize {
        send(engine.ops(), sender, Some(address), &[round as u8]);
        settle(&mut engine, &mut notes);
        assert_eq!(notes.of(quiet).len(), round - 1, "nothing while off");
        engine.ops().receive(quiet, true);
        until(&mut engine, &mut notes, "it was lent", |_, notes| {
            notes.of(quiet).len() == round
        });
        engine.ops().receive(quiet, false);
        settle(&mut engine, &mut notes);
    }
    // Off and on between two turns has no effect.
    engine.ops().receive(quiet, true);
    engine.ops().receive(quiet, false);
    engine.ops().receive(quiet, true);
    send(engine.ops(), sender, Some(address), b"on");
    until(&mut engine, &mut notes, "it was lent", |_, notes| {
        notes.of(quiet).last() == Some(&b"on".as_slice())
    });
}

pub fn receive_off_and_on_in_one_turn(mut engine: impl Engine, world: &dyn World) {
    let (sender, _) = bound(&mut engine, world);
    let receivers: Vec<(Id, SocketAddr)> = (0..3).map(|_| bound(&mut engine, world)).collect();
    settle(&mut engine, &mut Notes::default());
    for (_, address) in &receivers {
        send(engine.ops(), sender, Some(*address), b"one each");
    }
    let middle = receivers[1].0;
    let mut received = Vec::new();
    let mut switch = |ops: &mut Ops, _: Time, id: Id, event: Event<'_>| {
        assert!(matches!(event, Event::Datagrams(_)), "{event:?}");
        received.push(id);
        // Off while it may be ready already, on again before the engine could notify the kernel.
        ops.receive(middle, id != receivers[0].0);
    };
    settle(&mut engine, &mut switch);
    received.sort();
    let all: Vec<Id> = receivers.iter().map(|(id, _)| *id).collect();
    assert_eq!(received, all);
}

pub fn close_in_event(mut engine: impl Engine, world: &dyn World) {
    let (first, first_address) = bound(&mut engine, world);
    let (second, second_address) = bound(&mut engine, world);
    let (sender, _) = bound(&mut engine, world);
    let mut notes = Notes::default();
    settle(&mut engine, &mut notes);
    for address in [first_address, second_address, first_address, second_address] {
        send(engine.ops(), sender, Some(address), b"one of you goes");
    }
    let mut lent_to = Vec::new();
    let mut closed = Vec::new();
    let mut note = |ops: &mut Ops, _: Time, id: Id, event: Event<'_>| match event {
        Event::Datagrams(_) => {
            lent_to.push(id);
            // The first event closes both.
            ops.close(first);
            ops.close(second);
        }
        Event::Closed(_) => closed.push(id),
        other => panic!("{other:?}"),
    };
    settle(&mut engine, &mut note);
    assert_eq!(lent_to.len(), 1, "the other one was closed by then");
    closed.sort();
    assert_eq!(closed, [first, second]);
}

pub fn send_after_close(mut engine: impl Engine, world: &dyn World) {
    let (server, address) = bound(&mut engine, world);
    let client = connected(&mut engine, world, address);
    let mut notes = Notes::default();
    engine.ops().close(client);
    send_nothing(engine.ops(), client);
    until(&mut engine, &mut notes, "it closed", |_, notes| {
        notes.closed == [client]
    });
    send_nothing(engine.ops(), client);
    settle(&mut engine, &mut notes);
    assert!(notes.of(server).is_empty());
    let counters = engine.ops().counters();
    assert_eq!((counters.sent, counters.send_failed.of(Cause::Asked)), (0, 2));
}

fn send_nothing(ops: &mut Ops, id: Id) {
    let unfilled = |_: &mut [u8]| panic!("nothing is sent on a closed socket");
    ops.send_to(id, None, 10, unfilled).unwrap();
}

pub fn bounded_turn(mut engine: impl Engine, world: &dyn World) {
    // Two sockets that reply to each other forever must not prevent a turn from ending.
    let (left, left_address) = bound(&mut engine, world);
    let (right, right_address) = bound(&mut engine, world);
    for _ in 0..WINDOW {
        send(engine.ops(), left, Some(right_address), b"back and forth");
        send(engine.ops(), right, Some(left_address), b"back and forth");
    }
    let mut lent = 0;
    let mut largest = 0;
    for _ in 0..20 {
        let mut answer = |ops: &mut Ops, _: Time, id: Id, event: Event<'_>| {
            if let Event::Datagrams(datagrams) = event {
                for datagram in datagrams {
                    lent += 1;
                    send(ops, id, Some(datagram.peer), datagram.payload);
                }
            }
        };
        let later = engine.now() + Duration::from_millis(1);
        engine.turn(later, &mut answer).unwrap();
        largest = largest.max(lent);
        lent = 0;
    }
    assert!((1..=512).contains(&largest), "{largest} datagrams in one turn");
}
