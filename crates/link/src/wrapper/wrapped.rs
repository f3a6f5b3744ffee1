//! A link with a capture of all its frames, and with faults in one direction. The same seed, frames and times give the
//! same faults.

use super::fault::{FaultPlan, Faults, Frame, FrameDirection, Injected};
use super::{Around, Shared, lock};
use crate::burst::{Burst, Extent};
use crate::capture::{CaptureWriter, now};
use crate::error::LinkError;
use crate::link::{Link, Port, Sent, WriteFrame};
use crate::tally::Tally;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// A link with an optional capture and optional faults. The capture file gets all frames that the link itself receives
/// and sends. The faults apply to frames of one [`FrameDirection`], outside the capture: put one wrapper around another
/// for faults in both directions.
///
/// Frames that are held back leave with the first call of [`receive`](Link::receive), [`transmit`](Link::transmit) or
/// [`check`](Link::check) after they are due.
#[derive(Debug)]
pub struct Wrapped<L, C = fn() -> Instant> {
    inner: L,
    around: Around,
    clock: C,
    /// Frames that were lent, if faults affect received frames.
    received: Tally,
    memory: Vec<u8>,
    extents: Vec<Extent>,
    /// An error that occurred after frames were accepted for sending: the next call returns it.
    failure: Option<LinkError>,
}

impl<L: Link> Wrapped<L> {
    /// A link with these faults and this capture, from now on.
    #[must_use]
    pub fn new(inner: L, faults: Option<FaultPlan>, capture: Option<CaptureWriter>) -> Wrapped<L> {
        Wrapped::of(inner, Around::new(faults, capture), Instant::now)
    }
}

impl<L: Link, C: FnMut() -> Instant> Wrapped<L, C> {
    /// A link with these faults, whose delays are measured by `clock`, which never goes back.
    #[must_use]
    pub fn faulty_by(inner: L, plan: FaultPlan, clock: C) -> Wrapped<L, C> {
        Wrapped::of(inner, Around::new(Some(plan), None), clock)
    }

    pub(crate) fn of(inner: L, around: Around, clock: C) -> Wrapped<L, C> {
        Wrapped {
            inner,
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

    /// The fault counters, including those from before the link was lost and reopened; `None` without faults.
    #[must_use]
    pub fn injected(&self) -> Option<Injected> {
        self.around.injected()
    }

    /// Frames that faults hold back now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.injected().map_or(0, |injected| injected.held)
    }

    /// Receives frames and lends those that are due.
    fn receive_harmed(&mut self, faults: &Shared<Faults>, limit: usize) -> Result<Burst<'_>, LinkError> {
        let mut now = (self.clock)();
        let mut faults = lock(faults);
        faults.release(now, false);
        let room = limit.min(faults.room());
        if room > 0 {
            let burst = self.around.receive(&mut self.inner, room)?;
            // Frames may have arrived since the clock was read; none may be held back for less than its delay.
            now = (self.clock)();
            for number in 0..burst.len() {
                faults.take(Frame::of(&burst, number), now);
            }
        }
        faults.release(now, self.inner.is_ended());
        self.memory.clear();
        self.extents.clear();
        let ready = &mut faults.ready;
        for frame in ready.drain(..limit.min(ready.len())) {
            self.extents.push(frame.extent.moved_to(self.memory.len()));
            self.memory.extend_from_slice(&frame.bytes);
        }
        self.received.count_received(&self.extents);
        Ok(Burst::of(&mut self.memory, &self.extents))
    }

    /// Accepts frames for sending; returns their number.
    fn take(
        &mut self,
        faults: &Shared<Faults>,
        count: usize,
        now: Instant,
        mut write: impl WriteFrame,
    ) -> usize {
        let mut faults = lock(faults);
        let room = faults.room_to_send();
        self.memory.resize(self.inner.longest(), 0);
        for number in 0..count.min(room) {
            let length = write(number, &mut self.memory).min(self.memory.len());
            faults.take(Frame::sent(&self.memory[..length], None), now);
        }
        count.min(room)
    }

