//! How datagrams are made whole, and how much may wait.

use super::overlap::{Overlap, OverlapIpv6};
use corelane_measure::quantity::{parse_duration, read};
use serde::{Deserialize, Deserializer, Serialize};

/// Which bucket makes a datagram whole. The places are those of the post "Receive Side Scaling: figuring out how to handle IP
/// fragments".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The one that fragments arrive at.
    #[default]
    Arrival,
    /// The one of a hash of addresses, identification and protocol: fragments that arrive apart meet there.
    Owner,
}

/// How datagrams are made whole, and how much may wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// Which bucket makes a datagram whole.
    pub at: Placement,
    /// What is done with fragments of an IPv4 datagram that overlap.
    pub overlap_ipv4: Overlap,
    /// What is done with fragments of an IPv6 datagram that overlap.
    pub overlap_ipv6: OverlapIpv6,
    /// Bytes of memory for waiting fragments, in each bucket. The oldest datagrams are dropped for new ones.
    #[serde(deserialize_with = "read::bytes")]
    pub memory: u64,
    /// Datagrams that wait at a time, in each bucket. The oldest are dropped for new ones.
    #[serde(deserialize_with = "read::number")]
    pub datagrams: u64,
    /// Fragments of a datagram that wait. One more drops it, unless it makes it whole.
    #[serde(deserialize_with = "read::number")]
    pub fragments: u64,
    /// Seconds that a datagram waits for its fragments.
    #[serde(deserialize_with = "seconds")]
    pub timeout: f64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            at: Placement::default(),
            overlap_ipv4: Overlap::default(),
            overlap_ipv6: OverlapIpv6::default(),
            memory: 4 << 20,
            datagrams: 4096,
            fragments: 128,
            timeout: 30.0,
        }
    }
}

/// A time of at most a day, with a unit, or in seconds.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let valid = |seconds: f64| (0.0..=86_400.0).contains(&seconds).then_some(seconds);
    let text = |text: &str| valid(parse_duration(text).ok()?.as_secs_f64());
    read::text_or_number(deserializer, "a time such as 30s, a day at most", text, valid)
}
