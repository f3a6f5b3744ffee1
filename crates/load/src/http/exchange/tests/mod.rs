//! Tests without sockets: bytes and times in, bytes and outcomes out.

use super::*;
use crate::http::HttpPlan;
use crate::http::plan::{PlannedBody, PlannedRequest, Promise, StatusRange};
use crate::streams::{
    Behaviour, Connection, ConnectionOutcome as Outcome, Context, Counts, Ended, Input, Linger, Model, Next,
    PlannedPool, Settled, Slot, Terms, Timeouts,
};
use corelane_worker::engine::{Cause, Output};
use corelane_worker::outgoing::Release;
use std::ops::Range;
use std::sync::Arc;

mod answers;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const WAIT: Outcome = Outcome {
    settled: None,
    next: Next::Wait,
};

fn at(milliseconds: u64) -> Time {
    Time::from_nanoseconds(milliseconds * 1_000_000)
}

fn settled(settled: Settled, next: Next) -> Outcome {
    Outcome {
        settled: Some(settled),
        next,
    }
}

fn failed(failure: Failure, next: Next) -> Outcome {
    settled(Settled::Failed(failure), next)
}

fn answered(milliseconds: u64, next: Next) -> Outcome {
    settled(Settled::Answered(Duration::from_millis(milliseconds)), next)
}

/// Records what is written; accepts all of it, or as much as it has room for.
struct Kept {
    bytes: Vec<u8>,
    room: usize,
    copies: bool,
    queued: u64,
    notifies: bool,
}

impl Output for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.bytes.len() + bytes.len() > self.room {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.bytes.extend_from_slice(bytes);
        self.queued += bytes.len() as u64;
        Ok(())
    }

    fn write_shared(&mut self, bytes: &Arc<[u8]>, range: Range<usize>) -> io::Result<()> {
        self.write(&bytes[range])
    }

    fn queued(&self) -> u64 {
        self.queued
    }

    fn notify_drained(&mut self) {
        self.notifies = true;
    }

    fn copies(&self) -> bool {
        self.copies
    }
}

impl ConnectionOutput for Kept {}

/// The terms of one request for `/`, with the test's changes to the plan.
fn terms(change: impl FnOnce(&mut HttpPlan)) -> Terms<Http> {
    let head = "GET / HTTP/1.1\r\nHost: server\r\n";
    let mut plan = HttpPlan {
        pools: vec![PlannedPool {
            name: "main".to_owned(),
            target: "10.0.0.1:80".parse().unwrap(),
            tls: None,
            model: Model::Closed { think_s: 0.0 },
            connections: 1,
            requests_a_connection: None,
            behaviour: Behaviour::default(),
            protocol: Http {
                requests: vec![PlannedRequest {
                    weight: 1.0,
                    method: "GET".to_owned(),
                    target: "/".to_owned(),
                    head: format!("{head}\r\n"),
                    last_head: format!("{head}Connection: close\r\n\r\n"),
                    body: PlannedBody::Nothing,
                    chunked: false,
                    expect_continue: false,
                    promise: Promise::Anything,
                }],
                targets: None,
                statuses: vec![StatusRange {
                    first: 200,
                    last: 299,
                }],
                follow: 0,
                strict: false,
            },
        }],
        phases: Vec::new(),
        requests: None,
        timeouts: Timeouts {
            connect_s: 4.0,
            continue_s: 1.0,
            first_byte_s: 2.0,
            request_s: 3.0,
            drain_s: 1.0,
        },
        engine: None,
        memory: corelane_host::memory::MemoryPolicy::FirstTouch,
        buffer_memory: None,
        gather_us: 0,
        steering: Default::default(),
        workers: Vec::new(),
    };
    change(&mut plan);
    let terms = Terms::of_plan(&plan).unwrap().remove(0);
    Arc::into_inner(terms).unwrap()
}

/// A connection, its counts and what it wrote.
struct Bench {
    connection: Connection<Http>,
    terms: Terms<Http>,
    counts: Counts<HttpCounts>,
    out: Kept,
    last_head: LastHead,
    linger: Linger,
}

impl Bench {
    /// An open connection at time 0 with distinct timeouts in seconds: continue 1, first byte 2, request 3.
    fn new(change: impl FnOnce(&mut HttpPlan)) -> Self {
        let mut connection = Connection::new();
        connection.open(at(0), None);
        assert_eq!(connection.opened(), Some((at(0), None)));
        Self {
            connection,
            terms: terms(change),
            counts: Counts::default(),
            out: Kept {
                bytes: Vec::new(),
                room: usize::MAX,
                copies: false,
                queued: 0,
                notifies: false,
            },
            last_head: LastHead::default(),
            linger: Linger::default(),
        }
    }

