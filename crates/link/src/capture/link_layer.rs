//! Link layers of captures: which frames begin with an IP packet, and the Ethernet header that they get.

use crate::burst::FrameTime;
use pcap_file::DataLink;
use std::ops::Range;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Bytes before a record, for an Ethernet header.
pub(super) const ROOM: usize = 48;

/// The addresses of Ethernet headers for frames that had none: destination, then source.
const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// Hardware types (Linux, `if_arp.h`) whose protocol field is no EtherType (tcpdump.org, LINKTYPE_LINUX_SLL): frame relay,
/// GRE, 802.11 with radiotap, netlink.
const NO_ETHER_TYPE: [u16; 4] = [770, 778, 803, 824];

/// A frame in the buffer of the reader. Before its bytes there is room for an Ethernet header.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) layer: LinkLayer,
    pub(super) bytes: Range<usize>,
    /// Bytes on the wire.
    pub(super) wire_length: u32,
    pub(super) time: FrameTime,
    pub(super) hash: Option<u32>,
    pub(super) queue: Option<u16>,
}

/// The number of a link layer (tcpdump.org, "Link-Layer Header Types").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkLayer(pub(super) u16);

impl LinkLayer {
    /// The name of the link layer without its prefix, such as `LINUX_SLL`.
    pub(super) fn name(self) -> String {
        match DataLink::from(u32::from(self.0)) {
            DataLink::Unknown(number) => number.to_string(),
            known => format!("{known:?}"),
        }
    }

    /// Whether frames of this layer can be read.
    pub(super) fn is_known(self) -> bool {
        matches!(self.0, 0 | 1 | 12 | 14 | 101 | 108 | 113 | 228 | 229 | 276)
    }

    /// Length of the header before the packet, EtherType, and source address if it is one of Ethernet; `None` if the frame
    /// has no EtherType, or was captured without its header.
    fn header(self, frame: &[u8]) -> Option<(usize, u16, Option<[u8; 6]>)> {
        let number = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        // The length of the address precedes it.
        let sender = |length_at: usize, at: usize| {
            let address = *frame.get(at..)?.first_chunk()?;
            (frame[length_at] == 6).then_some(address)
        };
        let family = || frame.first_chunk::<4>().copied();
        match self.0 {
            // NULL: the address family in the byte order of the host that captured; below 65,536, so the order shows.
            0 => {
                let bytes = family()?;
                let family = u32::from_le_bytes(bytes).min(u32::from_be_bytes(bytes));
                Some((4, of_family(family)?, None))
            }
            // LOOP, the same in network byte order.
            108 => Some((4, of_family(u32::from_be_bytes(family()?))?, None)),
            12 | 14 | 101 => match frame.first()? >> 4 {
                4 => Some((0, IPV4, None)),
                6 => Some((0, IPV6, None)),
                _ => None,
            },
            228 => Some((0, IPV4, None)),
            229 => Some((0, IPV6, None)),
            // LINUX_SLL: packet type, hardware type, length of the address, address (8 bytes), protocol.
            113 => Some((16, ether_type(number(2)?, number(14)?)?, sender(5, 6))),
            // LINUX_SLL2: protocol, reserved, interface (4 bytes), hardware type, packet type, length of the address, address.
            276 => {
                let protocol = ether_type(number(8)?, number(0)?)?;
                (frame.len() >= 20).then_some((20, protocol, sender(11, 12)))
            }
            _ => None,
        }
    }
}

impl Record {
    /// Makes the record an Ethernet frame: replaces the header of another link layer. Returns false if it is no frame with an
    /// EtherType.
    pub(super) fn make_ethernet(&mut self, buffer: &mut [u8]) -> bool {
        if self.layer.0 == 1 {
            return true;
        }
        let Some((header, ether_type, sender)) = self.layer.header(&buffer[self.bytes.clone()]) else {
            return false;
        };
        let payload = self.bytes.start + header;
        let start = payload - ETHERNET;
        let (addresses, kind) = buffer[start..payload].split_at_mut(ADDRESSES.len());
        addresses.copy_from_slice(&ADDRESSES);
        if let Some(sender) = sender {
            addresses[6..].copy_from_slice(&sender);
        }
        kind.copy_from_slice(&ether_type.to_be_bytes());
        self.bytes.start = start;
        let packet = self.wire_length.saturating_sub(header as u32);
        self.wire_length = packet.saturating_add(ETHERNET as u32);
        true
    }
}

/// The address families of BSD systems, macOS, Linux and Solaris (tcpdump.org, LINKTYPE_NULL).
fn of_family(family: u32) -> Option<u16> {
    match family {
        2 => Some(IPV4),
        10 | 24 | 28 | 30 => Some(IPV6),
        _ => None,
    }
}

/// The protocol of a cooked header. Numbers below 1,536 are frames of IEEE 802.2 and others without EtherType.
fn ether_type(hardware: u16, protocol: u16) -> Option<u16> {
    (protocol >= 1536 && !NO_ETHER_TYPE.contains(&hardware)).then_some(protocol)
}
