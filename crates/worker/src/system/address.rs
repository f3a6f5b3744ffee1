//! Socket addresses and control messages in the kernel's byte representation, written without casts.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Size of the largest address used here, `sockaddr_in6`.
pub(crate) const ADDRESS_BYTES: usize = size_of::<libc::sockaddr_in6>();

/// Size of the header of a control message, `struct cmsghdr`: a length, a level and a type.
const CONTROL_HEADER_BYTES: usize = size_of::<libc::cmsghdr>();

/// Room for one control message that holds an `int`: the segment size of `UDP_SEGMENT` or `UDP_GRO`.
pub(crate) const SEGMENT_BYTES: usize = (CONTROL_HEADER_BYTES + 4).next_multiple_of(size_of::<usize>());

/// Room for a `struct in6_pktinfo`, the larger of the two destinations.
pub(crate) const DESTINATION_BYTES: usize =
    (CONTROL_HEADER_BYTES + size_of::<libc::in6_pktinfo>()).next_multiple_of(size_of::<usize>());

/// Room for all control messages of a datagram.
const CONTROL_BYTES: usize = SEGMENT_BYTES + DESTINATION_BYTES;

/// A `sockaddr_in` or `sockaddr_in6`.
#[repr(C, align(4))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawAddress([u8; ADDRESS_BYTES]);

impl RawAddress {
    pub(crate) const EMPTY: Self = Self([0; ADDRESS_BYTES]);

    /// Writes an address; returns its length in bytes. Family and scope are in host order, port and address in network
    /// order; the flow information is stored as `SocketAddrV6` returns it.
    pub(crate) fn write(&mut self, address: SocketAddr) -> usize {
        self.0[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(address) => {
                self.0[0..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                self.0[4..8].copy_from_slice(&address.ip().octets());
                self.0[8..16].fill(0);
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(address) => {
                self.0[0..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
                self.0[4..8].copy_from_slice(&address.flowinfo().to_ne_bytes());
                self.0[8..24].copy_from_slice(&address.ip().octets());
                self.0[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
                ADDRESS_BYTES
            }
        }
    }

    pub(crate) fn read(&self) -> Option<SocketAddr> {
        read_address(&self.0)
    }
}

/// Reads a `sockaddr_in` or `sockaddr_in6` of at most [`ADDRESS_BYTES`]; none for other families.
pub(crate) fn read_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(array(bytes, 0)?));
    let port = u16::from_be_bytes(array(bytes, 2)?);
    match family {
        libc::AF_INET => {
            let address = Ipv4Addr::from(array::<4>(bytes, 4)?);
            Some(SocketAddrV4::new(address, port).into())
        }
        libc::AF_INET6 => {
            let flow_information = u32::from_ne_bytes(array(bytes, 4)?);
            let address = Ipv6Addr::from(array::<16>(bytes, 8)?);
            let scope = u32::from_ne_bytes(array(bytes, 24)?);
            Some(SocketAddrV6::new(address, port, flow_information, scope).into())
        }
        _ => None,
    }
}

/// Room for the control messages of one datagram.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawControl([u8; CONTROL_BYTES]);

impl RawControl {
    pub(crate) const EMPTY: Self = Self([0; CONTROL_BYTES]);

    /// Writes `UDP_SEGMENT`: the kernel splits the payload into datagrams of `segment` bytes; the last may be shorter.
    /// Returns the number of bytes used.
    pub(crate) fn write_segment(&mut self, segment: u16) -> usize {
        let used = CONTROL_HEADER_BYTES + size_of::<u16>();
        let level_at = size_of::<usize>();
        self.0[..level_at].copy_from_slice(&used.to_ne_bytes());
        self.0[level_at..level_at + 4].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
        self.0[level_at + 4..level_at + 8].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
        self.0[CONTROL_HEADER_BYTES..used].copy_from_slice(&segment.to_ne_bytes());
        used.next_multiple_of(size_of::<usize>())
    }

    pub(crate) fn read(&self, used: usize) -> Control {
        Control::read(&self.0[..used.min(CONTROL_BYTES)])
    }
}

/// What the kernel reports beside a received payload.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Control {
    /// The segment size of a payload of several merged datagrams (`UDP_GRO`); 0 for a single one.
    pub(crate) segment: u32,
    /// The destination was a broadcast or multicast address (`IP_PKTINFO`, `IPV6_PKTINFO`).
    pub(crate) broadcast: bool,
}

impl Control {
    pub(crate) fn read(mut messages: &[u8]) -> Self {
        let mut control = Self::default();
        while let Some(length) = control.read_first(messages) {
            messages = messages.get(length..).unwrap_or_default();
        }
        control
    }

