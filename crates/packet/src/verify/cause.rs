//! Causes for a frame on another queue than its hash selects.

use super::Dialect;
use serde::{Serialize, Serializer};
use std::fmt;

/// Likely cause of misplaced frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The device hashed payload of fragments as ports, or did not hash them.
    Fragment,
    /// The device hashed the inner packet of a tunnel.
    Tunnel,
    /// The device hashed other fields of the packet: addresses only instead of addresses and ports, or the reverse, or
    /// the addresses of other headers.
    Fields,
    /// The device did not hash the frame and delivered it to its first queue.
    NotHashed,
    /// The device uses another dialect.
    Dialect(Dialect),
    /// The frame was captured without bytes that the device may have hashed, such as those inside a tunnel.
    CutShort,
    /// The device's hash matches no known variant: most likely it uses another key.
    OtherHash,
    /// All flows of an entry arrived on one other queue: the table differs from the given one, or was changed.
    ChangedTable,
    /// Flows of one entry arrived on different queues: a rule steers single flows.
    FlowRule,
    /// The hash is as expected, the frame arrived on another queue, and there are too few flows to distinguish a
    /// changed table from a flow rule.
    TableOrFlowRule,
}

impl Cause {
    /// The cause's name in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// The name, the meaning, and what to check.
    fn facts(self) -> (&'static str, &'static str) {
        match self {
            Cause::Fragment => (
                "fragment",
                "fragments hashed with ports, or not at all: hash UDP as a 2-tuple",
            ),
            Cause::Tunnel => ("tunnel", "the packet inside a tunnel was hashed"),
            Cause::Fields => (
                "fields",
                "2-tuple against 4-tuple: compare the hash fields of the flow type (ethtool -n)",
            ),
            Cause::NotHashed => ("not-hashed", "not hashed, so taken by the first queue"),
            Cause::Dialect(dialect) => (dialect.name(), "another dialect: "),
            Cause::CutShort => (
                "cut-short",
                "what the device may have hashed was not captured: capture more of each frame (-s 256)",
            ),
            Cause::OtherHash => (
                "other-hash",
                "a hash of something else: compare the key (ethtool -x)",
            ),
            Cause::ChangedTable => (
                "changed-table",
                "another indirection table: compare it (ethtool -x)",
            ),
            Cause::FlowRule => (
                "flow-rule",
                "a rule for the flow, such as ntuple, aRFS or flow director (ethtool -n, -k)",
            ),
            Cause::TableOrFlowRule => (
                "table-or-flow-rule",
                "another table, or a rule for the flow: one flow per entry is too few",
            ),
        }
    }
}

/// The meaning, and what to check.
impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, meaning) = self.facts();
        let dialect = matches!(self, Cause::Dialect(_));
        write!(formatter, "{meaning}{}", if dialect { name } else { "" })
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
