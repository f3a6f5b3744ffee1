//! What a decapsulation counts.

use crate::stage_counts;
use corelane_measure::counter::Counter;
use corelane_packet::tunnel::{Kind, Unsupported};

stage_counts! {
    /// The counts of a stage, on cache lines of their own: the stage writes them, any thread reads them.
    pub struct Counts {
        /// Taken out of IP in IP.
        Counted ipip,
        /// Taken out of GRE.
        Counted gre,
        /// Taken out of VXLAN.
        Counted vxlan,
        /// Taken out of GENEVE.
        Counted geneve,
        /// Taken out of MPLS labels.
        Counted mpls,
        /// Passed: GRE of another version than 0, or with routing.
        Counted gre_version,
        /// Passed: GRE that carries neither IP, Ethernet nor MPLS.
        Counted gre_protocol,
        /// Passed: VXLAN without the I flag.
        Counted vxlan_no_vni,
        /// Passed: GENEVE of another version than 0.
        Counted geneve_version,
        /// Passed: a control packet of GENEVE.
        Counted geneve_control,
        /// Passed: GENEVE with critical options.
        Counted geneve_critical,
        /// Passed: GENEVE that carries neither IP nor Ethernet.
        Counted geneve_protocol,
        /// Passed: labels before something that is not IP.
        Counted mpls_not_ip,
        /// Passed: a tunnel whose header or content is cut short or inconsistent.
        Counted not_readable,
        /// Passed: a tunnel within as many as are taken off.
        Counted too_deep,
        /// Dropped: a wrong checksum of the outer IPv4 header, of UDP or of GRE.
        Dropped checksum,
        /// Dropped: an outer time to live of 0.
        Dropped ttl,
        /// Dropped: congestion is marked outside, and the packet inside cannot carry the mark (RFC 6040, section 4.2).
        Dropped ecn,
    }
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
