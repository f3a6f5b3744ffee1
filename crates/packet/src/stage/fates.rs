//! The fates of the frames of a batch, and the frames that stages made.

use super::batch::Batch;
use super::fate::Fate;

/// The fates of a batch's frames, in order, and the frames that stages made of them.
#[derive(Debug, Default)]
pub struct Fates {
    pub(super) fates: Vec<Fate>,
    /// Whether one was given; before, all frames are flooded.
    is_given: bool,
    pub(super) made: Made,
}

impl Fates {
    pub(super) fn of(fates: Vec<Fate>) -> Fates {
        Fates {
            fates,
            is_given: true,
            made: Made::default(),
        }
    }

    /// Starts a batch of so many frames: all go on, to all other links.
    #[inline]
    pub fn begin(&mut self, frames: usize) {
        if std::mem::take(&mut self.is_given) {
            self.fates.clear();
        }
        self.fates.resize(frames, Fate::Flood);
        self.made.clear();
    }

    /// Whether a frame goes on to the next stage.
    #[must_use]
    #[inline(always)]
    pub fn goes_on(&self, number: usize) -> bool {
        !self.is_given || matches!(self.fates[number], Fate::Flood | Fate::Forward(_))
    }

    /// Gives a frame a fate.
    #[inline(always)]
    pub fn set(&mut self, number: usize, fate: Fate) {
        self.is_given = true;
        self.fates[number] = fate;
    }

    /// Makes a frame of `length` bytes, as if it had come from this link, and returns its zeroed memory. It is sent after
    /// the frames of the batch: a stage that replaces a frame replaces all later frames of its flow too.
    pub fn make(&mut self, link: usize, fate: Fate, length: usize) -> &mut [u8] {
        self.made.make(link, fate, length)
    }

    /// The fates, unless all frames are flooded, and the frames that were made.
    pub fn parts(&mut self) -> (Option<&[Fate]>, &mut Made) {
        (self.is_given.then_some(&self.fates), &mut self.made)
    }
}

/// Frames that stages made, each with its fate.
#[derive(Debug, Default)]
pub struct Made {
    pub(super) bytes: Vec<u8>,
    /// End in `bytes`, and link, of each.
    pub(super) frames: Vec<(usize, usize)>,
    pub(super) fates: Vec<Fate>,
}

impl Made {
    /// Adds a frame; see [`Fates::make`].
    pub fn make(&mut self, link: usize, fate: Fate, length: usize) -> &mut [u8] {
        let start = self.bytes.len();
        self.bytes.resize(start + length, 0);
        self.frames.push((self.bytes.len(), link));
        self.fates.push(fate);
        &mut self.bytes[start..]
    }

    /// The fates of the frames, in order.
    #[must_use]
    pub fn fates(&self) -> &[Fate] {
        &self.fates
    }

    /// Removes all frames.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.frames.clear();
        self.fates.clear();
    }

    pub(super) fn append(&mut self, other: Made) {
        if self.frames.is_empty() {
            *self = other;
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend(other.bytes);
        let frames = other.frames.into_iter();
        self.frames.extend(frames.map(|(end, link)| (start + end, link)));
        self.fates.extend(other.fates);
    }

    fn start(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(0, |before| self.frames[before].0)
    }
}

impl Batch for Made {
    fn frames(&self) -> usize {
        self.frames.len()
    }

    fn frame(&self, number: usize) -> &[u8] {
        &self.bytes[self.start(number)..self.frames[number].0]
    }

    fn frame_mut(&mut self, number: usize) -> &mut [u8] {
        let start = self.start(number);
        &mut self.bytes[start..self.frames[number].0]
    }

    fn link(&self, number: usize) -> usize {
        self.frames[number].1
    }
}
