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
            Event::Bytes(bytes) => self.take(ops, index, bytes, now),
            Event::Opened { .. } => self.opened(ops, index, now),
            Event::PeerClosed => self.peer_closed(ops, index, now),
            Event::Closed(cause) => self.closed(ops, index, cause, now),
            _ => {}
        }
    }
}

/// What bytes did to the answer under way.
enum Progress {
    More,
    Complete,
    Failed(Failure),
}

impl Generator {
    fn connection_of(&self, id: Id) -> Option<usize> {
        let index = *self.of_slot.get(id.slot())? as usize;
        let connection = self.connections.get(index)?;
        (connection.id == Some(id)).then_some(index)
    }

    fn opened(&mut self, ops: &mut Ops, index: usize, now: Time) {
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

    fn take(&mut self, ops: &mut Ops, index: usize, bytes: &[u8], now: Time) {
        let connection = &mut self.connections[index];
        let group = &mut self.groups[usize::from(connection.group)];
        group.counts.bytes.received += bytes.len() as u64;
        if connection.state == State::Writing {
            // The server answers before it has the whole request: what is missing of it is not sent any more.
            self.sent(index, now);
            self.connections[index].keep = false;
        }
        let connection = &mut self.connections[index];
        let group = &mut self.groups[usize::from(connection.group)];
        if !connection.is_asking() {
            // What still comes on a connection that is being closed is of no interest.
            if matches!(connection.state, State::Idle | State::Pausing) {
                self.unasked(ops, index);
            }
            return;
        }
        if std::mem::take(&mut connection.aborts) {
            connection.owes = false;
            group.under_way -= 1;
            group.counts.aborted += 1;
            self.reset(ops, index);
            return;
        }
        let began = connection.state == State::AwaitingHead;
        connection.state = State::AwaitingEnd;
        let before = connection.body;
        let progress = read(connection, bytes, group);
        group.counts.bytes.body += connection.body - before;
        match progress {
            Progress::More => {
                if began {
                    let wake = connection.since + self.plan.timeouts.request();
                    self.wake_at(index, wake);
                }
                self.hold(ops, index, now);
            }
            Progress::Complete => self.answered(ops, index, now),
            Progress::Failed(failure) => self.give_up(ops, index, failure),
        }
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
        let group = &mut self.groups[usize::from(connection.group)];
        group.counts.connections.closed_by_server += 1;
        if connection.is_asking() || connection.state == State::Writing {
            match connection.parser.finish() {
                Ok(Some(Item::End)) => {
                    self.check_end(index);
                    self.answered(ops, index, now);
                }
                Err(ResponseError::ClosedInHead | ResponseError::ClosedInBody) | Ok(_) => {
                    self.fail(index, Failure::ClosedEarly);
                }
                Err(_) => self.fail(index, Failure::Malformed),
            }
        }
        self.close(ops, index, Release::Free);
    }

    fn closed(&mut self, ops: &mut Ops, index: usize, cause: Cause, now: Time) {
        let connection = &mut self.connections[index];
        let was = connection.state;
        connection.id = None;
        connection.state = State::Closed;
        connection.wake = Time::NEVER;
        if was == State::Opening {
            self.opening -= 1;
            if cause == Cause::AddressInUse {
                connection.release = Release::Taken;
            }
            self.release(index, now);
            self.not_opened(index, Failure::of_cause(cause, false));
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
            Some(Item::Informational(_)) => {}
            Some(Item::Head(head)) => {
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
