//! The trait of every link.

use crate::burst::{Burst, Extent};
use crate::error::LinkError;
use crate::layout::FrameLayout;
use crate::tally::Tally;
use corelane_measure::quantity;
use std::os::fd::BorrowedFd;

/// One queue of whole-frame I/O, used by one thread.
///
/// The link owns all frame memory. A received burst is lent until the next call of any `&mut self` method, as the
/// borrow checker enforces; frames to transmit are written in place. Calls are made once per burst and are resolved at
/// compile time, so there is no dynamic call per frame.
///
/// No method blocks. To wait, poll [`descriptor`](Link::descriptor) for readability.
pub trait Link {
    /// Name, maximum frame length and counters, which every link has.
    fn port(&self) -> &Port;

    /// The name in messages: the device, file or ring, and its queue.
    fn name(&self) -> &str {
        &self.port().name
    }

    /// Receives up to `limit` frames that have arrived, in arrival order; the burst is empty if there are none. The
    /// frames of the previous burst are returned to the link.
    ///
    /// # Errors
    /// [`LinkError::Lost`] if the device is gone or down: open the link again. Any other error concerns the request.
    fn receive(&mut self, limit: usize) -> Result<Burst<'_>, LinkError>;

    /// Writes up to `count` frames and sends them in that order. `write` is called with buffers of
    /// [`longest`](Link::longest) bytes, fewer than `count` times if the link has no more room.
    ///
    /// Returns the number of accepted frames.
    ///
    /// # Errors
    /// Same as [`receive`](Link::receive).
    fn transmit(&mut self, count: usize, write: impl WriteFrame) -> Result<usize, LinkError>;

    /// The maximum frame length, in bytes.
    fn longest(&self) -> usize {
        self.port().longest
    }

    /// Becomes readable when frames have arrived, and is in error when the link is lost. `None`: the link has to be
    /// polled.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Counters of this queue since it was opened.
    fn tally(&self) -> Tally {
        self.port().tally
    }

    /// Whether no more frames can arrive: the file is read to its end, or the other end of the ring is gone.
    fn is_ended(&self) -> bool {
        false
    }

    /// Flushes pending transmissions and checks whether the link is still there: for pauses in the traffic.
    ///
    /// # Errors
    /// Same as [`receive`](Link::receive).
    fn check(&mut self) -> Result<(), LinkError> {
        Ok(())
    }

    /// Sends copies of these frames, as many as there is room for.
    ///
    /// # Errors
    /// Same as [`receive`](Link::receive).
    #[inline]
    fn send<'frame>(
        &mut self,
        frames: impl Iterator<Item = &'frame [u8]> + Clone,
    ) -> Result<Sent, LinkError> {
        let longest = self.longest();
        let fits = move |frame: &&[u8]| frame.len() <= longest;
        let count = frames.clone().count();
        let (fitting, taken) = if frames.clone().all(|frame| fits(&frame)) {
            (count, self.transmit(count, copying(frames))?)
        } else {
            let fitting = frames.clone().filter(fits).count();
            (fitting, self.transmit(fitting, copying(frames.filter(fits)))?)
        };
        let oversized = count - fitting;
        Ok(Sent {
            taken,
            oversized,
            full: fitting - taken,
        })
    }

    /// Sends a copy of a frame of TCP segments that were merged, unfragmented and with any checksum of TCP, to be cut into
    /// segments of `segment` bytes of payload by the device, or by the kernel before it. It may be longer than
    /// [`longest`](Link::longest), up to 64 KiB, if the link was [opened for such frames](crate::LinkSpec::for_merged). A
    /// capture gets it whole. It leaves after the frames that were accepted before it.
    ///
    /// # Errors
    /// Same as [`receive`](Link::receive).
    fn send_merged(&mut self, frame: &[u8], _segment: u16) -> Result<Sent, LinkError> {
        self.send(std::iter::once(frame))
    }
}

/// Writes one frame after the other: called with 0, 1, … and a buffer with arbitrary content, returns the length of the
/// frame; bytes beyond the buffer are truncated.
pub trait WriteFrame: FnMut(usize, &mut [u8]) -> usize {}

impl<F: FnMut(usize, &mut [u8]) -> usize> WriteFrame for F {}

/// The state that links of every kind have.
#[derive(Debug)]
pub struct Port {
    pub(crate) name: String,
    pub(crate) longest: usize,
    /// The frames of the burst that is lent.
    pub(crate) extents: Vec<Extent>,
    pub(crate) tally: Tally,
}

impl Port {
    pub(crate) fn new(name: String, longest: usize, layout: FrameLayout) -> Port {
        Port {
            name,
            longest,
            extents: Vec::with_capacity(layout.frames()),
            tally: Tally::default(),
        }
    }
}

/// The outcome of sending frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Accepted by the link.
    pub taken: usize,
    /// Not sent: longer than [`Link::longest`].
    pub oversized: usize,
    /// Not sent: the link had no room. These are the last of the frames that fit.
    pub full: usize,
}

/// The note on frames that a link did not send because they are longer than it takes: what merged them, and how to keep
/// them apart on `devices`, by which they may have come.
#[must_use]
pub fn too_long<'a>(link: &str, frames: u64, devices: impl Iterator<Item = &'a str>) -> String {
    let frames = quantity::count(frames);
    let apart: Vec<String> = devices
        .map(|device| format!("`ethtool -K {device} gro off lro off`"))
        .collect();
    let why = match apart.is_empty() {
        true => String::new(),
        false => format!(
            ": they were merged on receive, or not yet segmented by their sender: {}, and `ethtool -K DEVICE tso off gso \
             off` for the sender's",
            apart.join(", ")
        ),
    };
    format!("not sent to {link}: {frames} frames longer than it takes{why}")
}

/// Copies one frame after the other.
#[inline(always)]
fn copying<'frame>(mut frames: impl Iterator<Item = &'frame [u8]>) -> impl FnMut(usize, &mut [u8]) -> usize {
    move |_, buffer| {
        let frame = frames.next().unwrap_or_default();
        copy(&mut buffer[..frame.len()], frame);
        frame.len()
    }
}

/// Copies a frame. The shortest frames, which have the highest rates, are copied as two halves that may overlap, in
/// registers: a call of `memcpy` costs about as much as an address lookup.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    const HALF: usize = 32;
    if (HALF..=2 * HALF).contains(&from.len())
        && let (Some(to_first), Some(first)) = (to.first_chunk_mut::<HALF>(), from.first_chunk::<HALF>())
    {
        *to_first = *first;
        if let (Some(to_last), Some(last)) = (to.last_chunk_mut::<HALF>(), from.last_chunk::<HALF>()) {
            *to_last = *last;
        }
        return;
    }
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_length_are_copied_whole() {
        let from: Vec<u8> = (0..200).collect();
        for length in 0..from.len() {
            let mut to = vec![0xff; length];
            copy(&mut to, &from[..length]);
            assert_eq!(to, from[..length], "{length} bytes");
        }
    }
}
