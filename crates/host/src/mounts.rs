//! Kernel file systems mounted for one thread only.
//!
//! Input: a file system, its mount point, and a closure. Output: what the closure returns. sysfs shows the devices of
//! the namespace that it was mounted in (`Documentation/filesystems/sysfs.rst` and `net/core/net-sysfs.c`), so a thread
//! that only changed its network namespace still sees the devices of the old one. The mount is visible to one thread
//! and ends with it.

use std::io;
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Runs `work` on a new thread that sees file system `kind` mounted at `target`. `work` receives whether the mount
/// succeeded; if not, the thread sees the existing mount.
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
        // Without this, the mount would propagate to other mount namespaces.
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
