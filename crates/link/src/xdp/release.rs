//! Retries for queues and devices that are still being released.
//!
//! The kernel detaches a closed AF_XDP socket from its queue later, in a work queue that waits for the lock of all
//! devices (`xp_put_pool` and `xp_release_deferred` of net/xdp/xsk_buff_pool.c), even after the socket's process has
//! ended. A child process between fork and exec also holds copies of all descriptors, including sockets and programs.
//! Until then the kernel returns `EBUSY`, the same as for a queue that is really in use: only waiting distinguishes the
//! two.

use std::io;
use std::thread;
use std::time::Duration;

/// How long to retry before the queue counts as in use: on 2 CPUs with some 16 runnable threads, the longest of 1,176
/// such waits was 0.11 s. Only the pauses count: a try waits for the lock of all devices, too, as the release does, and
/// others may hold that for seconds.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The first and the longest pause between two tries; each is twice the previous one.
const PAUSES: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(20));

/// Retries a step while the kernel returns `EBUSY`, up to [`LONGEST_WAIT`].
pub(super) fn wait_for_release<T>(step: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    retry(step, thread::sleep)
}

fn retry<T>(mut step: impl FnMut() -> io::Result<T>, mut sleep: impl FnMut(Duration)) -> io::Result<T> {
    let (mut waited, mut pause) = (Duration::ZERO, PAUSES.0);
    loop {
        match step() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && waited < LONGEST_WAIT => {
                sleep(pause);
                waited += pause;
                pause = (2 * pause).min(PAUSES.1);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_paused_for_two_seconds_however_long_they_take() {
        let mut waited = Duration::ZERO;
        let busy = || Err::<(), _>(io::Error::from_raw_os_error(libc::EBUSY));
        let refused = retry(busy, |pause| waited += pause).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
        assert!(
            waited >= LONGEST_WAIT && waited < LONGEST_WAIT + PAUSES.1,
            "{waited:?}"
        );
    }
}
