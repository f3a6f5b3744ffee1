//! What a decapsulation counts.

use corelane_measure::counter::Counter;
use corelane_packet::tunnel::{Kind, Unsupported};

/// The counts of a stage, on cache lines of their own: the stage writes them, any thread reads them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counts {
    /// Taken out of IP in IP.
    pub ipip: Counter,
    /// Taken out of GRE.
    pub gre: Counter,
    /// Taken out of VXLAN.
    pub vxlan: Counter,
    /// Taken out of GENEVE.
    pub geneve: Counter,
    /// Taken out of MPLS labels.
    pub mpls: Counter,
    /// Passed: GRE of another version than 0, or with routing.
    pub gre_version: Counter,
    /// Passed: GRE that carries neither IP, Ethernet nor MPLS.
    pub gre_protocol: Counter,
    /// Passed: VXLAN without the I flag.
    pub vxlan_no_vni: Counter,
    /// Passed: GENEVE of another version than 0.
    pub geneve_version: Counter,
    /// Passed: a control packet of GENEVE.
    pub geneve_control: Counter,
    /// Passed: GENEVE with critical options.
    pub geneve_critical: Counter,
    /// Passed: GENEVE that carries neither IP nor Ethernet.
    pub geneve_protocol: Counter,
    /// Passed: labels before something that is not IP.
    pub mpls_not_ip: Counter,
    /// Passed: a tunnel whose header or content is cut short or inconsistent.
    pub not_readable: Counter,
    /// Passed: a tunnel within as many as are taken off.
    pub too_deep: Counter,
    /// Dropped: a wrong checksum of the outer IPv4 header, of UDP or of GRE.
    pub checksum: Counter,
    /// Dropped: an outer time to live of 0.
    pub ttl: Counter,
    /// Dropped: congestion is marked outside, and the packet inside cannot carry the mark (RFC 6040, section 4.2).
    pub ecn: Counter,
}

impl Counts {
    pub(super) fn taken_out(&self, kind: Kind) -> &Counter {
        match kind {
            Kind::IpInIp => &self.ipip,
            Kind::Gre => &self.gre,
            Kind::Vxlan => &self.vxlan,
            Kind::Geneve => &self.geneve,
            Kind::Mpls => &self.mpls,
            Kind::Esp => &self.not_readable,
        }
    }

    pub(super) fn passed(&self, reason: Unsupported) -> &Counter {
        match reason {
            Unsupported::GreVersion => &self.gre_version,
            Unsupported::GreProtocol => &self.gre_protocol,
            Unsupported::VxlanWithoutIdentifier => &self.vxlan_no_vni,
            Unsupported::GeneveVersion => &self.geneve_version,
            Unsupported::GeneveControl => &self.geneve_control,
            Unsupported::GeneveCritical => &self.geneve_critical,
            Unsupported::GeneveProtocol => &self.geneve_protocol,
            Unsupported::MplsNotIp => &self.mpls_not_ip,
            Unsupported::Truncated => &self.not_readable,
        }
    }
}
