//! Computes which bytes of a packet a device hashes, and the hash type, from a dissection and the enabled hash types.

use crate::dissection::{Addresses, Dissection, TransportHeader};
use crate::layout::{Marks, PORTS};
use crate::protocol::IpProtocol;
use corelane_rss::{Hash, HashFields, HashInput, HashType, InputError, Toeplitz, Transform, Tuple};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::net::{Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::str::FromStr;

/// The hash types that a device has enabled. They determine which fields of which packets are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HashTypes(u32);

impl HashTypes {
    /// Nothing is hashed.
    pub const NONE: HashTypes = HashTypes(0);

    /// All types.
    pub const ALL: HashTypes = HashTypes(0x1_ff00);

    /// Addresses only, for all protocols.
    pub const TWO_TUPLE: HashTypes = HashTypes(0x500);

    /// Addresses and ports of TCP; only the addresses of all other protocols, including UDP. This is the default of
    /// Linux and FreeBSD drivers, so that the fragments of a UDP flow reach the same queue as its unfragmented
    /// datagrams ("Receive Side Scaling: figuring out how to handle IP fragments").
    pub const DRIVER_DEFAULT: HashTypes = HashTypes(0x1700);

    /// Addresses and ports of TCP and UDP, only the addresses of all other protocols; always the addresses of the IP
    /// header.
    pub const FOUR_TUPLE: HashTypes = HashTypes(0xd700);

    /// The types that hash these fields of every TCP and UDP packet, and the addresses of the rest.
    #[must_use]
    pub fn of_fields(fields: HashFields) -> HashTypes {
        match fields {
            HashFields::TwoTuple => HashTypes::TWO_TUPLE,
            HashFields::FourTuple => HashTypes::FOUR_TUPLE,
        }
    }

    /// These types plus one.
    #[must_use]
    pub fn with(self, hash_type: HashType) -> HashTypes {
        HashTypes(self.0 | hash_type.ndis())
    }

    /// These types without one.
    #[must_use]
    pub fn without(self, hash_type: HashType) -> HashTypes {
        HashTypes(self.0 & !hash_type.ndis())
    }

    /// Whether this type is enabled.
    #[must_use]
    #[inline]
    pub fn contains(self, hash_type: HashType) -> bool {
        self.0 & hash_type.ndis() != 0
    }

    /// The types, in the order of their NDIS values.
    pub fn iter(self) -> impl Iterator<Item = HashType> {
        (0..u32::BITS).filter_map(move |bit| HashType::from_ndis(self.0 & 1 << bit))
    }
}

/// Formats as the type names, separated by commas, or `none`.
impl fmt::Display for HashTypes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(HashType::name).collect();
        match names[..] {
            [] => formatter.pad("none"),
            _ => formatter.pad(&names.join(",")),
        }
    }
}

impl FromStr for HashTypes {
    type Err = InputError;

    fn from_str(text: &str) -> Result<HashTypes, InputError> {
        match text {
            "none" => Ok(HashTypes::NONE),
            names => names.split(',').map(str::parse).collect(),
        }
    }
}

/// As text, such as `IPV4,TCP_IPV4`.
impl Serialize for HashTypes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HashTypes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HashTypes, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

impl FromIterator<HashType> for HashTypes {
    fn from_iter<T: IntoIterator<Item = HashType>>(types: T) -> HashTypes {
        types.into_iter().fold(HashTypes::NONE, HashTypes::with)
    }
}

/// The bytes that a device hashes of a packet, and the type of the hash.
#[derive(Clone, Copy, Debug)]
pub struct RssInput<'frame> {
    bytes: Bytes<'frame>,
    hash_type: HashType,
}

/// Location of the bytes. Addresses and ports are adjacent in most packets, so the hash input can be borrowed from the
/// frame.
#[derive(Clone, Copy, Debug)]
enum Bytes<'frame> {
    InFrame(&'frame [u8]),
    Assembled([u8; HashInput::LONGEST], u8),
}

impl<'frame> RssInput<'frame> {
    /// Addresses and, for a 4-tuple, ports, in network order, source first: 8, 12, 32 or 36 bytes.
    #[must_use]
    #[inline(always)]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::InFrame(bytes) => bytes,
            Bytes::Assembled(bytes, length) => &bytes[..usize::from(*length)],
        }
    }

    /// The type of the hash.
    #[must_use]
    #[inline]
    pub fn hash_type(&self) -> HashType {
        self.hash_type
    }

    /// The hash under a key.
    #[must_use]
    #[inline(always)]
    pub fn hash(&self, toeplitz: &Toeplitz) -> Hash {
        Hash {
            value: toeplitz.hash_input(self.as_bytes()),
            hash_type: self.hash_type,
        }
    }

    /// The input with both ends of the flow mixed.
    #[must_use]
    pub fn mixed(self, transform: Transform) -> RssInput<'frame> {
        if transform == Transform::Plain {
            return self;
        }
        let bytes = self.as_bytes();
        let bytes = Bytes::Assembled(transform.of_input(bytes), bytes.len() as u8);
        RssInput { bytes, ..self }
    }

    /// Concatenates `parts`; at most the length of an IPv6 4-tuple.
    fn assembled(parts: &[&[u8]], hash_type: HashType) -> RssInput<'frame> {
        let mut bytes = [0; HashInput::LONGEST];
        let mut length = 0;
        for part in parts {
            bytes[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        }
        let bytes = Bytes::Assembled(bytes, length as u8);
        RssInput { bytes, hash_type }
    }
}

