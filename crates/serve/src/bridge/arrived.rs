//! The frames of a burst as a batch of stages.

use corelane_link::{Burst, FrameTime};
use corelane_stage::Batch;
use std::time::{Duration, Instant};

/// A burst of a link.
#[derive(Default)]
pub(super) struct Arrived<'link> {
    pub(super) burst: Burst<'link>,
    /// The index of the link.
    pub(super) link: usize,
    /// The time of the bridge at a time of the link, if those of captures count.
    pub(super) epoch: Option<(Instant, FrameTime)>,
    /// When the receive call began, if that is measured.
    pub(super) since: Option<Instant>,
}

impl Batch for Arrived<'_> {
    #[inline(always)]
    fn frames(&self) -> usize {
        self.burst.len()
    }

    #[inline(always)]
    fn frame(&self, number: usize) -> &[u8] {
        self.burst.frame(number)
    }

    #[inline(always)]
    fn frame_mut(&mut self, number: usize) -> &mut [u8] {
        self.burst.frame_mut(number)
    }

    #[inline(always)]
    fn prefetch(&self, number: usize) {
        self.burst.prefetch(number);
    }

    #[inline(always)]
    fn link(&self, _number: usize) -> usize {
        self.link
    }

    fn time(&self, number: usize) -> Option<Instant> {
        let (epoch, first) = self.epoch?;
        let since = self.burst.time(number)?.saturating_sub(first);
        epoch.checked_add(Duration::from_nanos(since))
    }
}

/// The time of a bridge that reads from captures only. The time of each begins with its first frame, whatever its date, and
/// that of the bridge is the time of the capture that is furthest behind: what waits in one does not wait for longer if
/// another goes on faster.
pub(super) struct Clock {
    epoch: Instant,
    /// By link.
    links: Vec<LinkTime>,
}

/// The times of a link's frames.
#[derive(Clone, Copy, Default)]
struct LinkTime {
    first: FrameTime,
    newest: FrameTime,
    /// Whether its last burst had frames.
    is_read: bool,
}

impl Clock {
    pub(super) fn new(epoch: Instant, links: usize) -> Clock {
        Clock {
            epoch,
            links: vec![LinkTime::default(); links],
        }
    }

    /// A burst of a link came; returns the epoch of its frames.
    pub(super) fn went_on(&mut self, link: usize, burst: &Burst<'_>) -> (Instant, FrameTime) {
        let time = &mut self.links[link];
        for newest in (0..burst.len()).filter_map(|number| burst.time(number)) {
            if time.first == 0 {
                time.first = newest;
            }
            time.newest = time.newest.max(newest);
        }
        time.is_read = true;
        (self.epoch, time.first)
    }

    /// A link has no frames: it holds up no other.
    pub(super) fn has_no_frames(&mut self, link: usize) {
        self.links[link].is_read = false;
    }

    pub(super) fn now(&self) -> Instant {
        let since = |time: &LinkTime| Duration::from_nanos(time.newest - time.first);
        let furthest_behind = self.links.iter().filter(|time| time.is_read).map(since).min();
        let last = || self.links.iter().map(since).max().unwrap_or_default();
        self.epoch + furthest_behind.unwrap_or_else(last)
    }
}
