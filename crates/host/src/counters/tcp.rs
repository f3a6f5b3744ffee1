//! TCP counters of a network namespace, as `netstat -s` shows them, and the memory of all TCP sockets.

use corelane_measure::counters::Counters;
use serde::{Deserialize, Serialize};

use super::kernel::kernel_counters;
use super::names::Named;
use crate::HostError;
use crate::pages::base_page_size;
use crate::tree::{Tree, field};

const SNMP: &str = "/proc/thread-self/net/snmp";
const NETSTAT: &str = "/proc/thread-self/net/netstat";
const SOCKSTAT: &str = "/proc/thread-self/net/sockstat";

kernel_counters! {
    /// TCP connections and segments, IPv4 and IPv6 together.
    pub struct TcpCounters {
        /// Connections opened by this side.
        active_opens: "ActiveOpens",
        /// Connections opened by a peer and established here.
        passive_opens: "PassiveOpens",
        /// Handshakes that failed.
        attempt_fails: "AttemptFails",
        /// Established connections that were reset.
        established_resets: "EstabResets",
        /// Segments received, bad ones included.
        in_segments: "InSegs",
        /// Segments sent, except pure retransmissions.
        out_segments: "OutSegs",
        /// Segments retransmitted.
        retransmitted: "RetransSegs",
        /// Segments received with an error.
        in_errors: "InErrs",
        /// Resets sent.
        out_resets: "OutRsts",
    }
}

kernel_counters! {
    /// Drops by listeners and on the receive path, and memory shortages.
    pub struct ListenerCounters {
        /// Established connections dropped because the accept queue was full.
        overflows: "ListenOverflows",
        /// Handshakes dropped at a listener, overflows included.
        drops: "ListenDrops",
        /// Handshakes dropped because the SYN queue was full and SYN cookies are off.
        handshakes_full: "TCPReqQFullDrop",
        /// Handshakes answered with a SYN cookie because the SYN queue was full.
        handshakes_with_cookies: "TCPReqQFullDoCookies",
        /// SYNs retransmitted by either side: a sign of lost handshakes.
        handshakes_retransmitted: "TCPSynRetrans",
        /// Segments dropped because the socket's backlog was full while its owner held it.
        backlog_drops: "TCPBacklogDrop",
        /// Segments dropped because the socket's receive queue was full.
        receive_queue_drops: "TCPRcvQDrop",
        /// Connections aborted because of memory shortage.
        aborted_for_memory: "TCPAbortOnMemory",
        /// Times that TCP as a whole entered memory pressure (`net.ipv4.tcp_mem`).
        memory_pressures: "TCPMemoryPressures",
        /// Connections closed without TIME_WAIT, because too many were in it (`net.ipv4.tcp_max_tw_buckets`).
        time_wait_overflows: "TCPTimeWaitOverflow",
    }
}

/// The TCP counters of a network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpStatistics {
    /// Connections and segments.
    pub tcp: TcpCounters,
    /// What was dropped on the way in.
    pub listener: ListenerCounters,
    /// Connections established now; not a counter.
    pub established: u64,
}

impl TcpStatistics {
    /// Reads the counters of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// [`HostError::Read`] or [`HostError::Missing`] if the kernel does not provide them.
    pub fn read() -> Result<Self, HostError> {
        let tree = Tree::machine();
        Self::parse(&tree.text(SNMP)?, &tree.text(NETSTAT)?)
    }

    /// Parses `/proc/net/snmp` and `/proc/net/netstat`.
    ///
    /// # Errors
    ///
    /// [`HostError::Missing`] without `Tcp:` or `TcpExt:` lines, [`HostError::Failed`] when names and numbers do not pair.
    pub fn parse(snmp: &str, netstat: &str) -> Result<Self, HostError> {
        let tcp = Named::require(SNMP, snmp, "Tcp")?;
        let extended = Named::require(NETSTAT, netstat, "TcpExt")?;
        Ok(Self {
            tcp: TcpCounters::by_name(|name| tcp.number(name)),
            listener: ListenerCounters::by_name(|name| extended.number(name)),
            established: tcp.number("CurrEstab").unwrap_or(0),
        })
    }

    /// The difference from `earlier`; the number of established connections is the current one.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            tcp: self.tcp.since(&earlier.tcp),
            listener: self.listener.since(&earlier.listener),
            established: self.established,
        }
    }
}

/// Bytes in the buffers of TCP sockets now, machine-wide. The kernel's limit is `net.ipv4.tcp_mem`, in pages.
///
/// # Errors
///
/// [`HostError::Read`] or [`HostError::Missing`] if the kernel does not provide it.
pub fn tcp_buffer_bytes() -> Result<u64, HostError> {
    let pages = buffer_pages(&Tree::machine().text(SOCKSTAT)?)?;
    Ok(pages.saturating_mul(base_page_size().unwrap_or(4096)))
}

/// Parses `/proc/net/sockstat` (`sockstat_seq_show` in `net/ipv4/proc.c`): `TCP:` followed by alternating names and
/// numbers; memory in pages.
fn buffer_pages(text: &str) -> Result<u64, HostError> {
    let line = field(text, "TCP").ok_or_else(|| HostError::missing(SOCKSTAT, "TCP: line"))?;
    let mut words = line.split_whitespace().skip_while(|word| *word != "mem");
    Ok(words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use proptest::prelude::*;

    use super::*;

    const SNMP_TEXT: &str = "\
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors
Tcp: 1 200 120000 -1 23359 23204 1 117 5 158833 153020 3 2 123 0
";
    const NETSTAT_TEXT: &str = "\
TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPSynRetrans TCPAbortOnMemory
TcpExt: 1 20 21 7 9
IpExt: InOctets
IpExt: 12
";

    #[test]
    fn connections_and_listeners_are_read_by_name() {
        let read = TcpStatistics::parse(SNMP_TEXT, NETSTAT_TEXT).unwrap();
        assert_eq!((read.tcp.active_opens, read.tcp.passive_opens), (23_359, 23_204));
        assert_eq!((read.tcp.retransmitted, read.established), (3, 5));
        assert_eq!((read.listener.overflows, read.listener.drops), (20, 21));
        assert_eq!(
            (
                read.listener.handshakes_retransmitted,
                read.listener.aborted_for_memory
            ),
            (7, 9)
        );
        assert!(TcpStatistics::parse(SNMP_TEXT, "IpExt: A\nIpExt: 1\n").is_err());
    }

    #[test]
    fn buffers_are_read_from_pairs_of_names_and_numbers() {
        let text = "sockets: used 21\nTCP: inuse 4 orphan 3 tw 1 alloc 5 mem 99\nUDP: inuse 7 mem 37";
        assert_eq!(buffer_pages(text).unwrap(), 99);
        assert!(buffer_pages("UDP: inuse 7").is_err());
        assert!(tcp_buffer_bytes().is_ok());
    }

    #[test]
    fn this_machine_counts_a_connection_on_both_ends() {
        let before = TcpStatistics::read().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap();
        let between = TcpStatistics::read().unwrap().since(&before);
        assert!(
            between.tcp.active_opens >= 1 && between.tcp.passive_opens >= 1,
            "{between:?}"
        );
        assert!(between.established >= 2, "{between:?}");
        drop((client, accepted));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "((Tcp|TcpExt|TCP): [ -~]{0,30}\n){0,5}") {
            let _ = (TcpStatistics::parse(&text, &text), buffer_pages(&text));
        }
    }
}
