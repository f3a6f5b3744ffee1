//! A link that harms some of the frames that pass it one way, as a seed decides: the same seed, frames and times give the same
//! faults.

use super::fault::{Direction, FaultPlan, Faults, Frame, Injected};
use super::{Shared, lock};
use crate::burst::{Burst, Extent};
use crate::error::LinkError;
use crate::link::Link;
use crate::tally::Tally;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// A link, and what befalls the frames that pass it in the [`Direction`] of its plan: put one around another for faults both
/// ways.
///
/// Frames that are held back leave with the first call of [`receive`](Link::receive), [`transmit`](Link::transmit) or
/// [`check`](Link::check) after they are due.
#[derive(Debug)]
pub struct Faulty<L, C = fn() -> Instant> {
    inner: L,
    faults: Shared<Faults>,
    direction: Direction,
    clock: C,
    /// What was lent, where faults befall what is received.
    received: Tally,
    memory: Vec<u8>,
    extents: Vec<Extent>,
    /// An error met after frames were taken to be sent: it is told with the next call.
    failure: Option<LinkError>,
}

impl<L: Link> Faulty<L> {
    /// Faults as planned, from now on.
    #[must_use]
    pub fn new(inner: L, plan: FaultPlan) -> Faulty<L> {
        Faulty::with_clock(inner, plan, Instant::now)
    }

    /// Goes on with the faults of a link that was lost.
    pub(crate) fn resume(inner: L, faults: Shared<Faults>) -> Faulty<L> {
        Faulty::around(inner, faults, Instant::now)
    }
}

impl<L: Link, C: FnMut() -> Instant> Faulty<L, C> {
    /// Faults as planned, with delays by this clock, which never goes back.
    #[must_use]
    pub fn with_clock(inner: L, plan: FaultPlan, clock: C) -> Faulty<L, C> {
        Faulty::around(inner, Shared::new(Faults::new(plan).into()), clock)
    }

    fn around(inner: L, faults: Shared<Faults>, clock: C) -> Faulty<L, C> {
        let direction = lock(&faults).direction();
        Faulty {
            inner,
            faults,
            direction,
            clock,
            received: Tally::default(),
            memory: Vec::new(),
            extents: Vec::new(),
            failure: None,
        }
    }

    /// The link inside.
    #[must_use]
    pub fn inner(&self) -> &L {
        &self.inner
    }

    /// What befell the frames so far, before the link was lost and opened again as well.
    #[must_use]
    pub fn injected(&self) -> Injected {
        lock(&self.faults).injected()
    }

    fn holds_frames(&self) -> bool {
        lock(&self.faults).held() > 0
    }

    /// Receives, and lends what is due.
    fn receive_harmed(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        let mut now = (self.clock)();
        let mut faults = lock(&self.faults);
        faults.release(now, false);
        let room = limit.min(faults.room());
        if room > 0 {
            let burst = self.inner.receive(room)?;
            // Frames may have come since the look at the clock above; none is to be held back for less than its delay.
            now = (self.clock)();
            for number in 0..burst.len() {
                faults.take(Frame::of(&burst, number), now);
            }
        }
        faults.release(now, self.inner.is_ended());
        self.memory.clear();
        self.extents.clear();
        let ready = faults.ready();
        for frame in ready.drain(..limit.min(ready.len())) {
            self.extents.push(Extent {
                offset: self.memory.len(),
                length: frame.bytes.len() as u32,
                wire_length: frame.wire_length,
                time: frame.time,
            });
            self.memory.extend_from_slice(&frame.bytes);
        }
        self.received.received += self.extents.len() as u64;
        self.received.received_bytes += self.memory.len() as u64;
        Ok(Burst::of(&mut self.memory, &self.extents))
    }

    /// Takes frames to be sent; says how many.
    fn take(
        &mut self,
        count: usize,
        now: Instant,
        mut write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> usize {
        let mut faults = lock(&self.faults);
        // What could not be sent waits first.
        let room = if faults.ready().is_empty() {
            faults.room()
        } else {
            0
        };
        self.memory.resize(self.inner.longest(), 0);
        for number in 0..count.min(room) {
            let length = write(number, &mut self.memory).min(self.memory.len());
            faults.take(Frame::sent(&self.memory[..length]), now);
        }
        count.min(room)
    }

    /// Sends what is due, as far as there is room.
    fn push(&mut self, now: Instant) -> Result<(), LinkError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let mut faults = lock(&self.faults);
        faults.release(now, false);
        let ready = faults.ready();
        if ready.is_empty() {
            return Ok(());
        }
        let sent = self.inner.transmit(ready.len(), |number, buffer| {
            let frame = &ready[number].bytes;
            // A device that came back may take shorter ones than before.
            let length = frame.len().min(buffer.len());
            buffer[..length].copy_from_slice(&frame[..length]);
            length
        })?;
        ready.drain(..sent);
        Ok(())
    }
}

impl<L: Link, C: FnMut() -> Instant> Link for Faulty<L, C> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        match self.direction {
            Direction::Received => self.receive_harmed(limit),
            Direction::Sent => {
                let now = (self.clock)();
                self.push(now)?;
                self.inner.receive(limit)
            }
        }
    }

    /// Where faults befall what is sent, frames that are taken may be dropped or held back: [`tally`](Link::tally) tells
    /// what the link inside sent.
    fn transmit(
        &mut self,
        count: usize,
        write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<usize, LinkError> {
        match self.direction {
            Direction::Received => self.inner.transmit(count, write),
            Direction::Sent => {
                let now = (self.clock)();
                self.push(now)?;
                let taken = self.take(count, now, write);
                self.failure = self.push(now).err();
                Ok(taken)
            }
        }
    }

    fn longest(&self) -> usize {
        self.inner.longest()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // Frames that wait make no descriptor readable.
        self.inner.descriptor().filter(|_| !self.holds_frames())
    }

    /// What came through: received frames as they were lent, sent ones as the link inside counts them.
    fn tally(&self) -> Tally {
        match self.direction {
            Direction::Sent => self.inner.tally(),
            Direction::Received => Tally {
                received: self.received.received,
                received_bytes: self.received.received_bytes,
                ..self.inner.tally()
            },
        }
    }

    fn is_ended(&self) -> bool {
        self.inner.is_ended() && !self.holds_frames()
    }

    fn check(&mut self) -> Result<(), LinkError> {
        if self.direction == Direction::Sent {
            let now = (self.clock)();
            self.push(now)?;
        }
        self.inner.check().or_else(|error| {
            // What came before the end is taken first.
            let more = self.direction == Direction::Received && self.inner.is_ended() && self.holds_frames();
            if more { Ok(()) } else { Err(error) }
        })
    }
}
