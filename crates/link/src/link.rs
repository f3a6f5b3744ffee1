//! The trait of every link: bursts of frames come out of its memory and go into it.

use crate::burst::Burst;
use crate::error::LinkError;
use crate::tally::Tally;
use std::os::fd::BorrowedFd;

/// One queue of whole-frame I/O, used by one thread.
///
/// The link owns all frame memory. A burst that was received is lent until the next call of any `&mut self` method, which
/// the borrow checker sees to; frames to transmit are written in place. Calls are made once a burst and are known at
/// compile time, so that no frame costs a dynamic call.
///
/// No method waits. Who has nothing else to do waits until [`descriptor`](Link::descriptor) is readable.
pub trait Link {
    /// What it is called in messages: the device, file or ring, and its queue.
    fn name(&self) -> &str;

    /// Takes up to `limit` frames that have arrived, in the order of arrival; the burst is empty when there are none. What
    /// the burst before lent goes back to the link.
    ///
    /// # Errors
    /// [`LinkError::Lost`] when the device is gone or down: open it again. Any other error is one of the request.
    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError>;

    /// Has up to `count` frames written and sends them in that order. `write` is called with 0, 1, … and an empty buffer of
    /// [`longest`](Link::longest) bytes, whose content is arbitrary, and says how many bytes the frame has (what is over
    /// the buffer's length is cut). Fewer than `count` are asked for when the link has no more room.
    ///
    /// Returns how many frames were taken.
    ///
    /// # Errors
    /// As [`receive`](Link::receive).
    fn transmit(
        &mut self,
        count: usize,
        write: impl FnMut(usize, &mut [u8]) -> usize,
    ) -> Result<usize, LinkError>;

    /// Bytes of the longest frame that it takes.
    fn longest(&self) -> usize;

    /// Becomes readable when frames have arrived, and is in error when the link is lost. None: the link has to be looked at.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Counts since it was opened, of this queue.
    fn tally(&self) -> Tally;

    /// Whether no frame will ever come again: the file is read to its end, or the other end of the ring is gone.
    fn is_ended(&self) -> bool {
        false
    }

    /// Pushes out what was transmitted and may still wait, and asks whether the link is still there: for a pause in the
    /// traffic.
    ///
    /// # Errors
    /// As [`receive`](Link::receive).
    fn check(&mut self) -> Result<(), LinkError> {
        Ok(())
    }

    /// Sends copies of these frames, as many as there is room for.
    ///
    /// # Errors
    /// As [`receive`](Link::receive).
    fn send<'frame>(
        &mut self,
        frames: impl Iterator<Item = &'frame [u8]> + Clone,
    ) -> Result<Sent, LinkError> {
        let longest = self.longest();
        let fitting = frames.clone().filter(|frame| frame.len() <= longest).count();
        let oversized = frames.clone().count() - fitting;
        let mut fit = frames.filter(|frame| frame.len() <= longest);
        let taken = self.transmit(fitting, |_, buffer| {
            let frame = fit.next().unwrap_or_default();
            buffer[..frame.len()].copy_from_slice(frame);
            frame.len()
        })?;
        Ok(Sent {
            taken,
            oversized,
            full: fitting - taken,
        })
    }
}

/// What became of frames that were to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Taken by the link.
    pub taken: usize,
    /// Not sent: longer than [`Link::longest`].
    pub oversized: usize,
    /// Not sent: the link had no room. These are the last ones of those that fit.
    pub full: usize,
}
