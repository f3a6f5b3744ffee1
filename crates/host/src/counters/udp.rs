//! UDP and IP counters of a network namespace, as `netstat -s` shows them.

use std::collections::BTreeMap;

use corelane_measure::counters;
use corelane_measure::counters::Counters;
use corelane_measure::drops::Cause;
use serde::{Deserialize, Serialize};

use super::kernel::kernel_counters;
use super::names::Named;
use crate::HostError;
use crate::tree::Tree;

const SNMP: &str = "/proc/thread-self/net/snmp";
const SNMP6: &str = "/proc/thread-self/net/snmp6";

kernel_counters! {
    /// UDP datagrams of one address family. Counted by sockets, so after reassembly and, with GRO, after splitting
    /// merged datagrams.
    pub struct UdpCounters {
        /// Datagrams that applications received. Queued datagrams are not counted yet.
        in_datagrams: "InDatagrams",
        /// Datagrams to a port without a socket.
        no_ports: "NoPorts",
        /// Datagrams not delivered for any other reason. Includes the three kinds of drop below.
        in_errors: "InErrors",
        /// Datagrams sent.
        out_datagrams: "OutDatagrams",
        /// Dropped because the socket's receive buffer was full.
        rcvbuf_errors: "RcvbufErrors",
        /// Not sent because the socket's send buffer or the device's queue was full.
        sndbuf_errors: "SndbufErrors",
        /// Dropped for a wrong checksum.
        in_csum_errors: "InCsumErrors",
        /// Multicast and broadcast datagrams without a receiving socket.
        ignored_multi: "IgnoredMulti",
        /// Dropped because UDP as a whole was out of memory. Since Linux 5.11; 0 before.
        mem_errors: "MemErrors",
    }
}

impl UdpCounters {
    /// Datagrams that IP delivered to UDP: read by applications, without a socket, unwanted multicast, or dropped.
    /// Datagrams still queued in sockets are not counted.
    pub fn arrived(&self) -> u64 {
        self.in_datagrams + self.no_ports + self.ignored_multi + self.in_errors
    }

    /// How many of these drops at sockets were datagrams with a bad checksum. A socket's own count does not say: the kernel
    /// verifies most checksums when a datagram is read, and counts one that is bad as dropped at the socket, as it does one
    /// that finds the buffer full (`csum_copy_err` and `__udp_enqueue_schedule_skb` in `net/ipv4/udp.c`). `self` is what the
    /// namespace counted meanwhile; what may be either is not called a bad checksum.
    pub fn bad_checksums(&self, drops_at_sockets: u64) -> u64 {
        let full = self.rcvbuf_errors + self.mem_errors;
        drops_at_sockets.saturating_sub(full).min(self.in_csum_errors)
    }

    /// Receive errors without a counter of their own: bad lengths, rejected by a filter or a policy.
    pub fn other_errors(&self) -> u64 {
        self.in_errors
            .saturating_sub(self.rcvbuf_errors)
            .saturating_sub(self.in_csum_errors)
            .saturating_sub(self.mem_errors)
    }
}

kernel_counters! {
    /// IP packets of one address family.
    pub struct IpCounters {
        /// Packets that devices delivered to IP, bad ones included.
        in_receives: "InReceives",
        /// Dropped for a bad header.
        in_header_errors: "InHdrErrors",
        /// Dropped without an error in the packet, mainly for lack of memory.
        in_discards: "InDiscards",
        /// Delivered to UDP, TCP and others; a reassembled packet counts once.
        in_delivers: "InDelivers",
    }
}

counters! {
    /// The UDP and IP counters of a network namespace.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct UdpStatistics {
        /// UDP over IPv4.
        pub ipv4: UdpCounters,
        /// UDP over IPv6.
        pub ipv6: UdpCounters,
        /// UDP-Lite over IPv4 and IPv6; 0 in kernels without it.
        pub lite: UdpCounters,
        /// IPv4 itself, all protocols.
        pub ip_v4: IpCounters,
        /// IPv6 itself, all protocols.
        pub ip_v6: IpCounters,
        /// ICMP messages received, of both families (`InMsgs`).
        pub icmp_received: u64,
    }
}

