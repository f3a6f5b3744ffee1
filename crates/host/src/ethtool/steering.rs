//! How a device steers received frames: its hash, the hashed fields of each flow type, the indirection table, and the
//! rules that take precedence over it. Names and numbers are those of `linux/ethtool.h`.

use std::net::{IpAddr, SocketAddr};

use corelane_rss::{Bucket, HashFields, IndirectionTable, Key, Protocol, Steering};
use serde::{Deserialize, Serialize};

/// The hash, key and table of a device, or of an additional context.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rss {
    /// 0 for the device's default context; rules send flows to others.
    pub context: u32,
    /// The hash function.
    pub function: HashFunction,
    /// The transforms of the fields before hashing.
    pub transforms: Vec<Transform>,
    /// The key in hexadecimal; empty if the driver has none or does not report it.
    pub key: String,
    /// The queue of each entry; empty if there is no table.
    pub table: Vec<u32>,
}

impl Rss {
    /// The key, parsed.
    ///
    /// # Errors
    ///
    /// Why it cannot be used: there is none, or its length does not suit a Toeplitz hash of a tuple.
    pub fn key(&self) -> Result<Key, String> {
        if self.key.is_empty() {
            return Err("the driver reports no RSS key".to_owned());
        }
        let key = self.key.parse::<Key>();
        key.map_err(|error| format!("the device's RSS key cannot be used: {error}"))
    }

    /// How the ends of a flow are mixed before hashing; `None` if this version does not know the transform.
    #[must_use]
    pub fn transform(&self) -> Option<corelane_rss::Transform> {
        match self.transforms[..] {
            [] => Some(corelane_rss::Transform::Plain),
            [Transform::SymmetricXor] => Some(corelane_rss::Transform::SymmetricXor),
            [Transform::SymmetricOrXor] => Some(corelane_rss::Transform::SymmetricOrXor),
            _ => None,
        }
    }

    /// The steering of packets of which these fields are hashed; the number of a queue stands for its CPU. It does not say how
    /// the ends are mixed ([`Rss::transform`]).
    ///
    /// # Errors
    ///
    /// Why the device's hash cannot be computed: it is none of Toeplitz, or key or table cannot be used.
    pub fn steering(&self, hash_fields: HashFields) -> Result<Steering, String> {
        if !self.function.is_toeplitz() {
            return Err(format!(
                "only Toeplitz hashes are computed, not {:?}",
                self.function
            ));
        }
        let table = self.table()?;
        Ok(Steering {
            key: self.key()?,
            hash_fields,
            cpus: (0..table.buckets() as u32).collect(),
            table,
            generation: 0,
        })
    }

    /// The table, with its queues as buckets.
    ///
    /// # Errors
    ///
    /// Why it cannot be used: there is none, or it is too large.
    pub fn table(&self) -> Result<IndirectionTable, String> {
        let bucket = |queue: &u32| u16::try_from(*queue).map(Bucket::new).ok();
        let entries: Option<Vec<Bucket>> = self.table.iter().map(bucket).collect();
        let entries = entries.filter(|entries| !entries.is_empty());
        let entries = entries.ok_or("the driver reports no indirection table")?;
        IndirectionTable::from_entries(entries)
            .map_err(|error| format!("the device's indirection table cannot be used: {error}"))
    }
}

/// The hash function (`ETH_RSS_HASH_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HashFunction {
    /// Toeplitz.
    Toeplitz,
    /// All input bytes XORed.
    Xor,
    /// CRC32.
    Crc32,
    /// Not reported by the driver.
    #[default]
    Untold,
    /// Unknown to this version.
    Other,
}

impl HashFunction {
    /// Whether it is Toeplitz, the default of devices that do not report a function.
    pub(crate) fn is_toeplitz(self) -> bool {
        matches!(self, Self::Toeplitz | Self::Untold)
    }

    /// The function of a `ETH_RSS_HASH_*` bit.
    pub(super) fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::Untold,
            1 => Self::Toeplitz,
            2 => Self::Xor,
            4 => Self::Crc32,
            _ => Self::Other,
        }
    }
}

/// A symmetric transform of the fields before hashing (`RXH_XFRM_*`, since Linux 6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transform {
    /// Source XOR destination replaces both, for addresses and ports.
    SymmetricXor,
    /// Source OR destination, then source XOR destination.
    SymmetricOrXor,
    /// Unknown to this version.
    Other,
}

impl Transform {
    pub(super) fn from_bits(bits: u8) -> Vec<Self> {
        let known = [
            (1, Self::SymmetricXor),
            (2, Self::SymmetricOrXor),
            (!3, Self::Other),
        ];
        let set = known.into_iter().filter(|(bit, _)| bits & bit != 0);
        set.map(|(_, transform)| transform).collect()
    }
}

