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
    /// The hash names the entry, the frame came by another queue, and too little was seen to distinguish a changed table from a
    /// rule for the flow.
    TableOrFlowRule,
}

impl Cause {
    /// The cause's name in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// The name, what it means and what to look at.
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
                "another table, or a rule for the flow: one flow an entry is too few to tell",
            ),
        }
    }
}

/// What it means and what to look at.
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
