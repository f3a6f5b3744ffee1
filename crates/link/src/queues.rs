//! Assigns queues to workers, waits for frames, and runs the loop of a worker over its queues.

use crate::{Link, LinkError};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::hint::spin_loop;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum wait: the interval at which the caller checks for a stop.
const LONGEST_WAIT_MS: u16 = 20;
/// The wait for a link without a descriptor: a ring in memory.
const PAUSE: Duration = Duration::from_micros(50);

/// Turns before an idle worker waits: a poll costs about as much.
const IDLE_TURNS: u32 = 16;
/// Interval between rests under load: links are checked and counters published as often.
const REST_EVERY: Duration = Duration::from_millis(50);

/// The work of one thread over its queues. The loop is the same for all: turns while frames move, then a few turns more,
/// then waits; a rest from time to time.
pub trait QueueLoop {
    /// After a stop, the time limit for frames that still arrive: under a flood a queue is never empty.
    const DRAIN: Duration = Duration::ZERO;

    /// Serves each queue once; returns the number of frames moved.
    ///
    /// # Errors
    /// If a queue fails, which ends the loop; the same for the methods below.
    fn turn(&mut self, now: Instant) -> Result<usize, LinkError>;

    /// Checks the links and publishes their counters: every 50 ms, and when a wait found a link in error.
    fn rest(&mut self) -> Result<(), LinkError>;

    /// Whether an idle loop ends: nothing more can come, or nothing is waited for after a stop.
    fn is_over(&self, stopping: bool) -> bool;

    /// Waits, for so long that a stop is seen in time; returns whether a link is in error.
    fn wait(&mut self) -> Result<bool, LinkError>;

    /// Runs until stopped, or over.
    fn run(&mut self, stop: &AtomicBool) -> Result<(), LinkError> {
        let (mut idle, mut rested, mut stopped) = (0, Instant::now(), None);
        loop {
            let (now, stopping) = (Instant::now(), stop.load(Ordering::Relaxed));
            if stopping && now >= *stopped.get_or_insert(now) + Self::DRAIN {
                return Ok(());
            }
            let moved = self.turn(now)?;
            let mut is_due = now.duration_since(rested) >= REST_EVERY;
            if moved > 0 {
                idle = 0;
            } else if self.is_over(stopping) {
                return Ok(());
            } else if idle < IDLE_TURNS {
                idle += 1;
                spin_loop();
            } else {
                is_due |= self.wait()?;
            }
            if is_due {
                self.rest()?;
                rested = now;
            }
        }
    }
}

/// The queues of each worker: worker `w` has those whose number modulo the workers is `w`.
#[must_use]
pub fn share_out<Q>(queues: Vec<Q>, workers: usize) -> Vec<Vec<Q>> {
    let mut shares: Vec<Vec<Q>> = (0..workers).map(|_| Vec::new()).collect();
    for (number, queue) in queues.into_iter().enumerate() {
        shares[number % workers].push(queue);
    }
    shares
}

/// Waits until a queue or the bell is readable, for up to 20 ms; for 50 µs if a queue has no descriptor. Returns whether a
/// queue is in error; then [`Link::check`] says why.
///
/// The bell is a descriptor, such as an eventfd, that another worker makes readable when there is other work; who waits
/// reads it.
pub fn wait<'a, L: Link + 'a>(
    queues: impl Iterator<Item = &'a L> + Clone,
    bell: Option<BorrowedFd<'a>>,
) -> bool {
    let readable = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
    let mut waited: Vec<PollFd<'_>> = queues
        .clone()
        .filter_map(Link::descriptor)
        .map(readable)
        .collect();
    let polled = waited.len();
    if polled < queues.count() {
        thread::sleep(PAUSE);
        return false;
    }
    waited.extend(bell.map(readable));
    match poll(&mut waited, PollTimeout::from(LONGEST_WAIT_MS)) {
        Ok(0) | Err(_) => false,
        Ok(_) => waited[..polled].iter().any(|one| {
            let errors = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
            one.revents().is_some_and(|events| events.intersects(errors))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryLink;
    use std::io::{Write, pipe};
    use std::os::fd::AsFd;

    #[test]
    fn a_bell_ends_a_wait() {
        const WAITS: u32 = 500;
        let (bell, mut ringing) = pipe().unwrap();
        ringing.write_all(&[1]).unwrap();
        let started = Instant::now();
        for _ in 0..WAITS {
            assert!(!wait(std::iter::empty::<&MemoryLink>(), Some(bell.as_fd())));
        }
        let unheard = WAITS * Duration::from_millis(LONGEST_WAIT_MS.into());
        assert!(started.elapsed() < unheard);
    }

    #[test]
    fn a_bell_whose_other_end_is_gone_is_no_queue_in_error() {
        let (bell, ringing) = pipe().unwrap();
        drop(ringing);
        assert!(!wait(std::iter::empty::<&MemoryLink>(), Some(bell.as_fd())));
    }
}
