//! Connections: what opens, closes and reopens them, and what becomes of their ports.

use super::connection::{Connection, State};
use super::generator::{Generator, Stage};
use crate::failure::Failure;
use crate::sources::Release;
use corelane_worker::Time;
use corelane_worker::engine::{ConnectOptions, Ops};
use std::time::Duration;

/// How long a connection waits that could not be opened, before it tries again: a server that refuses is not to be met by
/// as many attempts as the CPU can make.
const TRY_AGAIN: Duration = Duration::from_millis(100);

impl Generator {
    /// Opens a connection, or finds that no source is left for it.
    pub(super) fn connect(&mut self, ops: &mut Ops, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        let group = &mut self.groups[usize::from(connection.group)];
        let Some(source) = group.ports.take(now) else {
            let free = group.ports.next_free().unwrap_or_default();
            self.not_opened(index, Failure::NoPorts);
            self.try_again(index, free.max(now + TRY_AGAIN));
            return;
        };
        let mut options = ConnectOptions::default();
        options.local = group.ports.address(source);
        options.timeout = Some(self.plan.timeouts.connect());
        let id = ops.connect(group.target, options);
        let old = &connection;
        *connection = Connection {
            id: Some(id),
            source: Some(source),
            state: State::Opening,
            since: now,
            due: old.due,
            owes: old.owes,
            queued: old.queued,
            timer: old.timer,
            fires: old.fires,
            ..Connection::new(old.group)
        };
        connection.wake = Time::NEVER;
        self.opening += 1;
        if self.of_slot.len() <= id.slot() {
            self.of_slot.resize(id.slot() + 1, u32::MAX);
        }
        self.of_slot[id.slot()] = index as u32;
    }

    /// Counts a connection that could not be opened, against the request that wanted it where there is one.
    pub(super) fn not_opened(&mut self, index: usize, failure: Failure) {
        let group = self.group_of(index);
        self.groups[group].counts.connections.failed.count(failure);
        self.connections[index].state = State::Closed;
        self.fail(index, failure);
    }

    /// Ends a connection in good order. Where the server has not done so first, its port rests afterwards.
    pub(super) fn close(&mut self, ops: &mut Ops, index: usize, release: Release) {
        let connection = &mut self.connections[index];
        connection.state = State::Closing;
        connection.release = release;
        if let Some(id) = connection.id {
            self.end_session(ops, index, id);
            ops.close(id);
        }
    }

    /// Ends a connection at once, which leaves nothing behind.
    pub(super) fn reset(&mut self, ops: &mut Ops, index: usize) {
        let connection = &mut self.connections[index];
        connection.state = State::Closing;
        if let Some(id) = connection.id {
            ops.abort(id);
        }
    }

    /// What a connection does that has ended: in the run it is opened again, for the next request or to wait for one.
    pub(super) fn again(&mut self, ops: &mut Ops, index: usize, now: Time) {
        if !self.may_ask(index) {
            return;
        }
        let think = self.groups[self.group_of(index)].think();
        if think.is_zero() {
            self.reopen(ops, index, now, now);
        } else {
            self.try_again(index, now + think);
        }
    }

    /// Opens an ended connection: with a request that was meant for `due`, or, where a schedule decides, for the next one.
    pub(super) fn reopen(&mut self, ops: &mut Ops, index: usize, due: Time, now: Time) {
        if !self.may_ask(index) {
            return;
        }
        if self.groups[self.group_of(index)].is_open_loop() {
            self.connect(ops, index, now);
        } else {
            self.begin(ops, index, due, now);
        }
    }

    /// Has a closed connection opened again, no earlier than `when`.
    pub(super) fn try_again(&mut self, index: usize, when: Time) {
        if self.stage == Stage::Running {
            self.wake_at(index, when);
        }
    }

    /// As [`try_again`](Self::try_again), after an attempt that failed.
    pub(super) fn try_later(&mut self, index: usize, now: Time) {
        self.try_again(index, now + TRY_AGAIN);
    }

    /// Gives the source of a connection back.
    pub(super) fn release(&mut self, index: usize, now: Time) {
        let connection = &mut self.connections[index];
        if let Some(source) = connection.source.take() {
            let group = &mut self.groups[usize::from(connection.group)];
            group.ports.release(source, connection.release, now);
        }
    }
}
