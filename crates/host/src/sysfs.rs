//! A `/sys` that shows the devices of the calling thread's network namespace.
//!
//! What enters: what is to be read. What leaves: what was read, with `/sys` mounted anew where that is permitted. sysfs shows
//! the devices of the namespace that it was mounted in (`Documentation/filesystems/sysfs.rst` and `net/core/net-sysfs.c`), so
//! who only changed the network namespace sees those of another. The mount is seen by one thread and ends with it.

use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Runs `read` on a thread of its own that sees its own `/sys`, or the one there is where it may not mount.
pub(crate) fn own<T: Send>(read: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            // Without the privilege the old one stays, which the reader finds out by itself.
            let _ = mount_own();
            read()
        });
        reading
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn mount_own() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let nothing: Option<&str> = None;
    // Otherwise the mount would be seen by everyone whose mounts are shared.
    mount(
        nothing,
        "/",
        nothing,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        nothing,
    )?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC | MsFlags::MS_RDONLY;
    mount(Some("sysfs"), "/sys", Some("sysfs"), flags, nothing)
}