impl PartialEq for RssInput<'_> {
    fn eq(&self, other: &RssInput<'_>) -> bool {
        (self.as_bytes(), self.hash_type) == (other.as_bytes(), other.hash_type)
    }
}

impl Eq for RssInput<'_> {}

impl<'frame> Dissection<'frame> {
    /// The hash input of this packet for the `enabled` types; `None` if none of them applies.
    ///
    /// The rule is Microsoft's ("RSS Hashing Types") in the order that virtio gives it ("Virtual I/O Device", "Hash
    /// calculation for incoming packets"): ports of TCP and UDP if their type is enabled, otherwise addresses. Packets
    /// with extension headers try all types ending in `_EX` first. Packets without them try these types last, with the
    /// addresses of the IP header. Fragments hash as a 2-tuple, including the first one and, over IPv6, one that is a whole
    /// datagram ([`is_fragment`](Self::is_fragment)). So do packets with an authentication header, because devices that distinguish it (mlx5's flow types) do not parse beyond it. NDIS has
    /// no type with ports for SCTP.
    #[must_use]
    #[inline(always)]
    pub fn rss_input(&self, enabled: HashTypes) -> Option<RssInput<'frame>> {
        match self.rss_input_in_place(enabled) {
            Some((hash_type, bytes)) => Some(RssInput {
                bytes: Bytes::InFrame(bytes),
                hash_type,
            }),
            None => { *self }.any_input(enabled),
        }
    }

    /// The type and bytes of the [input](Self::rss_input) of a plain packet, in registers: who hashes many packets together
    /// looks at this first. `None`: of any other packet, or if no type applies.
    #[must_use]
    #[inline(always)]
    pub fn rss_input_in_place(&self, enabled: HashTypes) -> Option<(HashType, &'frame [u8])> {
        if !self.has(Marks::PLAIN) {
            return None;
        }
        let (four, two) = match (self.has(Marks::V6), self.protocol()) {
            (false, IpProtocol::TCP) => (HashType::TCP_IPV4, HashType::IPV4),
            (false, _) => (HashType::UDP_IPV4, HashType::IPV4),
            (true, IpProtocol::TCP) => (HashType::TCP_IPV6, HashType::IPV6),
            (true, _) => (HashType::UDP_IPV6, HashType::IPV6),
        };
        let (at, length) = self.addresses_span();
        let (hash_type, length) = match enabled.contains(four) {
            true => (four, length + PORTS),
            false if enabled.contains(two) => (two, length),
            false => return None,
        };
        Some((hash_type, self.frame().get(at..at + length)?))
    }

    /// The input this packet would have if it were not fragmented. For a later fragment, which has no ports, the actual
    /// input.
    pub(crate) fn rss_input_if_whole(&self, enabled: HashTypes) -> Option<RssInput<'frame>> {
        self.input_of_type(self.hash_type(enabled, true)?)
    }

    /// The input of any packet.
    fn any_input(&self, enabled: HashTypes) -> Option<RssInput<'frame>> {
        self.input_of_type(self.hash_type(enabled, !self.is_fragment())?)
    }

    fn input_of_type(&self, hash_type: HashType) -> Option<RssInput<'frame>> {
        let ports = match hash_type.fields() {
            HashFields::TwoTuple => 0,
            HashFields::FourTuple => PORTS,
        };
        let (at, length) = self.addresses_span();
        let contiguous = ports == 0 || self.transport_offset() == at + length;
        if !contiguous || uses_extensions(hash_type) {
            return self.assembled_input(hash_type, ports);
        }
        let bytes = Bytes::InFrame(self.frame().get(at..at + length + ports)?);
        Some(RssInput { bytes, hash_type })
    }

    /// The input of a packet whose addresses and ports are not adjacent or are in extension headers.
    fn assembled_input(&self, hash_type: HashType, ports: usize) -> Option<RssInput<'frame>> {
        let ports = self.frame().get(self.transport_offset()..)?.get(..ports)?;
        Some(match self.addresses() {
            Addresses::V6(both) if uses_extensions(hash_type) => {
                let [source, destination] = both.map(Ipv6Addr::from);
                let source = self.home_address().unwrap_or(source).octets();
                let destination = self.routed_destination().unwrap_or(destination).octets();
                RssInput::assembled(&[&source, &destination, ports], hash_type)
            }
            Addresses::V6(both) => RssInput::assembled(&[both.as_flattened(), ports], hash_type),
            Addresses::V4(both) => RssInput::assembled(&[both.as_flattened(), ports], hash_type),
        })
    }

    /// The tuple of the packet from its IP header, with ports, or zeros if it has none. It identifies the flow
    /// independently of the hashed fields.
    #[must_use]
    pub fn tuple(&self) -> Tuple {
        let (source, destination) = self
            .ports()
            .map_or((0, 0), |ports| (ports.source, ports.destination));
        match self.addresses() {
            Addresses::V4(&[from, to]) => Tuple::V4 {
                source: SocketAddrV4::new(from.into(), source),
                destination: SocketAddrV4::new(to.into(), destination),
            },
            Addresses::V6(both) => {
                let [from, to] = both.map(Ipv6Addr::from);
                Tuple::V6 {
                    source: SocketAddrV6::new(from, source, 0, 0),
                    destination: SocketAddrV6::new(to, destination, 0, 0),
                }
            }
        }
    }

    /// The type of the hash; ports are hashed only if the packet is `whole`.
    fn hash_type(&self, enabled: HashTypes, whole: bool) -> Option<HashType> {
        use HashType as T;
        let transport = match whole && !self.is_authenticated() {
            true => self.transport(),
            false => TransportHeader::Other,
        };
        let extended = self.has_extension_headers();
        let candidates: &[T] = match (self.has(Marks::V6), transport) {
            (false, TransportHeader::Tcp(_)) => &[T::TCP_IPV4, T::IPV4],
            (false, TransportHeader::Udp(_)) => &[T::UDP_IPV4, T::IPV4],
            (false, _) => &[T::IPV4],
            (true, TransportHeader::Tcp(_)) if extended => {
                &[T::TCP_IPV6_EX, T::IPV6_EX, T::TCP_IPV6, T::IPV6]
            }
            (true, TransportHeader::Tcp(_)) => &[T::TCP_IPV6, T::IPV6, T::TCP_IPV6_EX, T::IPV6_EX],
            (true, TransportHeader::Udp(_)) if extended => {
                &[T::UDP_IPV6_EX, T::IPV6_EX, T::UDP_IPV6, T::IPV6]
            }
            (true, TransportHeader::Udp(_)) => &[T::UDP_IPV6, T::IPV6, T::UDP_IPV6_EX, T::IPV6_EX],
            (true, _) if extended => &[T::IPV6_EX, T::IPV6],
            (true, _) => &[T::IPV6, T::IPV6_EX],
        };
        let mut candidates = candidates.iter().copied();
        candidates.find(|hash_type| enabled.contains(*hash_type))
    }
}

