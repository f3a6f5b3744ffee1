//! Watchers: connections that get a line about each event of the streams that they asked for.
//!
//! In: events of all workers. Out: lines, in a bounded queue per watcher, which its worker takes. What does not fit is counted, and the
//! watcher gets the number.

use crate::shared::lock;
use corelane_proto::memcached::commands::Output;
use corelane_proto::memcached::control::Watched;
use corelane_proto::memcached::watch::Entry;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Most watchers, as in memcached.
const MOST: usize = 20;

/// Bytes of lines that a watcher has not taken (memcached's `watcher_logbuf_size`).
const QUEUE: usize = 256 << 10;

/// Bytes of the line that says how many were skipped, at most.
const SKIPPED: usize = 32;

/// Requests are counted by prefix of key: a bit beside those of the streams.
pub(super) const DETAIL: u32 = 1 << 16;

/// All watchers, whose connections are `C`, and what has to be observed for them.
#[derive(Debug)]
pub(super) struct Watchers<C> {
    /// The streams that some watcher has, and [`DETAIL`].
    observed: AtomicU32,
    watchers: Mutex<Vec<Arc<Watcher<C>>>>,
    /// Lines so far.
    lines: AtomicU64,
    pub(super) counts: Counts,
}

/// Lines of all watchers.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: AtomicU64,
    pub(super) skipped: AtomicU64,
}

/// A watcher.
#[derive(Debug)]
pub(super) struct Watcher<C> {
    streams: Watched,
    pub(super) worker: usize,
    /// Its connection.
    pub(super) id: C,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    lines: Vec<u8>,
    skipped: u64,
}

impl<C> Default for Watchers<C> {
    fn default() -> Self {
        Self {
            observed: AtomicU32::default(),
            watchers: Mutex::default(),
            lines: AtomicU64::default(),
            counts: Counts::default(),
        }
    }
}

impl<C: Copy> Watchers<C> {
    /// What has to be observed: bits of streams, and [`DETAIL`].
    #[inline]
    pub(super) fn observed(&self) -> u32 {
        self.observed.load(Ordering::Relaxed)
    }

    /// Whether requests are watched as they are sent.
    #[inline]
    pub(super) fn watches_requests(&self) -> bool {
        self.observed() & u32::from(Watched::REQUESTS.bits()) != 0
    }

    /// Whether a stream has a watcher.
    pub(super) fn watches(&self, stream: &str) -> bool {
        lock(&self.watchers)
            .iter()
            .any(|watcher| watcher.streams.has(stream))
    }

    /// Starts or ends counting by prefix.
    pub(super) fn set_detail(&self, on: bool) {
        match on {
            true => self.observed.fetch_or(DETAIL, Ordering::Relaxed),
            false => self.observed.fetch_and(!DETAIL, Ordering::Relaxed),
        };
    }

    /// Adds a watcher, unless there are too many.
    pub(super) fn add(&self, streams: Watched, worker: usize, id: C) -> Option<Arc<Watcher<C>>> {
        let mut watchers = lock(&self.watchers);
        if watchers.len() == MOST {
            return None;
        }
        let watcher = Arc::new(Watcher {
            streams,
            worker,
            id,
            queue: Mutex::default(),
        });
        watchers.push(Arc::clone(&watcher));
        self.observe(&watchers);
        Some(watcher)
    }

    /// Removes a watcher.
    pub(super) fn remove(&self, watcher: &Arc<Watcher<C>>) {
        let mut watchers = lock(&self.watchers);
        watchers.retain(|other| !Arc::ptr_eq(other, watcher));
        self.observe(&watchers);
    }

    fn observe(&self, watchers: &[Arc<Watcher<C>>]) {
        let streams = watchers
            .iter()
            .fold(0, |all, watcher| all | watcher.streams.bits());
        let detail = self.observed() & DETAIL;
        self.observed
            .store(detail | u32::from(streams), Ordering::Relaxed);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        lock(&self.watchers).len()
    }

    /// The connections of a worker that are watchers.
    pub(super) fn of(&self, worker: usize) -> Vec<C> {
        let watchers = lock(&self.watchers);
        let own = watchers.iter().filter(|watcher| watcher.worker == worker);
        own.map(|watcher| watcher.id).collect()
    }