    /// Sends the frames that are due, as far as there is room.
    fn push(&mut self, faults: &Shared<Faults>, now: Instant) -> Result<(), LinkError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let mut faults = lock(faults);
        faults.release(now, false);
        let ready = &mut faults.ready;
        while let Some(first) = ready.front() {
            let run = ready.iter().take_while(|frame| frame.segment.is_none()).count();
            let (wanted, done) = match first.segment {
                Some(segment) => {
                    let sent = self.around.send_merged(&mut self.inner, &first.bytes, segment)?;
                    (1, 1 - sent.full)
                }
                None => {
                    let sent = self.around.transmit(&mut self.inner, run, |number, buffer| {
                        let frame = &ready[number].bytes;
                        // A device that was reopened may accept only shorter frames.
                        let length = frame.len().min(buffer.len());
                        buffer[..length].copy_from_slice(&frame[..length]);
                        length
                    })?;
                    (run, sent)
                }
            };
            ready.drain(..done);
            if done < wanted {
                break;
            }
        }
        Ok(())
    }

    /// The faults, if they affect frames in this direction.
    fn faults(&self, direction: FrameDirection) -> Option<Shared<Faults>> {
        let (of, faults) = self.around.faults.as_ref()?;
        (*of == direction).then(|| Shared::clone(faults))
    }

    /// Sends what is due, if faults affect sent frames.
    fn push_due(&mut self) -> Result<(), LinkError> {
        match self.faults(FrameDirection::Sent) {
            Some(faults) => {
                let now = (self.clock)();
                self.push(&faults, now)
            }
            None => Ok(()),
        }
    }
}

impl<L: Link, C: FnMut() -> Instant> Link for Wrapped<L, C> {
    fn port(&self) -> &Port {
        self.inner.port()
    }

    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        if let Some(faults) = self.faults(FrameDirection::Received) {
            return self.receive_harmed(&faults, limit);
        }
        self.push_due()?;
        self.around.receive(&mut self.inner, limit)
    }

    /// If faults affect sent frames, accepted frames may be dropped or held back: [`tally`](Link::tally) has the frames
    /// that the link inside sent.
    fn transmit(&mut self, count: usize, write: impl WriteFrame) -> Result<usize, LinkError> {
        let Some(faults) = self.faults(FrameDirection::Sent) else {
            return self.around.transmit(&mut self.inner, count, write);
        };
        let now = (self.clock)();
        self.push(&faults, now)?;
        let taken = self.take(&faults, count, now, write);
        self.failure = self.push(&faults, now).err();
        Ok(taken)
    }

    fn send_merged(&mut self, frame: &[u8], segment: u16) -> Result<Sent, LinkError> {
        let Some(faults) = self.faults(FrameDirection::Sent) else {
            return self.around.send_merged(&mut self.inner, frame, segment);
        };
        let now = (self.clock)();
        self.push(&faults, now)?;
        let taken = lock(&faults).room_to_send().min(1);
        if taken > 0 {
            lock(&faults).take(Frame::sent(frame, Some(segment)), now);
        }
        self.failure = self.push(&faults, now).err();
        Ok(Sent {
            taken,
            full: 1 - taken,
            oversized: 0,
        })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // Held frames make no descriptor readable.
        self.inner.descriptor().filter(|_| self.held() == 0)
    }

    /// Received frames as they were lent, sent frames as the link inside counts them.
    fn tally(&self) -> Tally {
        let tally = self.inner.tally();
        match self.faults(FrameDirection::Received).is_some() {
            true => Tally {
                received: self.received.received,
                received_bytes: self.received.received_bytes,
                ..tally
            },
            false => tally,
        }
    }

    fn is_ended(&self) -> bool {
        self.inner.is_ended() && self.held() == 0
    }

    fn check(&mut self) -> Result<(), LinkError> {
        self.push_due()?;
        if let Some(writer) = &self.around.capture {
            lock(writer).flush()?;
        }
        self.inner.check().or_else(|error| {
            // Frames that arrived before the end are delivered first.
            let more =
                self.faults(FrameDirection::Received).is_some() && self.inner.is_ended() && self.held() > 0;
            if more { Ok(()) } else { Err(error) }
        })
    }
}

impl Around {
    /// Receives and captures. Frames without a time of their own get the current time.
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

    /// Sends and captures a merged frame.
    fn send_merged(&self, link: &mut impl Link, frame: &[u8], segment: u16) -> Result<Sent, LinkError> {
        let sent = link.send_merged(frame, segment)?;
        if let Some(writer) = self.capture.as_ref().filter(|_| sent.taken > 0) {
            lock(writer).write(now(), frame.len() as u32, frame)?;
        }
        Ok(sent)
    }

    /// Sends and captures.
    fn transmit(
        &self,
        link: &mut impl Link,
        count: usize,
        mut write: impl WriteFrame,
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
