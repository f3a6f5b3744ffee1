//! Retries for queues and devices that are still being released.
//!
//! The kernel detaches a closed AF_XDP socket from its queue later, in a work queue that waits for the lock of all
//! devices (`xp_put_pool` and `xp_release_deferred` of net/xdp/xsk_buff_pool.c), even after the socket's process has
//! ended. A child process between fork and exec also holds copies of all descriptors, including sockets and programs.
//! Until then the kernel returns `EBUSY`, the same as for a queue that is really in use: only waiting distinguishes the
//! two.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// How long to retry before the queue counts as in use: on 2 CPUs with some 16 runnable threads, the longest of 1,176
/// such waits was 0.11 s.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The first and the longest pause between two tries; each is twice the previous one.
const PAUSES: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(20));

/// Retries a step while the kernel returns `EBUSY`, up to [`LONGEST_WAIT`].
pub(super) fn wait_for_release<T>(mut step: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let started = Instant::now();
    let mut pause = PAUSES.0;
    loop {
        match step() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && started.elapsed() < LONGEST_WAIT => {
                thread::sleep(pause);
                pause = (2 * pause).min(PAUSES.1);
            }
            result => return result,
        }
    }
}
