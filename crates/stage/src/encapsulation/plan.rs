//! A tunnel, and what is put into it.

use corelane_packet::ethernet::MacAddress;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use thiserror::Error;

/// A tunnel, and what is put into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Its protocol.
    #[serde(flatten)]
    pub wrap: Wrap,
    /// Its ends: source and destination of the outer IP header, of one family.
    pub local: IpAddr,
    /// See `local`.
    pub remote: IpAddr,
    /// The source address of Ethernet; `None`: that of the frame.
    #[serde(default)]
    pub source_mac: Option<MacAddress>,
    /// The destination address of Ethernet, that of the next hop; `None`: that of the frame.
    #[serde(default)]
    pub destination_mac: Option<MacAddress>,
    /// The outer DSCP, six bits; `None`: that of the packet inside. Congestion marks are always copied.
    #[serde(default)]
    pub dscp: Option<u8>,
    /// The outer time to live.
    #[serde(default = "usual_ttl")]
    pub ttl: u8,
    /// "Don't fragment" of an outer IPv4 header.
    #[serde(default)]
    pub df: DontFragment,
    /// The index of the link whose frames are put into the tunnel; `None`: all.
    #[serde(default)]
    pub link: Option<usize>,
}

/// Default of Linux (`net.ipv4.ip_default_ttl`).
fn usual_ttl() -> u8 {
    64
}

/// The protocol of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Wrap {
    /// VXLAN (RFC 7348).
    Vxlan {
        /// The network identifier, 24 bits.
        vni: u32,
    },
    /// GRE (RFC 2784).
    Gre {
        /// The key (RFC 2890), if it has one.
        #[serde(default)]
        key: Option<u32>,
    },
    /// IPv4 or IPv6 directly behind an IP header (RFC 2003, RFC 2473).
    Ipip,
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
    /// The identifier has more than 24 bits.
    #[error("vni {0}: a VXLAN has a number up to 16777215 (RFC 7348)")]
    Vni(u32),
    /// The code point has more than six bits.
    #[error("dscp {0}: use a number up to 63 (RFC 2474)")]
    Dscp(u8),
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
            _ if self.ttl == 0 => Err(PlanError::Ttl),
            _ => Ok(()),
        }
    }
}
