//! Requests: what begins one, sends it, and settles it.

use super::connection::State;
use super::generator::{Generator, Stage};
use crate::failure::Failure;
use corelane_worker::Time;
use corelane_worker::engine::Ops;
use std::time::Duration;

/// A slow client gives its request away in pieces of this long.
const WRITE_STEP: Duration = Duration::from_millis(50);

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
        connection.verdict = None;
        connection.body = 0;
        connection.since = now;
        connection.state = State::Writing;
        if group.behaviour.write_bytes_per_second.is_some() {
            self.write_more(ops, index, now);
            return;
        }
        let request = group.request(connection.request);
        let written = ops
            .write(id, request.head(last))
            .and_then(|()| match &request.body {
                Some(body) => body.write(ops, id),
                None => Ok(()),
            });
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
        let request = group.request(connection.request);
        let bytes = request.head(!connection.keep).len() as u64
            + request.body.as_ref().map_or(0, |body| body.length());
        connection.parser.expect_no_body(request.to_head);
        connection.body = 0;
        connection.since = now;
        connection.state = State::AwaitingHead;
        group.counts.sent += 1;
        group.counts.bytes.sent += bytes;
        self.wake_at(index, now + self.plan.timeouts.first_byte());
    }

    /// Gives the next bytes of a request away, as many as a slow client does in one step.
    pub(super) fn write_more(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        let group = &self.groups[usize::from(connection.group)];
        let (Some(id), Some(rate)) = (connection.id, group.behaviour.write_bytes_per_second) else {
            return;
        };
        if now.since(connection.since) >= self.plan.timeouts.request() {
            self.give_up(ops, index, Failure::RequestTimeout);
            return;
        }
        let request = group.request(connection.request);
        let step = (rate as f64 * WRITE_STEP.as_secs_f64()).ceil().max(1.0) as usize;
        let head = request.head(!connection.keep);
        let piece = match usize::try_from(connection.body)
            .ok()
            .filter(|offset| *offset < head.len())
        {
            Some(offset) => &head[offset..head.len().min(offset + step)],
            None => {
                let offset = connection.body - head.len() as u64;
                request
                    .body
                    .as_ref()
                    .map_or(&[][..], |body| body.at(offset, step))
            }
        };
        // The next piece is not due before this one would have gone at that rate.
        let wait = Duration::from_secs_f64(piece.len() as f64 / rate as f64);
        connection.body += piece.len() as u64;
        let whole = head.len() as u64 + request.body.as_ref().map_or(0, |body| body.length());
        let written = connection.body >= whole;
        // A full outbox holds megabytes of other requests: the piece goes with them, or the connection fails.
        if ops.write(id, piece).is_err() {
            self.give_up(ops, index, Failure::NoMemory);
        } else if written {
            self.sent(index, now);
        } else {
            self.wake_at(index, now + wait);
        }
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
