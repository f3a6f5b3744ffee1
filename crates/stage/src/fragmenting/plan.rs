//! Which packets are cut, and what is counted.

use crate::stage_counts;
use corelane_measure::counter::Counter;
use serde::{Deserialize, Deserializer, Serialize, de};

/// The smallest MTU: IPv4's longest header and 8 bytes of data (RFC 791, section 3.2).
const LEAST_MTU: u16 = 68;

/// Which packets are cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Bytes of the longest packet that leaves whole, from its IP header on: 68 to 65,535.
    #[serde(deserialize_with = "mtu")]
    pub mtu: u16,
}

fn mtu<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let mtu = u16::deserialize(deserializer)?;
    match mtu < LEAST_MTU {
        true => Err(de::Error::custom(format!(
            "an MTU of {mtu} bytes: IPv4 needs {LEAST_MTU} at least"
        ))),
        false => Ok(mtu),
    }
}

stage_counts! {
    /// The counts of packets that are longer than the MTU.
    pub struct Counts {
        /// Packets that were cut.
        Used cut,
        /// Fragments that they were cut into.
        Made fragments,
        /// Packets of IPv4 dropped since they are too long, and not to be fragmented.
        Dropped dont_fragment,
        /// Packets of IPv6 dropped since they are too long, and only their source may cut them.
        Dropped only_by_source,
        /// Packets dropped since the frame has only a part of them, they are longer than length fields can say, the checksum of their header is wrong, or their headers leave no
        /// room for data.
        Dropped malformed,
    }
}

/// The count of what was dropped for one reason.
pub(super) type Cause = fn(&Counts) -> &Counter;