    /// Queues a line for those that watch the stream; the workers that have to write it are passed to `wake`.
    pub(super) fn record(&self, entry: &Entry<'_>, wake: impl Fn(usize)) {
        let watchers = lock(&self.watchers);
        let mut line = Vec::new();
        for watcher in watchers
            .iter()
            .filter(|watcher| watcher.streams.has(entry.stream()))
        {
            if line.is_empty() {
                let number = self.lines.fetch_add(1, Ordering::Relaxed) + 1;
                let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                entry.put(time.as_micros() as u64, number, &mut line);
            }
            watcher.push(&line, &self.counts, &wake);
        }
    }
}

impl<C> Watcher<C> {
    fn push(&self, line: &[u8], counts: &Counts, wake: impl Fn(usize)) {
        let mut queue = lock(&self.queue);
        if queue.lines.len() + line.len() + SKIPPED > QUEUE {
            queue.skipped += 1;
            counts.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let was_empty = queue.lines.is_empty();
        let skipped = std::mem::take(&mut queue.skipped);
        if skipped > 0 {
            queue
                .lines
                .extend_from_slice(format!("skipped={skipped}\n").as_bytes());
        }
        queue.lines.extend_from_slice(line);
        counts.sent.fetch_add(1, Ordering::Relaxed);
        if was_empty {
            wake(self.worker);
        }
    }

    /// Writes the lines that wait.
    pub(super) fn take(&self, out: &mut impl Output) {
        let lines = std::mem::take(&mut lock(&self.queue).lines);
        if !lines.is_empty() {
            out.put(&lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_proto::memcached::control::{Action, Allowed};
    use corelane_proto::memcached::request::Control;
    use corelane_proto::memcached::time::Clock;
    use std::cell::Cell;

    fn streams(line: &[u8]) -> Watched {
        let (all, clock) = (true, Clock { now: 100, epoch: 0 });
        let allowed = Allowed {
            flush: all,
            dump: all,
            watch: all,
            shutdown: all,
            crawler: all,
        };
        match (Control { line, quiet: false }).action(allowed, clock) {
            Action::Watch(streams) => streams,
            other => panic!("{other:?}"),
        }
    }

    fn deleted(key: &[u8]) -> Entry<'_> {
        Entry::Deleted {
            key,
            by_meta: false,
            size: 1,
        }
    }

    #[test]
    fn a_watcher_that_takes_no_lines_gets_the_number_of_those_it_missed() {
        let (watchers, woken) = (Watchers::default(), Cell::new(0));
        let wake = |worker| woken.set(woken.get() + worker);
        let watcher = watchers.add(streams(b"watch deletions"), 1, ()).unwrap();
        let other = watchers.add(streams(b"watch mutations"), 5, ()).unwrap();
        let lines = 3 * QUEUE / 60;
        for _ in 0..lines {
            watchers.record(&deleted(b"key"), wake);
        }
        let (skipped, sent) = (&watchers.counts.skipped, &watchers.counts.sent);
        let skipped = skipped.load(Ordering::Relaxed);
        assert!(skipped > 0 && woken.get() == 1);
        assert_eq!(sent.load(Ordering::Relaxed) + skipped, lines as u64);
        let (mut first, mut second, mut none) = (Vec::new(), Vec::new(), Vec::new());
        watcher.take(&mut first);
        assert!(first.len() <= QUEUE && first.ends_with(b" size=1\n"));
        watchers.record(&deleted(b"last"), wake);
        watcher.take(&mut second);
        let second = String::from_utf8(second).unwrap();
        assert!(second.starts_with(&format!("skipped={skipped}\nts=")), "{second}");
        other.take(&mut none);
        assert_eq!((none.len(), woken.get()), (0, 2));
    }

    #[test]
    fn what_has_no_watcher_is_not_observed() {
        let watchers = Watchers::<()>::default();
        let all: Vec<_> = (0..MOST)
            .map(|_| watchers.add(streams(b"watch"), 0, ()).unwrap())
            .collect();
        assert!(watchers.add(streams(b"watch"), 0, ()).is_none());
        watchers.set_detail(true);
        assert!(watchers.watches("fetchers") && !watchers.watches("mutations"));
        all.iter().for_each(|watcher| watchers.remove(watcher));
        assert_eq!((watchers.observed(), watchers.count()), (DETAIL, 0));
        watchers.set_detail(false);
        assert_eq!(watchers.observed(), 0);
    }
}
