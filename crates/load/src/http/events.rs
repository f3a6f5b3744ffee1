//! What the generator does with what its connections bring: openings, bytes of answers, ends.

use super::connection::{Connection, State};
use super::generator::{Generator, Stage};
use super::group::Group;
use crate::failure::Failure;
use crate::sources::Release;
use corelane_proto::http::response::{Item, ResponseError};
use corelane_worker::Time;
use corelane_worker::engine::{Cause, Event, Handler, Id, Ops};
use std::time::Duration;

/// How long the server has to close a connection that it said it would.
const LINGER: Duration = Duration::from_secs(1);

/// A reader this far ahead of its rate pauses.
const AHEAD: Duration = Duration::from_millis(20);

impl Handler for Generator {
    fn event(&mut self, ops: &mut Ops, now: Time, id: Id, event: Event<'_>) {
        let Some(index) = self.connection_of(id) else {
            return;
        };
        match event {
            Event::Bytes(bytes) if self.is_encrypted(index) => self.decrypt(ops, index, bytes, now),
            Event::Bytes(bytes) => self.take(ops, index, bytes, now),
            Event::Opened { .. } => self.connected(ops, index, now),
            Event::Drained => self.drained(ops, index, now),
            Event::PeerClosed => self.peer_closed(ops, index, now),
            Event::Closed(cause) => self.closed(ops, index, cause, now),
            _ => {}
        }
    }
}

/// What bytes did to the answer under way.
enum Progress {
    More,
    /// The server wants the body (100 Continue); it said so in so many bytes.
    Asked(usize),
    Complete,
    Failed(Failure),
}

impl Generator {
    fn connection_of(&self, id: Id) -> Option<usize> {
        let index = *self.of_slot.get(id.slot())? as usize;
        let connection = self.connections.get(index)?;
        (connection.id == Some(id)).then_some(index)
    }

    /// The connection is open, and its handshake complete.
    pub(super) fn opened(&mut self, ops: &mut Ops, index: usize, now: Time) {
        self.opening -= 1;
        self.open += 1;
        let connection = &mut self.connections[index];
        let group = &mut self.groups[usize::from(connection.group)];
        group.counts.connections.opened += 1;
        group.counts.connections.opened_again += u64::from(self.stage != Stage::Opening);
        group
            .connect
            .record(now.since(connection.since).as_nanos() as u64);
        if connection.owes {
            connection.state = State::Idle;
            self.send(ops, index, now);
        } else {
            self.rest(ops, index, now);
        }
    }

    /// Takes in what the server says, in plain.
    pub(super) fn take(&mut self, ops: &mut Ops, index: usize, bytes: &[u8], now: Time) {
        let connection = &mut self.connections[index];
        let group = &mut self.groups[usize::from(connection.group)];
        group.counts.bytes.received += bytes.len() as u64;
        if connection.is_writing() {
            self.take_early(ops, index, bytes, now);
        } else {
            self.take_answer(ops, index, bytes, now);
        }
    }

    fn take_answer(&mut self, ops: &mut Ops, index: usize, bytes: &[u8], now: Time) {
        let connection = &mut self.connections[index];
        if !connection.is_asking() {
            // What still comes on a connection that is being closed is of no interest.
            if matches!(connection.state, State::Idle | State::Pausing) {
                self.unasked(ops, index);
            }
            return;
        }
        if connection.aborts {
            self.abort(ops, index);
            return;
        }
        let group = &mut self.groups[usize::from(connection.group)];
        let began = connection.state == State::AwaitingHead;
        connection.state = State::AwaitingEnd;
        let before = connection.body;
        let progress = read(connection, bytes, group);
        group.counts.bytes.body += connection.body - before;
        self.go_on(ops, index, progress, began, now);
    }

    /// Does what the bytes of an answer call for, which `began` with them or earlier.
    fn go_on(&mut self, ops: &mut Ops, index: usize, progress: Progress, began: bool, now: Time) {
        match progress {
            Progress::More | Progress::Asked(_) => {
                if began {
                    let wake = self.connections[index].since + self.plan.timeouts.request();
                    self.wake_at(index, wake);
                }
                self.hold(ops, index, now);
            }
            Progress::Complete => self.answered(ops, index, now),
            Progress::Failed(failure) => self.give_up(ops, index, failure),
        }
    }

