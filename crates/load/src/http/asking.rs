//! Requests: what begins one, sends it, and settles it.

use super::connection::State;
use super::generator::{Generator, Stage};
use super::tls::session;
use crate::failure::Failure;
use corelane_proto::http::chunked::{CHUNK_END, LAST_CHUNK, size_line};
use corelane_worker::Time;
use corelane_worker::engine::Ops;
use std::time::Duration;

/// A slow client gives its request away in pieces of this long.
const WRITE_STEP: Duration = Duration::from_millis(50);

/// A request that is encrypted goes in pieces of a record, as long as no more than this waits for the kernel: copies of it
/// are held for each connection.
const PIECE: usize = session::RECORD;
const WINDOW: u64 = 256 << 10;

/// What became of a piece of a request.
enum Given {
    /// So many bytes are on their way, and more follow.
    Part(usize),
    /// The head is, and the body waits until the server asks for it.
    Head,
    /// Everything is.
    All,
}

impl Generator {
    /// The first request of a connection. Thinkers do not all wake at once: each first thinks a random part of its time.
    pub(super) fn first(&mut self, ops: &mut Ops, index: usize, start: Time) {
        let group = &self.groups[self.group_of(index)];
        let pause = Duration::from_secs_f64(group.behaviour.first_pause_s);
        let pause = pause + group.think().mul_f64(self.random.f64());
        match self.connections[index].state {
            State::Idle if pause.is_zero() || group.is_open_loop() => self.rest(ops, index, start),
            State::Idle => self.pause(index, start + pause),
            State::Closed => self.try_again(index, start + pause),
            _ => {}
        }
    }

    pub(super) fn group_of(&self, index: usize) -> usize {
        usize::from(self.connections[index].group)
    }

    /// Whether a connection may begin another request.
    pub(super) fn may_ask(&self, index: usize) -> bool {
        let group = &self.groups[self.group_of(index)];
        self.stage == Stage::Running && group.budget > 0 && (group.is_open_loop() || group.is_active(index))
    }

    fn pause(&mut self, index: usize, until: Time) {
        self.connections[index].state = State::Pausing;
        self.wake_at(index, until);
    }

    /// What a connection does that is open and has nothing under way.
    pub(super) fn rest(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        connection.state = State::Idle;
        connection.wake = Time::NEVER;
        let group = &mut self.groups[usize::from(connection.group)];
        if group.is_open_loop() {
            if !connection.queued {
                connection.queued = true;
                group.idle.push_back(index as u32);
                group.starving = false;
            }
            return;
        }
        let think = group.think();
        if !self.may_ask(index) {
            return;
        }
        if think.is_zero() {
            self.begin(ops, index, now, now);
        } else {
            self.pause(index, now + think);
        }
    }

    /// Begins a request that was meant for `due`.
    pub(super) fn begin(&mut self, ops: &mut Ops, index: usize, due: Time, now: Time) {
        let may_ask = self.may_ask(index);
        let connection = &mut self.connections[index];
        if !may_ask {
            if connection.state == State::Pausing {
                connection.state = State::Idle;
            }
            return;
        }
        let group = &mut self.groups[usize::from(connection.group)];
        group.budget -= 1;
        group.under_way += 1;
        group.counts.begun += 1;
        connection.owes = true;
        connection.due = due;
        if connection.state == State::Closed {
            self.connect(ops, index, now);
        } else {
            self.send(ops, index, now);
        }
    }

    /// Sends the request that a connection owes.
    pub(super) fn send(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        let group = &mut self.groups[usize::from(connection.group)];
        let Some(id) = connection.id else {
            return;
        };
        connection.request = group.choose(&mut self.random);
        connection.aborts =
            group.behaviour.abort_share > 0.0 && self.random.f64() < group.behaviour.abort_share;
        let last = connection.served + 1 >= group.requests_a_connection;
        connection.keep = !last;
        connection.last = last;
        connection.refused = false;
        connection.written = 0;
        connection.verdict = None;
        connection.body = 0;
        connection.since = now;
        connection.state = State::Writing;
        let request = group.request(connection.request);
        connection.parser.expect_no_body(request.to_head);
        if group.writes_bit_by_bit() || request.expect_continue {
            connection.writing = true;
            self.write_more(ops, index, now);
            return;
        }
        let bytes = request.bytes(last);
        let written = ops
            .write(id, request.head(last))
            .and_then(|()| match &request.body {
                Some(body) => body.write(ops, id),
                None => Ok(()),
            });
        group.counts.bytes.sent += bytes;
        if written.is_err() {
            // The outbox is full: more than megabytes of requests in one turn.
            self.give_up(ops, index, Failure::NoMemory);
            return;
        }
        self.sent(index, now);
    }

    /// The whole request is on its way: waits for the answer.
    pub(super) fn sent(&mut self, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        let group = &mut self.groups[usize::from(connection.group)];
        connection.writing = false;
        connection.since = now;
        connection.state = State::AwaitingHead;
        group.counts.sent += 1;
        self.wake_at(index, now + self.plan.timeouts.first_byte());
    }

