//! What the namespaces of a bed need to hold many TCP connections.
//!
//! What enters: how many. What leaves: the calling thread in a network namespace with a hash table of established
//! connections of its own, and the limits of queues and ports that the kernel keeps for each namespace raised. Nothing of
//! it is the machine's.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};

use super::side::write_setting;
use crate::HostError;
use crate::tree::setting_path;

/// The size of the table of established connections that the children of a namespace get
/// (`Documentation/networking/ip-sysctl.rst`, since Linux 6.1).
const CHILD_TABLE: &str = "net.ipv4.tcp_child_ehash_entries";

/// What the setting takes at most (`tcp_child_ehash_entries_max` in `net/ipv4/sysctl_net_ipv4.c`).
const LARGEST_TABLE: u32 = 16 << 20;

/// The longest queue of connections that wait to be accepted, and of those that are not yet established. A listener's
/// length was 16 bits wide until Linux 4.1, and what servers ask for still is.
const LONGEST_QUEUE: &str = "65535";

/// Every port but those that only root may bind.
const ALL_PORTS: &str = "1024 65535";

/// Moves the calling thread into a network namespace whose table of established connections has an entry for each of
/// `connections`. The machine's own table, which namespaces share otherwise, has 262,144 entries where there are 24 GiB, and
/// every packet walks a chain of it.
///
/// The kernel reads the size from the namespace that the child is made in, so an intermediate one is made to say it, and
/// left at once: no setting of the machine is touched. Kernels without the setting give the shared table.
pub(super) fn enter_namespace(connections: u32) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    let path = setting_path(CHILD_TABLE);
    if fs::exists(&path)? {
        fs::write(path, connections.min(LARGEST_TABLE).to_string())?;
        unshare(CloneFlags::CLONE_NEWNET)?;
    }
    Ok(())
}

/// Raises what limits connections in the calling thread's namespace.
pub(super) fn raise_limits(connections: u32) -> Result<(), HostError> {
    write_setting("net.core.somaxconn", LONGEST_QUEUE)?;
    write_setting("net.ipv4.tcp_max_syn_backlog", LONGEST_QUEUE)?;
    write_setting("net.ipv4.ip_local_port_range", ALL_PORTS)?;
    // Connections that are closed at once all wait, so that none of their ports is taken for another's too early.
    write_setting("net.ipv4.tcp_max_tw_buckets", &connections.to_string())
}
