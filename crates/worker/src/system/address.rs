//! Socket addresses and control messages in the kernel's byte representation, written without casts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Size of the largest address used here, `sockaddr_in6`.
pub(crate) const ADDRESS_BYTES: usize = size_of::<libc::sockaddr_in6>();

/// Size of the header of a control message, `struct cmsghdr`: a length, a level and a type.
const CONTROL_HEADER_BYTES: usize = size_of::<libc::cmsghdr>();

/// Room for one control message that holds an `int`: the segment size of `UDP_SEGMENT` or `UDP_GRO`.
pub(crate) const SEGMENT_BYTES: usize = (CONTROL_HEADER_BYTES + 4).next_multiple_of(size_of::<usize>());

/// Room for a `struct in6_pktinfo`, the larger of the two destinations.
pub(crate) const DESTINATION_BYTES: usize =
    (CONTROL_HEADER_BYTES + size_of::<libc::in6_pktinfo>()).next_multiple_of(size_of::<usize>());

/// `IPV6_2292PKTINFO` of `linux/in6.h`: an option and a message like `IPV6_PKTINFO`, for IPv6 datagrams alone. A socket of
/// both families that sets it beside `IP_PKTINFO` has one message per datagram.
pub(crate) const IPV6_PKTINFO_OF_IPV6: i32 = 2;

/// Room for all control messages of a datagram.
const CONTROL_BYTES: usize = SEGMENT_BYTES + DESTINATION_BYTES;

/// The address to bind for packets to `to`: a link-local one is that of the same device, if it names none.
#[must_use]
pub fn on_device_of(to: SocketAddr, local: SocketAddr) -> SocketAddr {
    match (local, to) {
        (SocketAddr::V6(local), SocketAddr::V6(to))
            if local.scope_id() == 0 && local.ip().is_unicast_link_local() =>
        {
            SocketAddrV6::new(*local.ip(), local.port(), 0, to.scope_id()).into()
        }
        _ => local,
    }
}

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

    /// Writes what a send needs beside address and payload; returns the number of bytes used, without the padding of
    /// the last message: up to 36 bytes, one source of either family, the kernel copies without allocating memory
    /// (`____sys_sendmsg` in `net/socket.c`).
    ///
    /// `segment`: the kernel splits the payload into datagrams of that many bytes; the last may be shorter. `source`:
    /// the address that they leave from, which must be one of this machine; its port is ignored. A socket of both
    /// families sends to IPv4 from an IPv4 address.
    pub(crate) fn write(&mut self, segment: Option<u16>, source: Option<SocketAddr>) -> usize {
        let mut used = 0;
        if let Some(segment) = segment {
            used = self.append(used, libc::SOL_UDP, libc::UDP_SEGMENT, segment.to_ne_bytes());
        }
        let Some(source) = source else { return used };
        match (source.ip().to_canonical(), source) {
            // `struct in_pktinfo`: any interface, the source, and a destination that only receiving uses.
            (IpAddr::V4(ip), _) => {
                let mut value = [0; 12];
                value[4..8].copy_from_slice(&ip.octets());
                self.append(used, libc::IPPROTO_IP, libc::IP_PKTINFO, value)
            }
            (IpAddr::V6(ip), SocketAddr::V6(source)) => {
                let mut value = [0; 20];
                value[..16].copy_from_slice(&ip.octets());
                value[16..].copy_from_slice(&source.scope_id().to_ne_bytes());
                self.append(used, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, value)
            }
            (IpAddr::V6(_), SocketAddr::V4(_)) => used,
        }
    }

    /// Writes a message after those that end at `used`; returns its end.
    fn append<const LENGTH: usize>(
        &mut self,
        used: usize,
        level: i32,
        kind: i32,
        value: [u8; LENGTH],
    ) -> usize {
        let start = used.next_multiple_of(size_of::<usize>());
        let (level_at, length) = (size_of::<usize>(), CONTROL_HEADER_BYTES + LENGTH);
        let message = &mut self.0[start..start + length];
        message[..level_at].copy_from_slice(&length.to_ne_bytes());
        message[level_at..level_at + 4].copy_from_slice(&level.to_ne_bytes());
        message[level_at + 4..level_at + 8].copy_from_slice(&kind.to_ne_bytes());
        message[CONTROL_HEADER_BYTES..].copy_from_slice(&value);
        start + length
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
    /// The destination, with port 0 (`IP_PKTINFO`, `IPV6_PKTINFO`); of an IPv4 datagram always the IPv4 address. Only
    /// link-local addresses have a scope.
    pub(crate) destination: Option<SocketAddr>,
    /// The destination was a broadcast or multicast address.
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
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let destination = array::<4>(value, 8)?;
                self.broadcast |= array(value, 4)? != destination;
                self.destination = Some((destination, 0).into());
            }
            // `IPV6_PKTINFO` of a socket of both families reports IPv4, too, but not whether it was a broadcast.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO | IPV6_PKTINFO_OF_IPV6) => {
                let destination = Ipv6Addr::from(array::<16>(value, 0)?);
                let interface = u32::from_ne_bytes(array(value, 16)?);
                self.broadcast |= destination.to_canonical().is_multicast();
                self.destination.get_or_insert(match destination.to_canonical() {
                    IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                        SocketAddrV6::new(ip, 0, 0, interface).into()
                    }
                    ip => SocketAddr::new(ip, 0),
                });
            }
            _ => {}
        }
        Some(length.next_multiple_of(size_of::<usize>()))
    }
}