    /// Gives the next bytes of a request away: as many as a slow client does in one step, or as wait for the kernel at most.
    pub(super) fn write_more(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let deadline = self.connections[index].since + self.plan.timeouts.request();
        if now >= deadline {
            self.give_up(ops, index, Failure::RequestTimeout);
            return;
        }
        let rate = self.groups[self.group_of(index)].behaviour.write_bytes_per_second;
        let step = rate.map_or(PIECE, |rate| {
            (rate as f64 * WRITE_STEP.as_secs_f64()).ceil().max(1.0) as usize
        });
        loop {
            let given = match self.give(ops, index, step) {
                Ok(given) => given,
                Err(failure) => return self.give_up(ops, index, failure),
            };
            let connection = &mut self.connections[index];
            let Some(id) = connection.id else { return };
            match (given, rate) {
                // The answer has begun already.
                (Given::All, _) if connection.state == State::AwaitingEnd => {
                    connection.writing = false;
                    return;
                }
                (Given::All, _) => return self.sent(index, now),
                (Given::Head, _) => {
                    connection.state = State::AwaitingContinue;
                    return self.wake_at(index, now + self.plan.timeouts.for_continue());
                }
                // The next piece is not due before this one would have gone at that rate.
                (Given::Part(bytes), Some(rate)) => {
                    let wait = Duration::from_secs_f64(bytes as f64 / rate as f64);
                    return self.wake_at(index, now + wait);
                }
                (Given::Part(_), None) if ops.queued(id) > WINDOW => {
                    ops.tell_drained(id);
                    return self.wake_at(index, deadline);
                }
                (Given::Part(_), None) => {}
            }
        }
    }

    /// Queues the next piece of a request, at most so many bytes.
    fn give(&mut self, ops: &mut Ops, index: usize, most: usize) -> Result<Given, Failure> {
        let connection = &self.connections[index];
        let (written, last) = (connection.written, connection.last);
        let Some(id) = connection.id else {
            return Err(Failure::ClosedEarly);
        };
        let requests = self.groups[self.group_of(index)].requests();
        let request = &requests[usize::from(connection.request)];
        let head = request.head(last);
        let in_head = usize::try_from(written)
            .ok()
            .and_then(|written| head.get(written..));
        let piece = match (in_head.filter(|left| !left.is_empty()), &request.body) {
            (Some(left), _) => &left[..left.len().min(most)],
            (None, Some(body)) => body.at(written - head.len() as u64, most),
            (None, None) => &[],
        };
        let is_body = written >= head.len() as u64;
        let chunked = request.body.as_ref().is_some_and(|body| body.is_chunked());
        if chunked && is_body && !piece.is_empty() {
            self.put(ops, index, id, size_line(piece.len() as u64).as_ref())?;
            self.put(ops, index, id, piece)?;
            self.put(ops, index, id, CHUNK_END)?;
        } else if !piece.is_empty() {
            self.put(ops, index, id, piece)?;
        }
        let written = written + piece.len() as u64;
        // A body that is waited for begins after the wait, also where it is empty.
        let waits = !is_body && written == head.len() as u64 && request.expect_continue;
        let all = written == request.bytes(last) && !waits;
        if all && chunked {
            self.put(ops, index, id, LAST_CHUNK)?;
        }
        self.send_encrypted(ops, index, id)?;
        let connection = &mut self.connections[index];
        connection.written = written;
        self.groups[usize::from(connection.group)].counts.bytes.sent += piece.len() as u64;
        Ok(match (all, waits) {
            (true, _) => Given::All,
            (_, true) => Given::Head,
            _ => Given::Part(piece.len()),
        })
    }

    /// The kernel has taken everything that was queued.
    pub(super) fn drained(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let connection = &self.connections[index];
        let goes_on = matches!(connection.state, State::Writing | State::AwaitingEnd);
        if goes_on && connection.writing {
            self.write_more(ops, index, now);
        }
    }

    /// The server has asked for the body.
    pub(super) fn write_body(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        let group = &mut self.groups[usize::from(connection.group)];
        if group.writes_bit_by_bit() {
            self.write_more(ops, index, now);
            return;
        }
        let (Some(id), Some(body)) = (connection.id, &group.request(connection.request).body) else {
            return;
        };
        let (bytes, written) = (body.length(), body.write(ops, id));
        group.counts.bytes.sent += bytes;
        if written.is_err() {
            self.give_up(ops, index, Failure::NoMemory);
            return;
        }
        self.sent(index, now);
    }

    /// The server has not asked for the body in time: it is sent all the same (RFC 9110 10.1.1).
    pub(super) fn continue_unasked(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        connection.state = State::Writing;
        self.groups[usize::from(connection.group)]
            .counts
            .continue_timeouts += 1;
        self.write_body(ops, index, now);
    }

    /// Settles the request that a connection owes as failed.
    pub(super) fn fail(&mut self, index: usize, failure: Failure) {
        let connection = &mut self.connections[index];
        if std::mem::take(&mut connection.owes) {
            let group = &mut self.groups[usize::from(connection.group)];
            group.counts.failures.count(failure);
            group.under_way -= 1;
        }
    }

    /// Fails what is under way and resets the connection, which leaves its port free at once.
    pub(super) fn give_up(&mut self, ops: &mut Ops, index: usize, failure: Failure) {
        self.fail(index, failure);
        self.reset(ops, index);
    }
}