    /// What the server says before it has the whole request: that it wants the body, or its answer. After an answer instead
    /// of 100 Continue, or an error, what is missing of the request is not sent any more, and the connection closes, as
    /// the server might take the next request for it (RFC 9110 10.1.1).
    fn take_early(&mut self, ops: &mut Ops, index: usize, bytes: &[u8], now: Time) {
        let connection = &mut self.connections[index];
        let group = &mut self.groups[usize::from(connection.group)];
        let waited = connection.state == State::AwaitingContinue;
        let progress = read(connection, bytes, group);
        match (connection.state, progress) {
            (_, Progress::Asked(used)) => {
                group.counts.continued += 1;
                self.write_body(ops, index, now);
                if self.connections[index].is_writing() {
                    self.take_early(ops, index, &bytes[used..], now);
                } else if used < bytes.len() {
                    self.take_answer(ops, index, &bytes[used..], now);
                }
            }
            (State::AwaitingEnd, progress) => {
                group.counts.sent += 1;
                group.counts.body_refused += u64::from(waited);
                group.counts.bytes.body += connection.body;
                connection.since = now;
                if waited || connection.refused || group.behaviour.write_bytes_per_second.is_some() {
                    connection.writing = false;
                    connection.keep = false;
                }
                if connection.aborts {
                    self.abort(ops, index);
                } else {
                    self.go_on(ops, index, progress, true, now);
                }
            }
            (_, Progress::Failed(failure)) => self.give_up(ops, index, failure),
            (_, Progress::More | Progress::Complete) => {}
        }
    }

    /// Gives up the request under way, as it was to be.
    fn abort(&mut self, ops: &mut Ops, index: usize) {
        let connection = &mut self.connections[index];
        let group = &mut self.groups[usize::from(connection.group)];
        connection.aborts = false;
        connection.owes = false;
        group.under_way -= 1;
        group.counts.aborted += 1;
        self.reset(ops, index);
    }

    /// Stops receiving for as long as a slow reader is ahead of its rate.
    fn hold(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        let group = &self.groups[usize::from(connection.group)];
        let (Some(id), Some(rate)) = (connection.id, group.behaviour.read_bytes_per_second) else {
            return;
        };
        let allowed = connection.since + Duration::from_secs_f64(connection.body as f64 / rate as f64);
        if allowed > now + AHEAD {
            ops.receive(id, false);
            connection.held = true;
            self.wake_at(index, allowed);
        }
    }

    /// Has a slow reader read on.
    pub(super) fn receive_again(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        connection.held = false;
        if let Some(id) = connection.id {
            ops.receive(id, true);
        }
        let deadline = connection.since + self.plan.timeouts.request();
        if deadline <= now {
            self.give_up(ops, index, Failure::RequestTimeout);
        } else {
            self.wake_at(index, deadline);
        }
    }

    /// Bytes, or an end, that nobody asked for, on a connection with nothing under way.
    fn unasked(&mut self, ops: &mut Ops, index: usize) {
        let group = self.group_of(index);
        self.groups[group].counts.connections.unasked_bytes += 1;
        self.give_up(ops, index, Failure::Malformed);
    }

    /// The answer is complete: counts it, and goes on.
    fn answered(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        let group = &mut self.groups[usize::from(connection.group)];
        connection.owes = false;
        connection.served += 1;
        // An answer that is complete before its request leaves the two sides at different places.
        connection.keep &= !std::mem::take(&mut connection.writing);
        group.under_way -= 1;
        match connection.verdict {
            None => {
                let latency = now.since(connection.due);
                group.counts.ok += 1;
                group.latency.record(latency.as_nanos() as u64);
                self.note_latency(latency);
            }
            Some(failure) => group.counts.failures.count(failure),
        }
        let connection = &mut self.connections[index];
        if connection.keep {
            self.rest(ops, index, now);
        } else {
            // The server closes first, so that the port is free at once and TIME_WAIT is the server's.
            connection.state = State::Lingering;
            self.wake_at(index, now + LINGER);
        }
    }

