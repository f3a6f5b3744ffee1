//! What a decapsulation counts.

use crate::esp::Closed;
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
        /// Taken out of ESP.
        Counted esp,
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
        /// Passed: ESP of an association without key.
        Counted esp_no_key,
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
        /// Dropped: ESP whose sequence number was received before, or is below the window.
        Dropped replayed,
        /// Dropped: ESP that was not sealed with the key of its association, or changed.
        Dropped forged,
        /// Dropped: ESP whose padding is not that of RFC 4303, section 2.4.
        Dropped padding,
        /// Dropped: ESP that contains no IP packet, as in transport mode, or a damaged one.
        Dropped not_tunnel_mode,
        /// Dropped: ESP without content, which hides how much is sent (RFC 4303, section 2.6).
        Dropped dummy,
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
            Kind::Esp => &self.esp,
        }
    }

    pub(super) fn closed(&self, reason: Closed) -> &Counter {
        match reason {
            Closed::Replayed => &self.replayed,
            Closed::Forged => &self.forged,
            Closed::Padding => &self.padding,
            Closed::NotTunnelMode => &self.not_tunnel_mode,
            Closed::Dummy => &self.dummy,
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
