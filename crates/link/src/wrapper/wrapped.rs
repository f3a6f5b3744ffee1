//! A link around which stand a capture of all frames that pass, and faults that harm some of those that pass one way, as a
//! seed decides: the same seed, frames and times give the same faults.

use super::fault::{Direction, FaultPlan, Faults, Frame, Injected};
use super::{Around, Shared, lock};
use crate::burst::{Burst, Extent};
use crate::capture::{CaptureWriter, now};
use crate::error::LinkError;
use crate::link::Link;
use crate::tally::Tally;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// A link, the file to which all that it receives and sends is written, and what befalls the frames that pass it in the
/// [`Direction`] of a plan. The capture stands inside the faults, so that it has what the link itself had. Put one around
/// another for faults both ways.
///
/// Frames that are held back leave with the first call of [`receive`](Link::receive), [`transmit`](Link::transmit) or
/// [`check`](Link::check) after they are due.
#[derive(Debug)]
pub struct Wrapped<L, C = fn() -> Instant> {
    inner: L,
    around: Around,
    /// Which frames the faults befall; none where there are no faults.
    direction: Option<Direction>,
    clock: C,
    /// What was lent, where faults befall what is received.
    received: Tally,
    memory: Vec<u8>,
    extents: Vec<Extent>,
    /// An error met after frames were taken to be sent: it is returned by the next call.
    failure: Option<LinkError>,
}

impl<L: Link> Wrapped<L> {
    /// With faults as planned, from now on.
    #[must_use]
    pub fn faulty(inner: L, plan: FaultPlan) -> Wrapped<L> {
        Wrapped::faulty_by(inner, plan, Instant::now)
    }

    /// With a capture, from now on.
    #[must_use]
    pub fn captured(inner: L, writer: CaptureWriter) -> Wrapped<L> {
        Wrapped::of(inner, Around::new(None, Some(writer)), Instant::now)
    }

    /// With what stood around a link that was lost.
    pub(crate) fn resume(inner: L, around: Around) -> Wrapped<L> {
        Wrapped::of(inner, around, Instant::now)
    }
}

impl<L: Link, C: FnMut() -> Instant> Wrapped<L, C> {
    /// With faults as planned, and delays by this clock, which never goes back.
    #[must_use]
    pub fn faulty_by(inner: L, plan: FaultPlan, clock: C) -> Wrapped<L, C> {
        Wrapped::of(inner, Around::new(Some(plan), None), clock)
    }

    fn of(inner: L, around: Around, clock: C) -> Wrapped<L, C> {
        Wrapped {
            inner,
            direction: around.faults.as_ref().map(|faults| lock(faults).direction()),
            around,
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

    /// What befell the frames so far, before the link was lost and opened again as well; none without faults.
    #[must_use]
    pub fn injected(&self) -> Option<Injected> {
        self.around.injected()
    }

    fn holds_frames(&self) -> bool {
        self.injected().is_some_and(|injected| injected.held > 0)
    }

    /// Receives, and lends what is due.
    fn receive_harmed(&mut self, faults: &Shared<Faults>, limit: usize) -> Result<Burst<'_>, LinkError> {
        let mut now = (self.clock)();
        let mut faults = lock(faults);
        faults.release(now, false);
        let room = limit.min(faults.room());
        if room > 0 {
            let burst = self.around.receive(&mut self.inner, room)?;
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
        self.received.count_received(&self.extents);
        Ok(Burst::of(&mut self.memory, &self.extents))
    }

    /// Takes frames to be sent; says how many.
    fn take(
        &mut self,
        faults: &Shared<Faults>,
        count: usize,
        now: Instant,
        mut write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> usize {
        let mut faults = lock(faults);
        // What could not be sent waits first.
        let room = match faults.ready().is_empty() {
            true => faults.room(),
            false => 0,
        };
        self.memory.resize(self.inner.longest(), 0);
        for number in 0..count.min(room) {
            let length = write(number, &mut self.memory).min(self.memory.len());
            faults.take(Frame::sent(&self.memory[..length]), now);
        }
        count.min(room)
    }

    /// Sends what is due, as far as there is room.
    fn push(&mut self, faults: &Shared<Faults>, now: Instant) -> Result<(), LinkError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let mut faults = lock(faults);
        faults.release(now, false);
        let ready = faults.ready();
        if ready.is_empty() {
            return Ok(());
        }
        let sent = self
            .around
            .transmit(&mut self.inner, ready.len(), |number, buffer| {
                let frame = &ready[number].bytes;
                // A device that came back may take shorter ones than before.
                let length = frame.len().min(buffer.len());
                buffer[..length].copy_from_slice(&frame[..length]);
                length
            })?;
        ready.drain(..sent);
        Ok(())
    }

    /// The faults, if they befall frames that pass this way.
    fn faults(&self, direction: Direction) -> Option<Shared<Faults>> {
        let is_asked = self.direction == Some(direction);
        self.around.faults.as_ref().filter(|_| is_asked).cloned()
    }
}

impl<L: Link, C: FnMut() -> Instant> Link for Wrapped<L, C> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        if let Some(faults) = self.faults(Direction::Received) {
            return self.receive_harmed(&faults, limit);
        }
        if let Some(faults) = self.faults(Direction::Sent) {
            let now = (self.clock)();
            self.push(&faults, now)?;
        }
        self.around.receive(&mut self.inner, limit)
    }

