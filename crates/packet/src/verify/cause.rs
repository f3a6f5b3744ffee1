//! Why a frame came by another queue than its hash names: the answers that there are.

use super::Dialect;
use serde::{Serialize, Serializer};
use std::fmt;

/// Why frames are likely misplaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The device hashed fragments with what it took for ports, or did not hash them.
    Fragment,
    /// The device hashed the packet inside a tunnel.
    Tunnel,
    /// The device hashed other fields of the packet: addresses where the rule has ports too, or the other way round, or
    /// the addresses of the other headers.
    Fields,
    /// The device did not hash the frame and gave it to its first queue.
    NotHashed,
    /// The device hashes in another dialect.
    Dialect(Dialect),
    /// The device's hash is none that is known of the packet: another key, most likely.
    OtherHash,
    /// All flows of an entry came by one other queue: the table is not the one given, or was changed.
    ChangedTable,
    /// Flows of one entry came by different queues: something steers flow by flow.
    FlowRule,
    /// The hash names the entry, the frame came by another queue, and too little was seen to tell a changed table from a
    /// rule for the flow.
    TableOrFlowRule,
}

impl Cause {
    /// The cause's name in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Fragment => "fragment",
            Cause::Tunnel => "tunnel",
            Cause::Fields => "fields",
            Cause::NotHashed => "not-hashed",
            Cause::Dialect(dialect) => dialect.name(),
            Cause::OtherHash => "other-hash",
            Cause::ChangedTable => "changed-table",
            Cause::FlowRule => "flow-rule",
            Cause::TableOrFlowRule => "table-or-flow-rule",
        }
    }
}

/// What it means and what to look at.
impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Fragment => {
                formatter.write_str("fragments hashed with ports, or not at all: hash UDP as a 2-tuple")
            }
            Cause::Tunnel => formatter.write_str("the packet inside a tunnel was hashed"),
            Cause::Fields => formatter
                .write_str("2-tuple against 4-tuple: compare the hash fields of the flow type (ethtool -n)"),
            Cause::NotHashed => formatter.write_str("not hashed, so taken by the first queue"),
            Cause::Dialect(dialect) => write!(formatter, "another dialect: {dialect}"),
            Cause::OtherHash => formatter.write_str("a hash of something else: compare the key (ethtool -x)"),
            Cause::ChangedTable => formatter.write_str("another indirection table: compare it (ethtool -x)"),
            Cause::FlowRule => formatter
                .write_str("a rule for the flow, such as ntuple, aRFS or flow director (ethtool -n, -k)"),
            Cause::TableOrFlowRule => formatter
                .write_str("another table, or a rule for the flow: one flow an entry is too few to tell"),
        }
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
