//! Socket addresses and control messages in the kernel's byte representation, written without casts.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Size of the largest address used here, `sockaddr_in6`.
pub(crate) const ADDRESS_BYTES: usize = size_of::<libc::sockaddr_in6>();

/// Size of the header of a control message, `struct cmsghdr`: a length, a level and a type.
const CONTROL_HEADER_BYTES: usize = size_of::<libc::cmsghdr>();

/// Room for one control message that holds an `int`: the segment size of `UDP_SEGMENT` or `UDP_GRO`.
pub(crate) const CONTROL_BYTES: usize = (CONTROL_HEADER_BYTES + 4).next_multiple_of(size_of::<usize>());

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

/// Room for one control message.
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

    pub(crate) fn read_segment(&self, used: usize) -> Option<u32> {
        read_segment(&self.0[..used.min(CONTROL_BYTES)])
    }
}

/// The segment size that `UDP_GRO` reports for a payload of several merged datagrams; none for a single one.
pub(crate) fn read_segment(control: &[u8]) -> Option<u32> {
    let level_at = size_of::<usize>();
    let level = i32::from_ne_bytes(array(control, level_at)?);
    let kind = i32::from_ne_bytes(array(control, level_at + 4)?);
    let segment = i32::from_ne_bytes(array(control, CONTROL_HEADER_BYTES)?);
    (level == libc::SOL_UDP && kind == libc::UDP_GRO)
        .then(|| u32::try_from(segment).ok())
        .flatten()
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
    fn an_empty_control_message_names_no_segment() {
        assert_eq!(RawControl::EMPTY.read_segment(CONTROL_BYTES), None);
        assert_eq!(RawControl::EMPTY.read_segment(0), None);
    }

    #[test]
    fn an_unknown_family_is_no_address() {
        assert_eq!(RawAddress::EMPTY.read(), None);
    }
}