/// The `LENGTH` bytes from `at` on; `None` if there are fewer.
pub(crate) fn array<const LENGTH: usize>(bytes: &[u8], at: usize) -> Option<[u8; LENGTH]> {
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
    fn only_a_link_local_source_without_a_device_takes_that_of_its_peer() {
        for (local, to, bound) in [
            ("[fe80::1]:7", "[fe80::2%3]:80", "[fe80::1%3]:7"),
            ("[fe80::1%4]:7", "[fe80::2%3]:80", "[fe80::1%4]:7"),
            ("[2001:db8::1]:7", "[fe80::2%3]:80", "[2001:db8::1]:7"),
            ("10.0.0.1:7", "10.0.0.2:80", "10.0.0.1:7"),
        ] {
            let [local, to, bound] = [local, to, bound].map(|address| address.parse().unwrap());
            assert_eq!(on_device_of(to, local), bound);
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
            let value = [&[1, 0, 0, 0], &local[..], &to].concat();
            message(libc::IPPROTO_IP, libc::IP_PKTINFO, &value)
        };
        let v6 = |to: &str| {
            let to: Ipv6Addr = to.parse().unwrap();
            let value = [&to.octets()[..], &7_u32.to_ne_bytes()].concat();
            message(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &value)
        };
        let broadcast = v4([10, 0, 0, 1], [10, 0, 0, 255]);
        let both = [v6("::ffff:10.0.0.255"), broadcast.clone()].concat();
        let cases = [
            (merged.clone(), 1_400, None, false),
            (
                [merged.clone(), broadcast].concat(),
                1_400,
                Some("10.0.0.255:0"),
                true,
            ),
            (
                [v4([10, 0, 0, 1], [10, 0, 0, 1]), merged].concat(),
                1_400,
                Some("10.0.0.1:0"),
                false,
            ),
            (both, 0, Some("10.0.0.255:0"), true),
            (v6("ff02::1"), 0, Some("[ff02::1]:0"), true),
            (v6("fd00::1"), 0, Some("[fd00::1]:0"), false),
            (v6("fe80::1"), 0, Some("[fe80::1%7]:0"), false),
            (v6("::ffff:10.0.0.1"), 0, Some("10.0.0.1:0"), false),
        ];
        for (bytes, segment, destination, broadcast) in cases {
            let expected = Control {
                segment,
                destination: destination.map(|address| address.parse().unwrap()),
                broadcast,
            };
            assert_eq!(Control::read(&bytes), expected, "{bytes:?}");
        }
        assert_eq!(Control::read(&[0xff; 40]), Control::default());
    }

    #[test]
    fn a_source_fits_what_the_kernel_copies_without_allocating() {
        for (source, length) in [
            ("10.0.0.1:9", 28),
            ("[fe80::1%7]:9", 36),
            ("[::ffff:10.0.0.1]:9", 28),
        ] {
            let mut control = RawControl::EMPTY;
            let used = control.write(None, Some(source.parse().unwrap()));
            assert_eq!(used, length, "{source}");
        }
        let mut control = RawControl::EMPTY;
        assert_eq!(control.write(None, None), 0);
        let used = control.write(Some(1_400), Some("[fe80::1%7]:9".parse().unwrap()));
        let expected = [
            message(libc::SOL_UDP, libc::UDP_SEGMENT, &1_400_u16.to_ne_bytes()),
            message(
                libc::IPPROTO_IPV6,
                libc::IPV6_PKTINFO,
                &[
                    &"fe80::1".parse::<Ipv6Addr>().unwrap().octets()[..],
                    &7_u32.to_ne_bytes(),
                ]
                .concat(),
            ),
        ];
        assert_eq!(control.0[..used], expected.concat()[..used]);
    }

    #[test]
    fn an_unknown_family_is_no_address() {
        assert_eq!(RawAddress::EMPTY.read(), None);
    }
}