    /// Where faults befall what is sent, frames that are taken may be dropped or held back: [`tally`](Link::tally) has
    /// what the link inside sent.
    fn transmit(
        &mut self,
        count: usize,
        write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<usize, LinkError> {
        let Some(faults) = self.faults(Direction::Sent) else {
            return self.around.transmit(&mut self.inner, count, write);
        };
        let now = (self.clock)();
        self.push(&faults, now)?;
        let taken = self.take(&faults, count, now, write);
        self.failure = self.push(&faults, now).err();
        Ok(taken)
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
            Some(Direction::Received) => Tally {
                received: self.received.received,
                received_bytes: self.received.received_bytes,
                ..self.inner.tally()
            },
            _ => self.inner.tally(),
        }
    }

    fn is_ended(&self) -> bool {
        self.inner.is_ended() && !self.holds_frames()
    }

    fn check(&mut self) -> Result<(), LinkError> {
        if let Some(faults) = self.faults(Direction::Sent) {
            let now = (self.clock)();
            self.push(&faults, now)?;
        }
        if let Some(writer) = &self.around.capture {
            lock(writer).flush()?;
        }
        self.inner.check().or_else(|error| {
            // What came before the end is taken first.
            let received = self.direction == Some(Direction::Received);
            let more = received && self.inner.is_ended() && self.holds_frames();
            if more { Ok(()) } else { Err(error) }
        })
    }
}

impl Around {
    /// Receives and captures; frames that know no time of their own get that of the burst.
    fn receive<'link>(&self, link: &'link mut impl Link, limit: usize) -> Result<Burst<'link>, LinkError> {
        let burst = link.receive(limit)?;
        if let Some(writer) = self.capture.as_ref().filter(|_| !burst.is_empty()) {
            let now = now();
            let mut writer = lock(writer);
            for number in 0..burst.len() {
                let time = burst.time(number).unwrap_or(now);
                writer.write(time, burst.wire_length(number) as u32, burst.frame(number))?;
            }
        }
        Ok(burst)
    }

    /// Sends and captures.
    fn transmit(
        &self,
        link: &mut impl Link,
        count: usize,
        mut write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<usize, LinkError> {
        let Some(writer) = &self.capture else {
            return link.transmit(count, write);
        };
        let now = now();
        let mut written = Ok(());
        let mut writer = lock(writer);
        let taken = link.transmit(count, |number, buffer| {
            let length = write(number, buffer).min(buffer.len());
            if written.is_ok() {
                written = writer.write(now, length as u32, &buffer[..length]);
            }
            length
        })?;
        written.map(|()| taken)
    }
}