    /// Holds an answer that the connection's end completes to its promise.
    fn check_end(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let asked = self.groups[usize::from(connection.group)].request(connection.request);
        if connection.verdict.is_none() && !asked.promise.is_whole(connection.body, asked.body.as_ref()) {
            connection.verdict = Some(Failure::WrongBody);
        }
    }

    fn peer_closed(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        if connection.state == State::Handshaking {
            connection.verdict.get_or_insert(Failure::ClosedEarly);
            if let Some(id) = connection.id {
                ops.close(id);
            }
            return;
        }
        let group = &mut self.groups[usize::from(connection.group)];
        group.counts.connections.closed_by_server += 1;
        self.settle_end(ops, index, now);
        self.close(ops, index, Release::Free);
    }

    /// The server sends nothing more: that completes the answer under way, or it fails.
    pub(super) fn settle_end(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let told = self.end_is_told(index);
        let connection = &mut self.connections[index];
        if !connection.is_asking() && !connection.is_writing() {
            return;
        }
        match connection.parser.finish() {
            Ok(Some(Item::End)) if told => {
                self.check_end(index);
                self.answered(ops, index, now);
            }
            Err(ResponseError::ClosedInHead | ResponseError::ClosedInBody) | Ok(_) => {
                self.fail(index, Failure::ClosedEarly);
            }
            Err(_) => self.fail(index, Failure::Malformed),
        }
    }

    fn closed(&mut self, ops: &mut Ops, index: usize, cause: Cause, now: Time) {
        let connection = &mut self.connections[index];
        let was = connection.state;
        connection.id = None;
        connection.state = State::Closed;
        connection.wake = Time::NEVER;
        if let Some(session) = self.sessions.get_mut(index) {
            *session = None;
        }
        if matches!(was, State::Opening | State::Handshaking) {
            self.opening -= 1;
            if cause == Cause::AddressInUse {
                connection.release = Release::Taken;
            }
            let told = connection.verdict.take();
            self.release(index, now);
            self.not_opened(index, told.unwrap_or(Failure::of_cause(cause, false)));
            self.try_later(index, now);
            return;
        }
        self.open -= 1;
        if cause == Cause::Reset {
            let group = self.group_of(index);
            self.groups[group].counts.connections.reset_by_server += 1;
        }
        self.release(index, now);
        self.fail(index, Failure::of_cause(cause, true));
        self.again(ops, index, now);
    }
}

/// Reads bytes of the answer under way.
fn read(connection: &mut Connection, bytes: &[u8], group: &Group) -> Progress {
    let Connection {
        parser,
        body,
        verdict,
        keep,
        request,
        state,
        refused,
        ..
    } = connection;
    let asked = group.request(*request);
    let mut rest = bytes;
    loop {
        let (used, item) = match parser.feed(rest) {
            Ok(fed) => fed,
            Err(_) => return Progress::Failed(Failure::Malformed),
        };
        rest = &rest[used..];
        match item {
            None => return Progress::More,
            // 100 Continue: the body is wanted.
            Some(Item::Informational(100)) if *state == State::AwaitingContinue => {
                *state = State::Writing;
                return Progress::Asked(bytes.len() - rest.len());
            }
            Some(Item::Informational(_)) => {}
            Some(Item::Head(head)) => {
                *state = State::AwaitingEnd;
                *refused = head.status >= 400;
                *keep &= head.keep_alive;
                if !group.expects(head.status) {
                    *verdict = Some(Failure::WrongStatus);
                }
            }
            Some(Item::Body(part)) => {
                if verdict.is_none() && !asked.promise.holds(*body, part, asked.body.as_ref()) {
                    *verdict = Some(Failure::WrongBody);
                }
                *body += part.len() as u64;
            }
            Some(Item::End) => {
                let whole = asked.to_head || asked.promise.is_whole(*body, asked.body.as_ref());
                if verdict.is_none() && !whole {
                    *verdict = Some(Failure::WrongBody);
                }
                // Requests are not pipelined: nothing can follow.
                return if rest.is_empty() {
                    Progress::Complete
                } else {
                    Progress::Failed(Failure::Malformed)
                };
            }
        }
    }
}
