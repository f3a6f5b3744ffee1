//! Prepares the namespaces of a bed for many TCP connections.
//!
//! Input: the number of connections. Output: the calling thread in a network namespace with its own hash table of
//! established connections and with raised per-namespace limits on queues and ports. No setting of the machine is
//! changed.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};

use super::side::write_setting;
use crate::HostError;
use crate::tree::setting_path;

/// The size of the established-connections table that child namespaces get (`Documentation/networking/ip-sysctl.rst`,
/// since Linux 6.1).
const CHILD_TABLE: &str = "net.ipv4.tcp_child_ehash_entries";

/// The maximum of the setting (`tcp_child_ehash_entries_max` in `net/ipv4/sysctl_net_ipv4.c`).
const LARGEST_TABLE: u32 = 16 << 20;

/// The longest queue of connections waiting to be accepted, and of connections not yet established. A listener's
/// backlog was 16 bits wide until Linux 4.1, and servers still pass such values.
const LONGEST_QUEUE: &str = "65535";

/// Every port except those reserved for root.
const ALL_PORTS: &str = "1024 65535";

/// Moves the calling thread into a network namespace whose table of established connections has one entry per
/// connection. The machine's own table, which namespaces share by default, has 262,144 entries on 24 GiB, so every
/// packet would walk a long chain.
///
/// The kernel reads the size from the parent namespace. So an intermediate namespace is created, configured and left at
/// once; no setting of the machine changes. Kernels without the setting use the shared table.
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
    // Connections closed at the same time all stay in TIME_WAIT, so none of their ports is reused too early.
    write_setting("net.ipv4.tcp_max_tw_buckets", &connections.to_string())
}
