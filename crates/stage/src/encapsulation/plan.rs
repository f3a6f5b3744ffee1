//! A tunnel, and what is put into it.

use corelane_packet::ethernet::MacAddress;
use corelane_packet::tunnel::Kind;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use thiserror::Error;

/// A tunnel, and what is put into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Section", into = "Section")]
pub struct Plan {
    /// Its protocol.
    pub wrap: Wrap,
    /// Its ends: source and destination of the outer IP header, of one family.
    pub local: IpAddr,
    /// See `local`.
    pub remote: IpAddr,
    /// The source address of Ethernet; `None`: that of the frame.
    pub source_mac: Option<MacAddress>,
    /// The destination address of Ethernet, that of the next hop; `None`: that of the frame.
    pub destination_mac: Option<MacAddress>,
    /// The outer DSCP, six bits; `None`: that of the packet inside. Congestion marks are always copied.
    pub dscp: Option<u8>,
    /// The outer time to live.
    pub ttl: u8,
    /// "Don't fragment" of an outer IPv4 header.
    pub df: DontFragment,
    /// The index of the link whose frames are put into the tunnel; `None`: all.
    pub link: Option<usize>,
}

/// A plan as it is written.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    kind: Protocol,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vni: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<u32>,
    local: IpAddr,
    remote: IpAddr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_mac: Option<MacAddress>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destination_mac: Option<MacAddress>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dscp: Option<u8>,
    #[serde(default = "usual_ttl")]
    ttl: u8,
    #[serde(default)]
    df: DontFragment,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<usize>,
}

/// The protocols as they are written.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    Vxlan,
    Gre,
    Ipip,
}

impl TryFrom<Section> for Plan {
    type Error = PlanError;

    fn try_from(section: Section) -> Result<Plan, PlanError> {
        let wrap = match (section.kind, section.vni, section.key) {
            (Protocol::Vxlan, Some(vni), None) => Wrap::Vxlan { vni },
            (Protocol::Vxlan, None, _) => return Err(PlanError::NoVni),
            (Protocol::Gre, None, key) => Wrap::Gre { key },
            (Protocol::Ipip, None, None) => Wrap::Ipip,
            (_, Some(_), _) if section.kind != Protocol::Vxlan => return Err(PlanError::VniOfNoVxlan),
            _ => return Err(PlanError::KeyOfNoGre),
        };
        let plan = Plan {
            wrap,
            local: section.local,
            remote: section.remote,
            source_mac: section.source_mac,
            destination_mac: section.destination_mac,
            dscp: section.dscp,
            ttl: section.ttl,
            df: section.df,
            link: section.link,
        };
        plan.check().map(|()| plan)
    }
}

impl From<Plan> for Section {
    fn from(plan: Plan) -> Section {
        let (kind, vni, key) = match plan.wrap {
            Wrap::Vxlan { vni } => (Protocol::Vxlan, Some(vni), None),
            Wrap::Gre { key } => (Protocol::Gre, None, key),
            Wrap::Ipip => (Protocol::Ipip, None, None),
        };
        Section {
            kind,
            vni,
            key,
            local: plan.local,
            remote: plan.remote,
            source_mac: plan.source_mac,
            destination_mac: plan.destination_mac,
            dscp: plan.dscp,
            ttl: plan.ttl,
            df: plan.df,
            link: plan.link,
        }
    }
}

/// Default of Linux (`net.ipv4.ip_default_ttl`).
fn usual_ttl() -> u8 {
    64
}

/// The protocol of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrap {
    /// VXLAN (RFC 7348).
    Vxlan {
        /// The network identifier, 24 bits.
        vni: u32,
    },
    /// GRE (RFC 2784).
    Gre {
        /// The key (RFC 2890), if it has one.
        key: Option<u32>,
    },
    /// IPv4 or IPv6 directly behind an IP header (RFC 2003, RFC 2473).
    Ipip,
}

impl Wrap {
    /// Its kind.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Wrap::Vxlan { .. } => Kind::Vxlan,
            Wrap::Gre { .. } => Kind::Gre,
            Wrap::Ipip => Kind::IpInIp,
        }
    }
}

/// Whether an outer IPv4 header has "don't fragment".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DontFragment {
    /// If the packet inside is IPv4 and has it (RFC 2003, section 3.1).
    #[default]
    Inherit,
    /// Always.
    Set,
    /// Never.
    Unset,
}

/// Why there is no such tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The ends are of two families.
    #[error("a tunnel from {local} to {remote}: both ends must be IPv4, or both IPv6")]
    Families {
        /// The source.
        local: IpAddr,
        /// The destination.
        remote: IpAddr,
    },
    /// A VXLAN has no identifier.
    #[error("a VXLAN needs a network identifier: give vni")]
    NoVni,
    /// An identifier of another tunnel.
    #[error("only a VXLAN has a vni")]
    VniOfNoVxlan,
    /// A key of another tunnel.
    #[error("only GRE has a key")]
    KeyOfNoGre,
    /// The identifier has more than 24 bits.
    #[error("vni {0}: a VXLAN has a number up to 16777215 (RFC 7348)")]
    Vni(u32),
    /// The code point has more than six bits.
    #[error("dscp {0}: use a number up to 63 (RFC 2474)")]
    Dscp(u8),
    /// "Don't fragment" of an outer IPv6 header.
    #[error("df: only a tunnel over IPv4 has it")]
    DontFragment,
    /// A packet of no time to live is dropped by its receiver.
    #[error("ttl 0: use 1 to 255")]
    Ttl,
}

impl Plan {
    /// Whether there can be such a tunnel.
    ///
    /// # Errors
    /// Names what is wrong.
    pub fn check(&self) -> Result<(), PlanError> {
        let (local, remote) = (self.local, self.remote);
        match (self.wrap, self.dscp) {
            _ if local.is_ipv4() != remote.is_ipv4() => Err(PlanError::Families { local, remote }),
            (Wrap::Vxlan { vni }, _) if vni >= 1 << 24 => Err(PlanError::Vni(vni)),
            (_, Some(dscp)) if dscp >= 1 << 6 => Err(PlanError::Dscp(dscp)),
            _ if local.is_ipv6() && self.df != DontFragment::Inherit => Err(PlanError::DontFragment),
            _ if self.ttl == 0 => Err(PlanError::Ttl),
            _ => Ok(()),
        }
    }
}
