//! A link whose frames are written to a capture file as they pass, both ways.

use super::{Shared, lock};
use crate::burst::Burst;
use crate::capture::{CaptureWriter, now};
use crate::error::LinkError;
use crate::link::Link;
use crate::tally::Tally;
use std::os::fd::BorrowedFd;

/// A link, and the file to which all that it receives and sends is written.
#[derive(Debug)]
pub struct Captured<L> {
    inner: L,
    writer: Shared<CaptureWriter>,
}

impl<L> Captured<L> {
    /// Captures from now on.
    #[must_use]
    pub fn new(inner: L, writer: CaptureWriter) -> Captured<L> {
        Captured::resume(inner, Shared::new(writer.into()))
    }

    /// Goes on with the file of a link that was lost.
    pub(crate) fn resume(inner: L, writer: Shared<CaptureWriter>) -> Captured<L> {
        Captured { inner, writer }
    }

    /// The link inside.
    #[must_use]
    pub fn inner(&self) -> &L {
        &self.inner
    }
}

impl<L: Link> Link for Captured<L> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    /// As of the link inside; frames that know no time of their own get that of the burst.
    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError> {
        let burst = self.inner.receive(limit)?;
        if !burst.is_empty() {
            let now = now();
            let mut writer = lock(&self.writer);
            for number in 0..burst.len() {
                let time = burst.time(number).unwrap_or(now);
                writer.write(time, burst.wire_length(number) as u32, burst.frame(number))?;
            }
        }
        Ok(burst)
    }

    fn transmit(
        &mut self,
        count: usize,
        mut write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<usize, LinkError> {
        let now = now();
        let mut written = Ok(());
        let mut writer = lock(&self.writer);
        let taken = self.inner.transmit(count, |number, buffer| {
            let length = write(number, buffer).min(buffer.len());
            if written.is_ok() {
                written = writer.write(now, length as u32, &buffer[..length]);
            }
            length
        })?;
        written.map(|()| taken)
    }

    fn longest(&self) -> usize {
        self.inner.longest()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    fn tally(&self) -> Tally {
        self.inner.tally()
    }

    fn is_ended(&self) -> bool {
        self.inner.is_ended()
    }

    fn check(&mut self) -> Result<(), LinkError> {
        lock(&self.writer).flush()?;
        self.inner.check()
    }
}