/// Whether hashes of this type use the addresses of extension headers.
fn uses_extensions(hash_type: HashType) -> bool {
    matches!(
        hash_type,
        HashType::IPV6_EX | HashType::TCP_IPV6_EX | HashType::UDP_IPV6_EX
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TCP and UDP packets over IPv4 and IPv6, without options.
    fn plain_packets() -> [Vec<u8>; 4] {
        let packet = |head: &[u8], length: usize| {
            let mut packet = head.to_vec();
            packet.extend((head.len()..length).map(|byte| byte as u8));
            packet
        };
        [
            packet(&[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6], 40),
            packet(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17], 28),
            packet(&[0x60, 0, 0, 0, 0, 20, 6, 64], 60),
            packet(&[0x60, 0, 0, 0, 0, 8, 17, 64], 48),
        ]
    }

    #[test]
    fn the_short_way_takes_what_the_long_way_does_under_every_policy() {
        for packet in plain_packets() {
            let dissection = Dissection::of_packet(&packet).unwrap();
            assert!(dissection.has(Marks::PLAIN));
            for types in 0..512_u32 {
                let enabled = HashTypes(types << 8);
                let found = dissection.rss_input(enabled);
                assert_eq!(found, dissection.any_input(enabled), "{enabled}");
            }
        }
    }

    #[test]
    fn policies_are_the_types_that_they_name() {
        let rows = [
            (HashTypes::NONE, "none"),
            (HashTypes::TWO_TUPLE, "IPV4,IPV6"),
            (HashTypes::DRIVER_DEFAULT, "IPV4,TCP_IPV4,IPV6,TCP_IPV6"),
            (
                HashTypes::FOUR_TUPLE,
                "IPV4,TCP_IPV4,IPV6,TCP_IPV6,UDP_IPV4,UDP_IPV6",
            ),
        ];
        for (types, names) in rows {
            assert_eq!(types.to_string(), names);
            assert_eq!(names.parse(), Ok(types));
        }
        assert_eq!(HashTypes::ALL.iter().count(), 9);
        assert_eq!(HashTypes::ALL.iter().collect::<HashTypes>(), HashTypes::ALL);
        assert!("IPV4,SCTP".parse::<HashTypes>().is_err());
    }
}
