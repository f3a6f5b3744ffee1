//! Queues and devices that somebody is just giving up.
//!
//! The kernel takes a closed AF_XDP socket off its queue later, in a work queue that waits for the lock of all devices
//! (`xp_put_pool` and `xp_release_deferred` of net/xdp/xsk_buff_pool.c), also after the socket's process has ended. And a
//! child process between fork and exec has copies of all descriptors, those of sockets and programs too. Until then the
//! kernel says `EBUSY`, as it does of a queue that is really in use: only time tells them apart.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait before what is in use is taken to stay so: on 2 CPUs with some 16 runnable threads, the longest of 1,176
/// such waits was 0.11 s.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The first pause between two tries, and the longest: each is twice the one before.
const PAUSES: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(20));

/// Takes a step again while the kernel says that what it needs is in use, up to [`LONGEST_WAIT`].
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
