//! Assigns queues to workers, and waits for frames.

use crate::Link;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::thread;
use std::time::Duration;

/// The maximum wait: the interval at which the caller checks for a stop.
const LONGEST_WAIT_MS: u16 = 20;
/// The wait for a link without a descriptor: a ring in memory.
const PAUSE: Duration = Duration::from_micros(50);

/// The queues of each worker: worker `w` has those whose number modulo the workers is `w`.
#[must_use]
pub fn share_out<Q>(queues: Vec<Q>, workers: usize) -> Vec<Vec<Q>> {
    let mut shares: Vec<Vec<Q>> = (0..workers).map(|_| Vec::new()).collect();
    for (number, queue) in queues.into_iter().enumerate() {
        shares[number % workers].push(queue);
    }
    shares
}

/// Waits until a queue is readable, for up to 20 ms. Returns whether one is in error; then [`Link::check`] says why.
pub fn wait<'a, L: Link + 'a>(queues: impl Iterator<Item = &'a L> + Clone) -> bool {
    let mut waited: Vec<PollFd<'_>> = queues
        .clone()
        .filter_map(Link::descriptor)
        .map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN))
        .collect();
    if waited.len() < queues.count() {
        thread::sleep(PAUSE);
        return false;
    }
    match poll(&mut waited, PollTimeout::from(LONGEST_WAIT_MS)) {
        Ok(0) | Err(_) => false,
        Ok(_) => waited.iter().any(|one| {
            let errors = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
            one.revents().is_some_and(|events| events.intersects(errors))
        }),
    }
}