impl UdpStatistics {
    /// Reads the counters of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// [`HostError::Read`] or [`HostError::Missing`] if the kernel does not provide them. On a kernel without IPv6 its
    /// counters are 0.
    pub fn read() -> Result<Self, HostError> {
        let tree = Tree::machine();
        let snmp6 = match tree.text(SNMP6) {
            Err(HostError::Read { .. }) => String::new(),
            text => text?,
        };
        Self::parse(&tree.text(SNMP)?, &snmp6)
    }

    /// Parses `/proc/net/snmp` and `/proc/net/snmp6`; the second may be empty.
    ///
    /// # Errors
    ///
    /// [`HostError::Missing`] if the first has no `Udp:` or `Ip:` lines, [`HostError::Failed`] if names and numbers do
    /// not match in number.
    pub fn parse(snmp: &str, snmp6: &str) -> Result<Self, HostError> {
        let optional = |protocol| Ok(Named::find(SNMP, snmp, protocol)?.unwrap_or_default());
        let (udp, ip) = (
            Named::require(SNMP, snmp, "Udp")?,
            Named::require(SNMP, snmp, "Ip")?,
        );
        let (lite, icmp): (Named<'_>, Named<'_>) = (optional("UdpLite")?, optional("Icmp")?);
        // `/proc/net/snmp6` has a counter a line: prefix and name joined, white space, number.
        let lines = snmp6.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?.parse::<u64>().ok()?))
        });
        let numbers6: BTreeMap<&str, u64> = lines.collect();
        let number6 = |prefix: &str, name: &str| numbers6.get(format!("{prefix}{name}").as_str()).copied();
        let lite_v4 = UdpCounters::by_name(|name| lite.number(name));
        let lite_v6 = UdpCounters::by_name(|name| number6("UdpLite6", name));
        let messages = [icmp.number("InMsgs"), number6("Icmp6", "InMsgs")];
        Ok(Self {
            ipv4: UdpCounters::by_name(|name| udp.number(name)),
            ipv6: UdpCounters::by_name(|name| number6("Udp6", name)),
            lite: lite_v4.plus(&lite_v6),
            ip_v4: IpCounters::by_name(|name| ip.number(name)),
            ip_v6: IpCounters::by_name(|name| number6("Ip6", name)),
            icmp_received: messages.into_iter().flatten().sum(),
        })
    }

    /// UDP and UDP-Lite of both families.
    pub fn total(&self) -> UdpCounters {
        self.ipv4.plus(&self.ipv6).plus(&self.lite)
    }

    /// IP of both families.
    pub fn ip_total(&self) -> IpCounters {
        self.ip_v4.plus(&self.ip_v6)
    }

    /// Packets that IP or UDP dropped, by cause.
    pub fn drops(&self) -> [(Cause, u64); 7] {
        let (udp, ip) = (self.total(), self.ip_total());
        [
            (Cause::Ip, ip.in_header_errors + ip.in_discards),
            (Cause::BadChecksum, udp.in_csum_errors),
            (Cause::NoSocket, udp.no_ports),
            (Cause::Broadcast, udp.ignored_multi),
            (Cause::FullBuffers, udp.rcvbuf_errors),
            (Cause::Memory, udp.mem_errors),
            (Cause::OtherErrors, udp.other_errors()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SNMP_TEXT: &str = "\
Ip: Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates OutTransmits
Ip: 2 64 3038 1 2 3 4 5 6 2287 7 8 9 10 11 12 13 14 15 2287
Tcp: RtoAlgorithm MaxConn
Tcp: 1 -1
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 137 20 19 138 9 3 5 4 2
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
UdpLite: 1 0 0 0 0 0 0 0 0
";
    const SNMP6_TEXT: &str = "\
Ip6InReceives                   \t100
Ip6OutForwDatagrams             \t7
Ip6InHdrErrors                  \t8
Udp6InDatagrams                 \t40
Udp6RcvbufErrors                \t6
UdpLite6InDatagrams             \t2
";

    #[test]
    fn both_families_are_read_apart_and_summed() {
        let read = UdpStatistics::parse(SNMP_TEXT, SNMP6_TEXT).unwrap();
        assert_eq!(
            read.ipv4,
            UdpCounters {
                in_datagrams: 137,
                no_ports: 20,
                in_errors: 19,
                out_datagrams: 138,
                rcvbuf_errors: 9,
                sndbuf_errors: 3,
                in_csum_errors: 5,
                ignored_multi: 4,
                mem_errors: 2,
            }
        );
        assert_eq!(read.ipv4.arrived(), 137 + 20 + 19 + 4);
        assert_eq!(read.ipv4.other_errors(), 3);
        assert_eq!((read.ipv6.in_datagrams, read.ipv6.rcvbuf_errors), (40, 6));
        assert_eq!(read.lite.in_datagrams, 3);
        assert_eq!(read.total().in_datagrams, 180);
        assert_eq!(read.total().rcvbuf_errors, 15);
        assert_eq!((read.ip_v4.in_receives, read.ip_v4.in_delivers), (3038, 6));
        assert_eq!((read.ip_v6.in_receives, read.ip_v6.in_header_errors), (100, 8));
        assert_eq!(read.ip_total().in_receives, 3138);
    }

    #[test]
    fn a_difference_counts_what_came_between_and_never_below_zero() {
        let earlier = UdpStatistics::parse(SNMP_TEXT, SNMP6_TEXT).unwrap();
        let later = UdpStatistics::parse(&SNMP_TEXT.replace("137 20", "150 4"), "").unwrap();
        let between = later.since(&earlier);
        assert_eq!((between.ipv4.in_datagrams, between.ipv4.no_ports), (13, 0));
        assert_eq!(between.ipv6, UdpCounters::default());
    }

    #[test]
    fn drops_at_sockets_are_bad_checksums_as_far_as_no_full_buffer_explains_them() {
        let counted = |rcvbuf_errors, mem_errors, in_csum_errors| UdpCounters {
            rcvbuf_errors,
            mem_errors,
            in_csum_errors,
            ..UdpCounters::default()
        };
        // One bad datagram was for another socket.
        assert_eq!(counted(0, 0, 414).bad_checksums(413), 413);
        assert_eq!(counted(413, 0, 0).bad_checksums(413), 0);
        assert_eq!(counted(300, 100, 20).bad_checksums(413), 13);
        // The rest was rejected by a filter.
        assert_eq!(counted(0, 0, 5).bad_checksums(413), 5);
        assert_eq!(counted(0, 0, 5).bad_checksums(0), 0);
    }

    #[test]
    fn missing_and_unpaired_lines_are_errors() {
        let missing = UdpStatistics::parse("Ip: InReceives\nIp: 1\n", "").unwrap_err();
        assert!(missing.to_string().contains("Udp: lines"), "{missing}");
        let unpaired = UdpStatistics::parse("Udp: InDatagrams NoPorts\nUdp: 1\n", "").unwrap_err();
        assert!(unpaired.to_string().contains("as many numbers"), "{unpaired}");
    }

    #[test]
    fn this_machine_counts_a_datagram_sent_to_no_socket() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        // A connected socket keeps its port from others and receives datagrams from its peer only.
        let elsewhere = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        elsewhere.connect("127.0.0.1:9").unwrap();
        let vacant = elsewhere.local_addr().unwrap();
        let before = UdpStatistics::read().unwrap();
        socket.send_to(b"x", vacant).unwrap();
        let between = UdpStatistics::read().unwrap().since(&before);
        assert!(between.ipv4.no_ports >= 1, "{between:?}");
        assert!(between.ipv4.out_datagrams >= 1, "{between:?}");
        assert!(between.ip_v4.in_delivers >= 1, "{between:?}");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(snmp in "((Udp|Ip): [ -~]{0,30}\n){0,5}", snmp6 in "[ -~\n]{0,60}") {
            let _ = UdpStatistics::parse(&snmp, &snmp6);
        }
    }
}