/// A flow type whose hashed fields can be configured separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowType {
    /// TCP over IPv4.
    Tcp4,
    /// UDP over IPv4.
    Udp4,
    /// SCTP over IPv4.
    Sctp4,
    /// AH or ESP over IPv4.
    AhEsp4,
    /// Anything else over IPv4, fragments included.
    Ipv4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv6.
    Udp6,
    /// SCTP over IPv6.
    Sctp6,
    /// AH or ESP over IPv6.
    AhEsp6,
    /// Anything else over IPv6, fragments included.
    Ipv6,
    /// Frames without IP.
    Ether,
}

impl FlowType {
    /// All flow types with name and kernel number (`TCP_V4_FLOW` and the others), in the order of the variants.
    const TABLE: [(FlowType, &'static str, u32); 11] = [
        (FlowType::Tcp4, "tcp4", 0x01),
        (FlowType::Udp4, "udp4", 0x02),
        (FlowType::Sctp4, "sctp4", 0x03),
        (FlowType::AhEsp4, "ah_esp4", 0x04),
        (FlowType::Ipv4, "ipv4", 0x10),
        (FlowType::Tcp6, "tcp6", 0x05),
        (FlowType::Udp6, "udp6", 0x06),
        (FlowType::Sctp6, "sctp6", 0x07),
        (FlowType::AhEsp6, "ah_esp6", 0x08),
        (FlowType::Ipv6, "ipv6", 0x11),
        (FlowType::Ether, "ether", 0x12),
    ];

    /// The flow type of packets of a protocol between addresses of the family of `address`. Fragments have the type of
    /// [`Protocol::Other`], whatever they carry.
    #[must_use]
    pub fn of(protocol: Protocol, address: IpAddr) -> FlowType {
        match (protocol, address) {
            (Protocol::Tcp, IpAddr::V4(_)) => FlowType::Tcp4,
            (Protocol::Udp, IpAddr::V4(_)) => FlowType::Udp4,
            (Protocol::Other, IpAddr::V4(_)) => FlowType::Ipv4,
            (Protocol::Tcp, IpAddr::V6(_)) => FlowType::Tcp6,
            (Protocol::Udp, IpAddr::V6(_)) => FlowType::Udp6,
            (Protocol::Other, IpAddr::V6(_)) => FlowType::Ipv6,
        }
    }

    /// All flow types.
    pub fn all() -> impl Iterator<Item = FlowType> {
        Self::TABLE.into_iter().map(|(flow_type, ..)| flow_type)
    }

    /// The name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    pub(super) fn number(self) -> u32 {
        Self::TABLE[self as usize].2
    }
}

/// A field that can be hashed (`RXH_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// Source address.
    SourceAddress,
    /// Destination address.
    DestinationAddress,
    /// Source port, or the bytes in its place.
    SourcePort,
    /// Destination port, or the bytes in its place.
    DestinationPort,
    /// Ethernet destination.
    LinkDestination,
    /// VLAN tag.
    Vlan,
    /// Protocol of the IP header.
    Protocol,
    /// Tunnel endpoint of GTP.
    GtpEndpoint,
    /// Flow label of IPv6.
    FlowLabel,
    /// Such frames are dropped.
    Discard,
}

impl Field {
    const BITS: [(u64, Field); 10] = [
        (1 << 4, Field::SourceAddress),
        (1 << 5, Field::DestinationAddress),
        (1 << 6, Field::SourcePort),
        (1 << 7, Field::DestinationPort),
        (1 << 1, Field::LinkDestination),
        (1 << 2, Field::Vlan),
        (1 << 3, Field::Protocol),
        (1 << 8, Field::GtpEndpoint),
        (1 << 9, Field::FlowLabel),
        (1 << 31, Field::Discard),
    ];

    /// Both addresses.
    pub const TWO_TUPLE: [Field; 2] = [Field::SourceAddress, Field::DestinationAddress];

    /// Both addresses and both ports.
    pub const FOUR_TUPLE: [Field; 4] = [
        Field::SourceAddress,
        Field::DestinationAddress,
        Field::SourcePort,
        Field::DestinationPort,
    ];

    pub(super) fn from_bits(bits: u64) -> Vec<Field> {
        let set = Self::BITS.iter().filter(|(bit, _)| bits & bit != 0);
        set.map(|(_, field)| *field).collect()
    }

    pub(super) fn bits(fields: &[Field]) -> u64 {
        let set = Self::BITS.iter().filter(|(_, field)| fields.contains(field));
        set.fold(0, |bits, (bit, _)| bits | bit)
    }
}

/// The rules that choose a queue before the indirection table (ntuple filters).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// In the order of their locations.
    pub rules: Vec<Rule>,
    /// Rules that were not read: beyond the maximum, or removed meanwhile.
    pub left_off: u32,
}

