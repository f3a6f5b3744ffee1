//! Sockets that name their transmit queue: takes a device; while attached, what leaves it with a mark of ours leaves on the
//! queue that the mark names.
//!
//! The program runs before the kernel selects the queue (`__dev_queue_xmit` of net/core/dev.c), and records the queue in
//! the packet as a forwarding driver does. The kernel uses a recorded queue in place of the packet's hash (`skb_tx_hash`),
//! so XPS, a driver that selects by itself, or the cached queue of a connected socket comes first.

use crate::error::LinkError;
use crate::program::{self, OUR_MARK};
use crate::system::bpf::{self, Kind};
use crate::system::device;
use std::io;
use std::os::fd::OwnedFd;

/// `BPF_PROG_TYPE_SCHED_CLS` and `BPF_TCX_EGRESS` of linux/bpf.h.
const AT_EGRESS: Kind = Kind {
    program: 3,
    attached: 47,
};

/// Keeps the program on a device. Dropping it detaches the program, and so does the end of the process.
#[derive(Debug)]
pub struct MarkedQueues {
    /// Never read.
    _link: OwnedFd,
}

impl MarkedQueues {
    /// Attaches the program to a device of the calling thread's network namespace.
    ///
    /// # Errors
    /// If there is no such device, a privilege is missing, or the kernel is older than Linux 6.6.
    pub fn attach(device: &str) -> Result<Self, LinkError> {
        let index = device::index(device)?;
        let program = bpf::load(AT_EGRESS, b"corelane_queue\0\0", &program::queue());
        let attached = program.and_then(|program| bpf::attach(AT_EGRESS, &program, index, 0));
        let refused = |cause: io::Error| match cause.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => LinkError::Unavailable(format!(
                "{device}: not permitted to attach the program that selects queues: it needs CAP_BPF and CAP_NET_ADMIN \
                 outside of user namespaces; run as root"
            )),
            Some(libc::EINVAL | libc::ENOSYS) => {
                LinkError::unsupported(device, "selecting queues by mark", "it needs Linux 6.6 with eBPF")
            }
            _ => LinkError::Failed(format!(
                "{device}: attaching the program that selects queues: {cause}"
            )),
        };
        Ok(Self {
            _link: attached.map_err(refused)?,
        })
    }

    /// The mark (`SO_MARK`) of sockets that send on this queue, modulo the device's number of queues.
    #[must_use]
    pub const fn mark(queue: u16) -> u32 {
        // The kernel records queues from 1 and reads 0 as none.
        OUR_MARK | queue.saturating_add(1) as u32
    }
}