    fn take(&mut self, now: Time, input: Input<'_, '_, u32>) -> Outcome {
        self.connection.take(
            input,
            &mut Context {
                now,
                terms: &self.terms,
                counts: &mut self.counts,
                out: &mut self.out,
                shared: &mut self.last_head,
                linger: &mut self.linger,
            },
        )
    }

    fn ask_with(&mut self, due: u64, now: u64, aborts: bool) -> Outcome {
        let ask = Ask {
            due: at(due),
            aborts,
            last: false,
        };
        self.take(at(now), Input::Ask(0, ask))
    }

    fn ask(&mut self, due: u64, now: u64) -> Outcome {
        self.ask_with(due, now, false)
    }

    fn receive(&mut self, mut bytes: &[u8], now: u64) -> Outcome {
        self.take(at(now), Input::Bytes(&mut bytes))
    }

    /// Lets the deadline expire, and asserts which one it is.
    fn expire(&mut self, deadline: u64) -> Outcome {
        assert_eq!(self.connection.deadline(), at(deadline));
        self.take(at(deadline), Input::Expired)
    }
}

fn upload(plan: &mut HttpPlan, bytes: u64) {
    plan.pools[0].protocol.requests[0].body = PlannedBody::Generated { bytes };
}

#[test]
fn an_answer_in_any_pieces_counts_from_when_its_request_was_due() {
    for piece in 1..=OK.len() {
        let mut bench = Bench::new(|_| {});
        for round in 0..2 {
            assert_eq!(bench.ask(10, 15), WAIT);
            assert_eq!(bench.connection.deadline(), at(2_015));
            let mut pieces = OK.chunks(piece).peekable();
            while let Some(bytes) = pieces.next() {
                let outcome = bench.receive(bytes, 20);
                if pieces.peek().is_some() {
                    assert_eq!(outcome, WAIT, "{piece}");
                    assert_eq!(bench.connection.deadline(), at(3_015), "the request's own");
                } else {
                    assert_eq!(outcome, answered(10, Next::Ready), "{piece}");
                }
            }
            assert!(bench.connection.is_idle());
            assert_eq!(bench.connection.deadline(), Time::NEVER);
            assert_eq!(bench.counts.bytes.body, 2 * (round + 1));
        }
        assert_eq!(
            bench.out.bytes,
            b"GET / HTTP/1.1\r\nHost: server\r\n\r\n".repeat(2)
        );
        assert_eq!(bench.counts.bytes.sent, bench.out.bytes.len() as u64);
        assert_eq!(bench.counts.bytes.received, 2 * OK.len() as u64);
    }
}

#[test]
fn the_last_request_says_so_and_the_server_may_close_first() {
    let mut bench = Bench::new(|plan| plan.pools[0].requests_a_connection = Some(2));
    bench.ask(0, 0);
    assert_eq!(bench.receive(OK, 1), answered(1, Next::Ready));
    bench.ask(2, 2);
    assert!(bench.out.bytes.ends_with(b"Connection: close\r\n\r\n"));
    assert_eq!(bench.receive(OK, 3), answered(1, Next::Wait));
    assert_eq!(bench.expire(8), Next::Leave.into());
    assert_eq!(bench.counts.connections.closed_by_client, 1);
    let ended = bench.connection.closed(Cause::Asked);
    assert_eq!(ended.release, Release::Rests, "this side closed first");
    assert!(bench.connection.is_closed());
}

#[test]
fn each_stage_has_a_timeout_of_its_own() {
    let mut bench = Bench::new(|_| {});
    bench.ask(0, 0);
    assert_eq!(
        bench.expire(2_000),
        failed(Failure::FirstByteTimeout, Next::Reset)
    );
    let mut bench = Bench::new(|_| {});
    bench.ask(0, 0);
    bench.receive(&OK[..9], 1_000);
    assert_eq!(bench.expire(3_000), failed(Failure::RequestTimeout, Next::Reset));
    assert!(
        bench.connection.closed(Cause::Asked).request.is_none(),
        "it was settled before"
    );
}