    /// Reads the first message; returns the distance to the next.
    fn read_first(&mut self, messages: &[u8]) -> Option<usize> {
        let level_at = size_of::<usize>();
        let length = usize::from_ne_bytes(array(messages, 0)?);
        let level = i32::from_ne_bytes(array(messages, level_at)?);
        let kind = i32::from_ne_bytes(array(messages, level_at + 4)?);
        let value = messages.get(CONTROL_HEADER_BYTES..length)?;
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => self.segment = u32::from_ne_bytes(array(value, 0)?),
            // `struct in_pktinfo`: interface, the local address for answers, destination. The two addresses differ
            // exactly if the destination is not a local address.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => self.broadcast = value.get(4..8)? != value.get(8..12)?,
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => self.broadcast = value.first() == Some(&0xff),
            _ => {}
        }
        Some(length.next_multiple_of(size_of::<usize>()))
    }
}

fn array<const LENGTH: usize>(bytes: &[u8], at: usize) -> Option<[u8; LENGTH]> {
    bytes.get(at..at + LENGTH)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_written_is_read_back(
            v6: bool, ip: u128, port: u16, flow in 0u32..=u32::MAX, scope: u32
        ) {
            let address: SocketAddr = if v6 {
                SocketAddrV6::new(ip.into(), port, flow, scope).into()
            } else {
                SocketAddrV4::new((ip as u32).into(), port).into()
            };
            let mut raw = RawAddress::EMPTY;
            raw.write(address);
            prop_assert_eq!(raw.read(), Some(address));
        }
    }

    #[test]
    fn an_empty_control_message_reports_nothing() {
        assert_eq!(RawControl::EMPTY.read(CONTROL_BYTES), Control::default());
        assert_eq!(RawControl::EMPTY.read(0), Control::default());
    }

    fn message(level: i32, kind: i32, value: &[u8]) -> Vec<u8> {
        let length = CONTROL_HEADER_BYTES + value.len();
        let mut bytes = [
            &length.to_ne_bytes()[..],
            &level.to_ne_bytes(),
            &kind.to_ne_bytes(),
            value,
        ]
        .concat();
        bytes.resize(length.next_multiple_of(size_of::<usize>()), 0);
        bytes
    }

    #[test]
    fn segment_and_destination_are_read_in_any_order_and_number() {
        let merged = message(libc::SOL_UDP, libc::UDP_GRO, &1_400_i32.to_ne_bytes());
        let v4 = |local: [u8; 4], to: [u8; 4]| {
            message(
                libc::IPPROTO_IP,
                libc::IP_PKTINFO,
                &[&[1, 0, 0, 0], &local[..], &to].concat(),
            )
        };
        let v6 = |first| {
            message(
                libc::IPPROTO_IPV6,
                libc::IPV6_PKTINFO,
                &[&[first; 16][..], &[1, 0, 0, 0]].concat(),
            )
        };
        let cases = [
            (merged.clone(), 1_400, false),
            (
                [merged.clone(), v4([10, 0, 0, 1], [10, 0, 0, 255])].concat(),
                1_400,
                true,
            ),
            ([v4([10, 0, 0, 1], [10, 0, 0, 1]), merged].concat(), 1_400, false),
            (v6(0xff), 0, true),
            (v6(0xfd), 0, false),
        ];
        for (bytes, segment, broadcast) in cases {
            assert_eq!(Control::read(&bytes), Control { segment, broadcast }, "{bytes:?}");
        }
        assert_eq!(Control::read(&[0xff; 40]), Control::default());
    }

    #[test]
    fn an_unknown_family_is_no_address() {
        assert_eq!(RawAddress::EMPTY.read(), None);
    }
}
