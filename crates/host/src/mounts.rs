//! Kernel file systems that one thread mounts for itself.
//!
//! What enters: a file system, where it belongs, and what is to be done with it. What leaves: what that returned. sysfs shows
//! the devices of the namespace that it was mounted in (`Documentation/filesystems/sysfs.rst` and `net/core/net-sysfs.c`), so
//! who only changed the network namespace sees those of another. The mount is seen by one thread and ends with it.

use std::io;
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Runs `work` on a thread of its own that sees file system `kind` mounted at `target`, and passes it whether the mount was
/// permitted; where not, the thread sees what is there.
///
/// # Panics
///
/// When `work` panics, with its panic.
pub fn with_own<T: Send>(
    kind: &str,
    target: &str,
    read_only: bool,
    work: impl FnOnce(io::Result<()>) -> T + Send,
) -> T {
    let mount_own = || -> nix::Result<()> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        let nothing: Option<&str> = None;
        // Otherwise the mount would be seen by everyone whose mounts are shared.
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(nothing, "/", nothing, private, nothing)?;
        let mut flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        flags.set(MsFlags::MS_RDONLY, read_only);
        mount(Some(kind), target, Some(kind), flags, nothing)
    };
    thread::scope(|scope| {
        let working = scope.spawn(|| work(mount_own().map_err(io::Error::from)));
        working
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
