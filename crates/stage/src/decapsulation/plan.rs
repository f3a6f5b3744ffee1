//! What is taken out of which tunnels.

use corelane_packet::tunnel::Kind;
use serde::{Deserialize, Serialize};

/// What is taken out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// The tunnels that are entered.
    pub kinds: Vec<Kind>,
    /// Tunnels around a frame that are taken off, at most.
    pub nesting: u8,
    /// Whether the checksums of the outer headers are verified. UDP without checksum is taken as it is, also over IPv6 (RFC
    /// 6935).
    pub verify: bool,
    /// The index of the link whose frames are decapsulated; `None`: all.
    pub link: Option<usize>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            kinds: vec![Kind::IpInIp, Kind::Gre, Kind::Vxlan, Kind::Geneve, Kind::Mpls],
            nesting: 4,
            verify: true,
            link: None,
        }
    }
}
