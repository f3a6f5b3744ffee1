//! Accounts for all received datagrams: received = bad + no socket + broadcast + full buffers + delivered.
//!
//! In: Linux's counters from `/proc/net/snmp`. Out: drops under the names of FreeBSD's `netstat -sp udp`, which the
//! posts use. [`Cause`] names every place where a frame can be dropped, not only in UDP, so that documents and tables
//! use the same names.

mod cause;

pub use cause::{Cause, Gap, Side, label};

use serde::{Deserialize, Serialize};

/// Linux's UDP counters, of `/proc/net/snmp` (the line `Udp:`), over some span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinuxUdpCounters {
    /// `InDatagrams`: counted when the application reads a datagram, not when it arrives.
    pub in_datagrams: u64,
    /// `NoPorts`.
    pub no_ports: u64,
    /// `InErrors`, which includes the three specific errors below.
    pub in_errors: u64,
    /// `RcvbufErrors`.
    pub rcvbuf_errors: u64,
    /// `InCsumErrors`.
    pub in_csum_errors: u64,
    /// `MemErrors`.
    pub mem_errors: u64,
    /// `IgnoredMulti`: broadcast and multicast without a receiver.
    pub ignored_multi: u64,
    /// `OutDatagrams`.
    pub out_datagrams: u64,
}

impl LinuxUdpCounters {
    /// Datagrams that reached UDP but no application, by cause.
    #[must_use]
    pub fn drops(&self) -> [(Cause, u64); 6] {
        // Linux charges each of the three to InErrors as well (net/ipv4/udp.c). The counters are read one after the
        // other while traffic runs, so the sum may be a little ahead of InErrors.
        let specific = self.rcvbuf_errors + self.in_csum_errors + self.mem_errors;
        [
            (Cause::BadChecksum, self.in_csum_errors),
            (Cause::NoSocket, self.no_ports),
            (Cause::Broadcast, self.ignored_multi),
            (Cause::FullBuffers, self.rcvbuf_errors),
            (Cause::Memory, self.mem_errors),
            (Cause::OtherErrors, self.in_errors.saturating_sub(specific)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_errors_are_charged_once() {
        let counters = LinuxUdpCounters {
            in_datagrams: 1_000,
            no_ports: 10,
            in_errors: 66,
            rcvbuf_errors: 50,
            in_csum_errors: 3,
            mem_errors: 9,
            ignored_multi: 2,
            out_datagrams: 999,
        };
        let drops = counters.drops();
        assert!(drops.contains(&(Cause::OtherErrors, 4)));
        assert_eq!(drops.iter().map(|(_, count)| count).sum::<u64>(), 10 + 66 + 2);
    }
}
