//! What became of the datagrams: received = bad + no socket + broadcast + full buffers + delivered.
//!
//! In: FreeBSD's counters as `netstat -sp udp` prints them, or Linux's from `/proc/net/snmp`. Out: one account under
//! FreeBSD's names, which are the ones that the posts use. [`Cause`] names every place where a frame can
//! end, beyond UDP too, so that documents and tables spell them alike.

mod cause;

pub use cause::{Cause, Gap, Side, label};

use serde::{Deserialize, Serialize};

/// Datagrams that UDP received and did not deliver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UdpDrops {
    /// Shorter than a UDP header.
    pub bad_header: u64,
    /// The header's length field does not fit the packet.
    pub bad_length: u64,
    /// The checksum does not match.
    pub bad_checksum: u64,
    /// No socket on the port.
    pub no_socket: u64,
    /// Broadcast or multicast that nobody had joined.
    pub broadcast: u64,
    /// The socket's receive buffer was full.
    pub full_buffers: u64,
    /// UDP's share of memory was used up (`net.ipv4.udp_mem`). Linux only.
    pub memory: u64,
    /// In error, and Linux does not say why: header, length, socket filter or policy. Linux only.
    pub other_errors: u64,
}

impl UdpDrops {
    /// All datagrams dropped; saturating.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_cause()
            .iter()
            .fold(0, |sum, (_, frames)| sum.saturating_add(*frames))
    }

    /// The counts with the names that documents use.
    #[must_use]
    pub fn by_cause(&self) -> [(Cause, u64); 8] {
        [
            (Cause::BadHeader, self.bad_header),
            (Cause::BadLength, self.bad_length),
            (Cause::BadChecksum, self.bad_checksum),
            (Cause::NoSocket, self.no_socket),
            (Cause::Broadcast, self.broadcast),
            (Cause::FullBuffers, self.full_buffers),
            (Cause::Memory, self.memory),
            (Cause::OtherErrors, self.other_errors),
        ]
    }
}

/// What `netstat -sp udp` prints beside received, dropped and delivered. None of it ends a datagram on its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UdpNotes {
    /// Datagrams without a checksum, which RFC 768 allows: they are delivered.
    pub no_checksum: u64,
    /// Lookups that missed the hashed control block. FreeBSD does not subtract them from what it delivered.
    pub not_for_hashed_pcb: u64,
    /// Datagrams sent.
    pub output: u64,
    /// Multicast source filters that matched; those datagrams are already among [`UdpDrops::broadcast`].
    pub multicast_filter_matched: u64,
}

/// One host's UDP account over some span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UdpAccount {
    /// Datagrams that reached UDP.
    pub received: u64,
    /// Datagrams that an application got.
    pub delivered: u64,
    /// Datagrams that nobody got.
    pub drops: UdpDrops,
    /// The lines that are not part of the sum.
    #[serde(default)]
    pub notes: UdpNotes,
}

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

impl UdpAccount {
    /// The account of Linux's counters. Linux does not count what reached UDP, so `received` is the sum of what it does
    /// count.
    #[must_use]
    pub fn from_linux(counters: &LinuxUdpCounters) -> Self {
        // Linux charges each of the three to InErrors as well (net/ipv4/udp.c). The counters are read one after the
        // other while traffic runs, so the sum may be a little ahead of InErrors.
        let specific = counters.rcvbuf_errors + counters.in_csum_errors + counters.mem_errors;
        let drops = UdpDrops {
            bad_checksum: counters.in_csum_errors,
            no_socket: counters.no_ports,
            broadcast: counters.ignored_multi,
            full_buffers: counters.rcvbuf_errors,
            memory: counters.mem_errors,
            other_errors: counters.in_errors.saturating_sub(specific),
            ..UdpDrops::default()
        };
        Self {
            received: counters.in_datagrams.saturating_add(drops.total()),
            delivered: counters.in_datagrams,
            drops,
            notes: UdpNotes {
                output: counters.out_datagrams,
                ..UdpNotes::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_errors_are_charged_once() {
        let account = UdpAccount::from_linux(&LinuxUdpCounters {
            in_datagrams: 1_000,
            no_ports: 10,
            in_errors: 66,
            rcvbuf_errors: 50,
            in_csum_errors: 3,
            mem_errors: 9,
            ignored_multi: 2,
            out_datagrams: 999,
        });
        assert_eq!(account.drops.other_errors, 4);
        assert_eq!(account.received, 1_000 + 10 + 66 + 2);
        assert_eq!(account.received, account.delivered + account.drops.total());
    }
}
