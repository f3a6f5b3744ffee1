//! The EtherTypes and IP protocol numbers that dissection handles.

use std::fmt;

/// The type of the payload of a frame or tag (IEEE, "EtherType" registry). Values below 0x600 are lengths of an IEEE
/// 802.3 frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// Customer VLAN tag (IEEE 802.1Q).
    pub const VLAN: EtherType = EtherType(0x8100);
    /// IPv6.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// Provider VLAN tag (IEEE 802.1ad).
    pub const PROVIDER_VLAN: EtherType = EtherType(0x88a8);
    /// The outer VLAN tag of switches older than IEEE 802.1ad.
    pub const OLD_PROVIDER_VLAN: EtherType = EtherType(0x9100);

    /// ARP (RFC 826).
    pub const ARP: EtherType = EtherType(0x0806);

    /// Ethernet inside a tunnel (RFC 1701; RFC 8926, section 3.4).
    pub const ETHERNET: EtherType = EtherType(0x6558);
    /// Labels (RFC 5332, section 3).
    pub const MPLS: EtherType = EtherType(0x8847);
    /// Labels that the receiver assigned, once of multicast (RFC 5332, section 3).
    pub const MPLS_UPSTREAM: EtherType = EtherType(0x8848);

    /// Whether a stack of labels follows (RFC 3032).
    #[must_use]
    #[inline]
    pub fn is_mpls(self) -> bool {
        matches!(self, EtherType::MPLS | EtherType::MPLS_UPSTREAM)
    }

    /// Whether a tag follows.
    #[must_use]
    #[inline]
    pub fn is_vlan(self) -> bool {
        matches!(
            self,
            EtherType::VLAN | EtherType::PROVIDER_VLAN | EtherType::OLD_PROVIDER_VLAN
        )
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ether type 0x{:04x}", self.0)
    }
}

/// What follows an IP header: the IPv4 protocol or IPv6 next header number (IANA, "Assigned Internet Protocol Numbers").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// Hop-by-hop options of IPv6 (RFC 8200, section 4.3).
    pub const HOP_BY_HOP: IpProtocol = IpProtocol(0);
    /// IPv4 in IP (RFC 2003).
    pub const IPV4: IpProtocol = IpProtocol(4);
    /// TCP.
    pub const TCP: IpProtocol = IpProtocol(6);
    /// UDP.
    pub const UDP: IpProtocol = IpProtocol(17);
    /// DCCP (RFC 4340).
    pub const DCCP: IpProtocol = IpProtocol(33);
    /// IPv6 in IP (RFC 4213).
    pub const IPV6: IpProtocol = IpProtocol(41);
    /// Routing header of IPv6 (RFC 8200, section 4.4).
    pub const ROUTING: IpProtocol = IpProtocol(43);
    /// Fragment header of IPv6 (RFC 8200, section 4.5).
    pub const FRAGMENT: IpProtocol = IpProtocol(44);
    /// Generic routing encapsulation (RFC 2784).
    pub const GRE: IpProtocol = IpProtocol(47);
    /// Encapsulating security payload (RFC 4303).
    pub const ESP: IpProtocol = IpProtocol(50);
    /// Authentication header (RFC 4302).
    pub const AUTHENTICATION: IpProtocol = IpProtocol(51);
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: IpProtocol = IpProtocol(58);
    /// Nothing follows (RFC 8200, section 4.7).
    pub const NONE: IpProtocol = IpProtocol(59);
    /// Destination options of IPv6 (RFC 8200, section 4.6).
    pub const DESTINATION_OPTIONS: IpProtocol = IpProtocol(60);
    /// SCTP (RFC 9260).
    pub const SCTP: IpProtocol = IpProtocol(132);
    /// Mobility header (RFC 6275, section 6.1).
    pub const MOBILITY: IpProtocol = IpProtocol(135);
    /// UDP-Lite (RFC 3828).
    pub const UDP_LITE: IpProtocol = IpProtocol(136);
    /// Host identity protocol (RFC 7401).
    pub const HIP: IpProtocol = IpProtocol(139);
    /// Shim6 (RFC 5533).
    pub const SHIM6: IpProtocol = IpProtocol(140);
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "protocol {}", self.0)
    }
}
