//! Kinds of packets, each of which a device may hash differently.

use crate::audit::Family;
use crate::hash::Protocol;
use serde::{Serialize, Serializer};
use std::fmt;

/// Family and protocol of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The addresses' family.
    pub family: Family,
    /// The protocol; those without ports are [`Protocol::Other`].
    pub protocol: Protocol,
}

impl Kind {
    pub(super) fn has_ports(self) -> bool {
        self.protocol != Protocol::Other
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Other => "without ports",
        };
        write!(formatter, "{} {protocol}", self.family)
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