/// One rule. A field that it does not match on is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Its location in the device's table.
    pub location: u32,
    /// The flow type by name, or by number if unknown to this version.
    pub flow_type: String,
    /// Source address and its mask.
    pub source: Option<(IpAddr, IpAddr)>,
    /// Destination address and its mask.
    pub destination: Option<(IpAddr, IpAddr)>,
    /// Source port and its mask.
    pub source_port: Option<(u16, u16)>,
    /// Destination port and its mask.
    pub destination_port: Option<(u16, u16)>,
    /// Whether it matches on more than the above.
    pub looks_at_more: bool,
    /// The action.
    pub action: RuleAction,
}

/// The action on matching frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleAction {
    /// Drops it.
    Drop,
    /// Wakes the machine.
    Wake,
    /// Delivers to this queue.
    Queue(u32),
    /// Delivers to this RSS context, whose table entries are offset by this queue number.
    Context {
        /// The context.
        context: u32,
        /// The offset added to each table entry.
        first_queue: u32,
    },
    /// Delivers to a virtual function of the device.
    VirtualFunction(u32),
}

impl Rule {
    /// Whether the rule matches a packet of this type, addresses and ports; `None` if it matches on fields that are
    /// unknown here.
    #[must_use]
    pub fn takes(&self, flow_type: FlowType, source: SocketAddr, destination: SocketAddr) -> Option<bool> {
        if !FlowType::all().any(|known| known.name() == self.flow_type) || self.flow_type == "ether" {
            return None;
        }
        let any = if source.is_ipv4() { "ipv4" } else { "ipv6" };
        if ![flow_type.name(), any].contains(&self.flow_type.as_str()) {
            return Some(false);
        }
        let address =
            |wanted: Option<(IpAddr, IpAddr)>, found| wanted.is_none_or(|wanted| same(wanted, found));
        let port =
            |wanted: Option<(u16, u16)>, found| wanted.is_none_or(|(port, mask)| port & mask == found & mask);
        let takes = address(self.source, source.ip())
            && address(self.destination, destination.ip())
            && port(self.source_port, source.port())
            && port(self.destination_port, destination.port());
        match takes {
            true if self.looks_at_more => None,
            takes => Some(takes),
        }
    }
}

fn same((wanted, mask): (IpAddr, IpAddr), found: IpAddr) -> bool {
    match (wanted, mask, found) {
        (IpAddr::V4(wanted), IpAddr::V4(mask), IpAddr::V4(found)) => wanted & mask == found & mask,
        (IpAddr::V6(wanted), IpAddr::V6(mask), IpAddr::V6(found)) => wanted & mask == found & mask,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Rule {
        Rule {
            location: 1,
            flow_type: "udp4".to_owned(),
            source: None,
            destination: Some(("10.0.0.0".parse().unwrap(), "255.255.0.0".parse().unwrap())),
            source_port: None,
            destination_port: Some((53, 0xffff)),
            looks_at_more: false,
            action: RuleAction::Queue(2),
        }
    }

    #[test]
    fn a_rule_takes_what_its_masks_leave() {
        let takes = |rule: &Rule, flow_type, destination: &str| {
            rule.takes(
                flow_type,
                "192.0.2.1:7".parse().unwrap(),
                destination.parse().unwrap(),
            )
        };
        assert_eq!(takes(&rule(), FlowType::Udp4, "10.0.7.7:53"), Some(true));
        assert_eq!(takes(&rule(), FlowType::Udp4, "10.1.7.7:53"), Some(false));
        assert_eq!(takes(&rule(), FlowType::Udp4, "10.0.7.7:54"), Some(false));
        assert_eq!(takes(&rule(), FlowType::Tcp4, "10.0.7.7:53"), Some(false));
        let more = Rule {
            looks_at_more: true,
            ..rule()
        };
        assert_eq!(takes(&more, FlowType::Udp4, "10.0.7.7:53"), None);
        assert_eq!(takes(&more, FlowType::Udp4, "10.1.7.7:53"), Some(false));
    }

    #[test]
    fn fields_are_the_bits_that_stand_for_them() {
        assert_eq!(Field::bits(&Field::FOUR_TUPLE), 0xf0);
        assert_eq!(Field::from_bits(0x30), Field::TWO_TUPLE);
        assert_eq!(
            Transform::from_bits(3),
            [Transform::SymmetricXor, Transform::SymmetricOrXor]
        );
        assert_eq!(Transform::from_bits(8), [Transform::Other]);
    }

    #[test]
    fn tables_and_keys_that_cannot_be_used_say_why() {
        let mut rss = Rss {
            context: 0,
            function: HashFunction::Toeplitz,
            transforms: Vec::new(),
            key: String::new(),
            table: Vec::new(),
        };
        assert!(rss.key().unwrap_err().contains("no RSS key"));
        assert!(rss.table().unwrap_err().contains("no indirection table"));
        rss.table = vec![0; 4097];
        assert!(rss.table().unwrap_err().contains("give 1 to 4096"));
        rss.table = vec![0, 1, 2, 1];
        assert_eq!(rss.table().unwrap().buckets(), 3);
    }
}
