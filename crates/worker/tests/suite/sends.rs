//! Every byte that a peer receives is counted as sent, whatever its connection's owner does in the turn of the send.

use crate::suite::streams::listening;
use crate::suite::world::{Case, World, on_epoll, on_io_uring, until};
use corelane_worker::Time;
use corelane_worker::engine::{Engine, EngineSettings, Event, Handler, Id, Ops};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Bytes of one write: io_uring sends them with the next submission.
const LENGTH: u64 = 60_000;
static BYTES: [u8; LENGTH as usize] = [7; LENGTH as usize];

/// What the owner does with a connection after it has written, when it is notified of bytes on another one.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Discard,
    Abort,
    Nothing,
}

struct Owner {
    then: Then,
    accepted: Vec<Id>,
    /// The connection that was written to.
    written: Option<Id>,
    /// Bytes of it that were not sent.
    unsent: u64,
    asked: usize,
    closed: bool,
}

impl Handler for Owner {
    fn event(&mut self, ops: &mut Ops, _: Time, id: Id, event: Event<'_>) {
        match event {
            Event::Opened { .. } => self.accepted.push(id),
            Event::Bytes(_) => {
                self.asked += 1;
                let Some(written) = self.written else {
                    ops.write_static(id, &BYTES);
                    self.written = Some(id);
                    return;
                };
                match self.then {
                    Then::Discard => {
                        self.unsent = ops.discard(written);
                        ops.shutdown(written);
                    }
                    Then::Abort => ops.abort(written),
                    Then::Nothing => {}
                }
            }
            Event::Closed(_) if self.written == Some(id) => {
                self.unsent = ops.unsent(id);
                self.closed = true;
            }
            _ => {}
        }
    }
}

fn counted(engine: &mut impl Engine, world: &dyn World, then: Then) {
    let (_, address) = listening(engine, world);
    let mut owner = Owner {
        then,
        accepted: Vec::new(),
        written: None,
        unsent: 0,
        asked: 0,
        closed: false,
    };
    let mut peers: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(address).unwrap()).collect();
    until(engine, &mut owner, "both are accepted", |_, owner| {
        owner.accepted.len() == 2
    });
    peers.iter_mut().for_each(|peer| peer.write_all(b"x").unwrap());
    until(engine, &mut owner, "both have asked", |_, owner| {
        owner.asked == 2 && (then != Then::Abort || owner.closed)
    });
    let sent = engine.finish().streams.bytes_sent;
    let unsent = match then {
        Then::Nothing => engine.ops().unsent(owner.written.unwrap()),
        _ => owner.unsent,
    };
    assert_eq!(sent + unsent, LENGTH);
    let written = owner.accepted.iter().position(|id| Some(*id) == owner.written);
    let peer = &mut peers[written.unwrap()];
    let mut received = 0;
    let mut buffer = vec![0; 2 * LENGTH as usize];
    while received < sent {
        match peer.read(&mut buffer) {
            Ok(bytes) if bytes > 0 => received += bytes as u64,
            end => panic!("{end:?} after {received} bytes of {sent}"),
        }
    }
    // Nothing more comes than was counted.
    peer.set_nonblocking(true).unwrap();
    assert!(
        !matches!(peer.read(&mut buffer), Ok(1..)),
        "more than {sent} bytes came"
    );
}

macro_rules! on_real_engines {
    ($($name:ident: $then:expr;)*) => {
        $(
            #[test]
            fn $name() {
                struct ThisCase;
                impl Case for ThisCase {
                    fn run<E: Engine>(self, mut engine: E, world: &dyn World) {
                        counted(&mut engine, world, $then);
                    }
                }
                corelane_tests::undisturbed(|| on_epoll(&EngineSettings::default(), ThisCase));
                corelane_tests::undisturbed(|| on_io_uring(&EngineSettings::default(), ThisCase));
            }
        )*
    };
}

on_real_engines! {
    bytes_sent_before_a_discard_in_the_same_turn_are_counted: Then::Discard;
    bytes_sent_before_an_abort_in_the_same_turn_are_counted: Then::Abort;
    bytes_sent_at_the_end_of_the_engine_are_counted: Then::Nothing;
}