#[test]
fn an_answer_is_held_to_status_body_and_framing() {
    let promise = |plan: &mut HttpPlan| {
        plan.pools[0].protocol.requests[0].promise = Promise::Pattern { bytes: 2 };
    };
    for (answer, expected) in [
        (OK, failed(Failure::WrongBody, Next::Ready)),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n01",
            answered(1, Next::Ready),
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n0",
            failed(Failure::WrongBody, Next::Ready),
        ),
        (
            b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\n01",
            failed(Failure::WrongStatus, Next::Ready),
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n01HTTP/1.1",
            failed(Failure::Malformed, Next::Reset),
        ),
        (b"no answer\r\n", failed(Failure::Malformed, Next::Reset)),
    ] {
        let mut bench = Bench::new(promise);
        bench.ask(0, 0);
        assert_eq!(bench.receive(answer, 1), expected, "{}", answer.escape_ascii());
    }
}

#[test]
fn bytes_that_nobody_asked_for_end_the_connection_and_a_request_may_be_given_up() {
    let mut bench = Bench::new(|_| {});
    assert_eq!(bench.receive(OK, 0), Next::Reset.into());
    assert_eq!(bench.counts.connections.unasked_bytes, 1);
    assert_eq!(bench.receive(OK, 0), WAIT, "bytes after the reset are ignored");
    let mut bench = Bench::new(|_| {});
    bench.ask_with(0, 0, true);
    assert_eq!(bench.receive(&OK[..1], 1), settled(Settled::Aborted, Next::Reset));
}

#[test]
fn the_end_of_the_connection_completes_an_answer_without_a_length() {
    let answer = b"HTTP/1.1 200 OK\r\n\r\nok";
    for (bytes, genuine, expected) in [
        (&answer[..], true, Settled::Answered(Duration::from_millis(2))),
        (answer, false, Settled::Failed(Failure::ClosedEarly)),
        (&OK[..OK.len() - 1], true, Settled::Failed(Failure::ClosedEarly)),
        (b"", true, Settled::Failed(Failure::ClosedEarly)),
    ] {
        let mut bench = Bench::new(|_| {});
        bench.ask(0, 0);
        assert_eq!(bench.receive(bytes, 1), WAIT);
        let outcome = bench.take(at(2), Input::PeerClosed { genuine });
        assert_eq!(outcome, settled(expected, Next::Close));
        assert_eq!(bench.counts.connections.closed_by_server, 1);
        let ended = bench.connection.closed(Cause::Asked);
        assert_eq!((ended.release, ended.request), (Release::Free, None));
    }
}

#[test]
fn a_body_waits_for_100_continue_for_a_second_or_until_an_answer() {
    let expect = |plan: &mut HttpPlan| {
        upload(plan, 4);
        plan.pools[0].protocol.requests[0].expect_continue = true;
    };
    let sent = |bench: &Bench| bench.out.bytes.ends_with(b"\r\n\r\n0123");
    let mut continued = Bench::new(expect);
    assert_eq!((continued.ask(0, 0), sent(&continued)), (WAIT, false));
    assert_eq!((continued.receive(CONTINUE, 5), sent(&continued)), (WAIT, true));
    assert_eq!(continued.connection.deadline(), at(2_005));
    assert_eq!(continued.receive(OK, 6), answered(6, Next::Ready));
    let mut both = Bench::new(expect);
    both.ask(0, 0);
    assert_eq!(
        both.receive(&[CONTINUE, OK].concat(), 5),
        answered(5, Next::Ready)
    );
    assert_eq!(
        [&continued.counts, &both.counts].map(|counts| counts.requests.own.continued),
        [1, 1]
    );
    let mut unasked = Bench::new(expect);
    unasked.ask(0, 0);
    assert_eq!((unasked.expire(1_000), sent(&unasked)), (WAIT, true));
    assert_eq!(unasked.counts.requests.own.continue_timeouts, 1);
    let mut refused = Bench::new(expect);
    refused.ask(0, 0);
    assert_eq!(
        refused.receive(OK, 5),
        answered(5, Next::Wait),
        "the connection is not reused"
    );
    assert_eq!(
        (sent(&refused), refused.counts.requests.own.body_refused),
        (false, 1)
    );
}

