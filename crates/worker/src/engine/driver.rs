//! The part that all engines share: a turn performs the queued operations, lends arrived data in bounded portions, and
//! sends what was queued meanwhile. A [`Driver`] adds the engine-specific part: waiting, receiving and sending.

use super::cause::EngineCounters;
use super::flush::Flushed;
use super::ops::{Backend, Ops};
use super::settings::EngineSettings;
use super::streams::{self, StreamDriver};
use super::wake::{Wakeable, Waker};
use super::{Engine, Event, Handler, Id, TURN_DATAGRAMS};
use crate::memory::Buffers;
use crate::system::memory::Pages;
use crate::time::Time;
use std::io;

/// How long a turn may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) now: Time,
    pub(crate) until: Time,
    /// Until when arrivals may gather.
    pub(crate) gathered: Time,
}

/// The engine-specific part of waiting and of handling datagrams.
pub(crate) trait Driver: StreamDriver {
    /// Whether a turn may begin.
    fn starts(&self) -> bool {
        true
    }

    /// Starts or stops receiving on a socket, according to its settings.
    fn apply(&mut self, ops: &mut Ops, slot: u32);

    /// Ends the operations of a socket that is closing and has an empty queue; returns whether they have ended.
    fn stop(&mut self, ops: &mut Ops, slot: u32) -> bool;

    /// Sends a socket's queue.
    fn send(&mut self, ops: &mut Ops, slot: u32) -> Flushed;

    /// Arranges a call of [`unblocked`] when a blocked socket has room again.
    fn await_room(&mut self, _ops: &mut Ops, _slot: u32) {}

    /// Whether data has arrived that was not lent, so that the turn must not wait.
    fn has_work(&mut self) -> bool;

    /// Polls for arrivals; waits for them as long as `patience` allows, not at all if none. Returns whether the turn
    /// continues.
    fn wait(&mut self, ops: &mut Ops, wakeable: &Wakeable, patience: Option<Patience>) -> io::Result<bool>;

    /// Lends the next datagrams of one socket; returns their number and the time. None if no socket has any.
    fn lend(&mut self, ops: &mut Ops, on: &mut impl Handler) -> Option<(u64, Time)>;

    /// The receive memory: for datagrams, and for streams.
    fn memory(&self) -> [&Pages; 2];

    /// Ends all operations before the sockets and the memory are freed.
    fn close(&mut self, _ops: &mut Ops) {}
}

/// An engine: a driver and its operations.
pub(crate) struct Driven<D: Driver> {
    driver: D,
    ops: Ops,
    wakeable: Wakeable,
    /// When the last wait ended.
    taken: Time,
}

impl<D: Driver> Driven<D> {
    /// Places the buffers on the memory nodes that the settings name.
    pub(crate) fn new(
        driver: D,
        settings: &EngineSettings,
        backend: Backend,
        wakeable: Wakeable,
    ) -> io::Result<Self> {
        let engine = Self {
            driver,
            ops: Ops::new(settings, backend)?,
            wakeable,
            taken: Time::default(),
        };
        if let Some(policy) = settings.memory {
            engine.buffers().place(policy)?;
        }
        Ok(engine)
    }

    /// Sends queues, then applies changes.
    fn perform(&mut self) {
        let Self { driver, ops, .. } = self;
        flush_all(driver, ops);
        while let Some(slot) = ops.sockets.next_change() {
            let entry = ops.sockets.at(slot);
            if entry.closing && entry.queue.runs == 0 && driver.stop(ops, slot) {
                ops.closed(slot);
            } else {
                driver.apply(ops, slot);
            }
        }
        streams::perform(driver, ops);
    }

    /// Waits until something has happened; returns whether the turn continues.
    fn wait(&mut self, until: Time) -> io::Result<bool> {
        let Self { driver, ops, .. } = self;
        ops.counters.calls.wait += 1;
        let gathered = self.taken + std::mem::take(&mut ops.gathering);
        let now = driver.now();
        let patience = Patience { now, until, gathered };
        let is_busy = driver.has_work() || ops.has_work() || until <= now;
        driver.wait(ops, &self.wakeable, (!is_busy).then_some(patience))
    }

    /// Lends datagrams until there are none, the limit per turn is reached, or the deadline has passed; returns whether
    /// there were any.
    fn serve(&mut self, deadline: Time, on: &mut impl Handler) -> bool {
        let mut work = 0;
        while work < TURN_DATAGRAMS
            && let Some((lent, now)) = self.driver.lend(&mut self.ops, on)
        {
            work += lent.max(1);
            flush_all(&mut self.driver, &mut self.ops);
            if now >= deadline {
                break;
            }
        }
        work > 0
    }
}

impl<D: Driver> Engine for Driven<D> {
    fn ops(&mut self) -> &mut Ops {
        &mut self.ops
    }

    fn now(&self) -> Time {
        self.driver.now()
    }

    fn turn(&mut self, until: Time, on: &mut impl Handler) -> io::Result<()> {
        if !self.driver.starts() {
            return Ok(());
        }
        self.perform();
        let until = until.min(self.ops.deadlines.next_due());
        if !self.wait(until)? {
            return Ok(());
        }
        if self.wakeable.take() {
            let now = self.driver.now();
            on.event(&mut self.ops, now, Id::NONE, Event::Woken);
        }
        self.taken = self.driver.now();
        // A deadline that has already passed means a turn without waiting, not an empty one.
        let deadline = if until <= self.taken { Time::NEVER } else { until };
        let now = match self.serve(deadline, on) {
            true => self.driver.now(),
            false => self.taken,
        };
        streams::serve(&mut self.driver, &mut self.ops, now, deadline, on);
        self.perform();
        if self.ops.has_notices() {
            let now = self.driver.now();
            self.ops.deliver_notices(now, on);
        }
        Ok(())
    }

    fn finish(&mut self) -> EngineCounters {
        self.driver.close(&mut self.ops);
        self.ops.counters()
    }

    fn buffers(&self) -> Buffers {
        let own = [self.ops.sends.arena.memory(), self.ops.outgoing.memory()];
        Buffers::new(self.driver.memory().into_iter().chain(own))
    }

    fn waker(&self) -> Waker {
        self.wakeable.waker()
    }
}

impl<D: Driver> Drop for Driven<D> {
    fn drop(&mut self) {
        self.driver.close(&mut self.ops);
    }
}

fn flush_all(driver: &mut impl Driver, ops: &mut Ops) {
    while let Some(slot) = ops.sockets.next_waiting() {
        if !ops.sockets.at(slot).blocked && driver.send(ops, slot) == Flushed::Blocked {
            ops.sockets.at_mut(slot).blocked = true;
            driver.await_room(ops, slot);
        }
    }
}

/// A blocked socket has room again.
pub(crate) fn unblocked(ops: &mut Ops, slot: u32) {
    ops.sockets.at_mut(slot).blocked = false;
    ops.sockets.note_waiting(slot);
}