#[test]
fn copies_of_a_request_are_bounded_and_its_answer_may_come_first() {
    let mut bench = Bench::new(|plan| upload(plan, 1 << 20));
    bench.out.copies = true;
    assert_eq!(bench.ask(0, 0), WAIT);
    assert!(bench.out.notifies && bench.counts.requests.sent == 0);
    assert!(bench.out.queued < 300_000, "{}", bench.out.queued);
    assert_eq!(bench.receive(&OK[..OK.len() - 2], 1), WAIT);
    while bench.out.bytes.len() < 1 << 20 {
        bench.out.queued = 0;
        assert_eq!(bench.take(at(2), Input::Drained), WAIT);
    }
    assert_eq!(bench.receive(b"ok", 3), answered(3, Next::Ready));
    assert_eq!(bench.counts.requests.sent, 1);
    let mut bench = Bench::new(|plan| upload(plan, 1 << 20));
    bench.out.room = 1_000;
    assert_eq!(bench.ask(0, 0), failed(Failure::NoMemory, Next::Reset));
}

#[test]
fn slow_clients_write_in_steps_and_receive_with_pauses() {
    let mut bench = Bench::new(|plan| {
        upload(plan, 100);
        plan.pools[0].behaviour.write_bytes_per_second = Some(1_000);
        plan.pools[0].behaviour.read_bytes_per_second = Some(20);
    });
    assert_eq!(bench.ask(0, 0), WAIT);
    assert_eq!(bench.connection.deadline(), at(32), "the time for 32 bytes");
    let mut now = 0;
    while bench.counts.requests.sent == 0 {
        let before = bench.out.bytes.len();
        now = bench.connection.deadline().nanoseconds() / 1_000_000;
        assert_eq!(bench.expire(now), WAIT);
        assert!(bench.out.bytes.len() - before <= 50);
    }
    let sent = now;
    assert_eq!(
        bench.receive(&OK[..OK.len() - 1], now),
        Next::Hold.into(),
        "a byte in 50 ms"
    );
    assert_eq!(bench.expire(sent + 50), Next::Resume.into());
    assert_eq!(bench.receive(b"k", sent + 60), answered(sent + 60, Next::Ready));
}

#[test]
fn a_handshake_fails_by_time_by_an_end_and_by_what_is_wrong() {
    let opening = || {
        let mut bench = Bench::new(|_| {});
        bench.connection.open(at(0), Some(at(0)));
        bench.connection.begin_handshake(Duration::from_secs(3));
        bench
    };
    let mut late = opening();
    assert_eq!(late.expire(3_000), Next::Reset.into());
    let mut ended = opening();
    let outcome = ended.take(at(1), Input::PeerClosed { genuine: true });
    assert_eq!(outcome, Next::Close.into());
    let mut wrong = opening();
    let closing = Next::Leave.into();
    assert_eq!(wrong.take(at(1), Input::SessionFailed(Failure::Tls)), closing);
    assert!(wrong.connection.has_failed_handshake());
    assert_eq!(wrong.connection.deadline(), Time::NEVER, "it is closed at once");
    let mut reset = opening();
    assert_eq!(reset.take(at(1), Input::SessionEnded), closing);
    reset.connection.reset_instead();
    let mut taken = opening();
    let mut refused = opening();
    for (bench, cause, failure, release) in [
        (&mut late, Cause::Asked, Failure::HandshakeTimeout, Release::Free),
        (&mut ended, Cause::Asked, Failure::ClosedEarly, Release::Free),
        (&mut wrong, Cause::Asked, Failure::Tls, Release::Rests),
        (&mut reset, Cause::Asked, Failure::ClosedEarly, Release::Free),
        (&mut taken, Cause::AddressInUse, Failure::NoPorts, Release::Taken),
        (&mut refused, Cause::Refused, Failure::Refused, Release::Free),
    ] {
        let expected = Ended {
            was_open: false,
            release,
            failure,
            request: Some(at(0)),
        };
        assert_eq!(bench.connection.closed(cause), expected);
    }
}

#[test]
fn a_pause_and_a_closed_connection_have_their_next_request_due() {
    let mut bench = Bench::new(|_| {});
    bench.connection.pause(at(7));
    assert_eq!(bench.expire(7), Next::Due(at(7)).into());
    assert!(bench.connection.is_idle());
    let ended = bench.connection.closed(Cause::Reset);
    assert_eq!((ended.was_open, ended.failure), (true, Failure::Reset));
    bench.connection.retry(at(9));
    assert_eq!(bench.expire(9), Next::Due(at(9)).into());
}

#[test]
fn a_connection_leaves_room_for_its_part_of_512_bytes() {
    assert!(
        size_of::<Slot<Http>>() <= 224,
        "{} bytes",
        size_of::<Slot<Http>>()
    );
}
