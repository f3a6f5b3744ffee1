//! Fast path for the most common packets: IPv4 without options or IPv6 without extension headers, with a sufficiently
//! complete TCP or UDP header. A few comparisons at fixed offsets detect them and yield all that parsing the headers
//! would find. All other packets are parsed header by header.

use crate::bytes::array;
use crate::layout::{
    FURTHEST, Headers, IPV4_HEADER, IPV6_HEADER, Layout, Marks, PORTS, TCP_HEADER, UDP_HEADER,
};
use crate::protocol::IpProtocol;

/// Bytes of the IP header and the ports after it.
const V4_WITH_PORTS: usize = IPV4_HEADER + PORTS;
const V6_WITH_PORTS: usize = IPV6_HEADER + PORTS;

/// The layout of a plain IPv4 packet whose header starts at `at`.
#[inline(always)]
pub(crate) fn v4(frame: &[u8], at: usize) -> Option<Layout> {
    let head: [u8; V4_WITH_PORTS] = array(frame, at)?;
    let whole = (head[6] & 0x3f) | head[7] == 0;
    let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
    // Version 4 and five words of header.
    let plain = head[0] == 0x45 && whole;
    layout(
        at,
        IPV4_HEADER,
        total.checked_sub(IPV4_HEADER)?,
        head[9],
        Marks::NONE,
    )
    .filter(|_| plain)
}

/// The layout of a plain IPv6 packet whose header starts at `at`.
#[inline(always)]
pub(crate) fn v6(frame: &[u8], at: usize) -> Option<Layout> {
    let head: [u8; V6_WITH_PORTS] = array(frame, at)?;
    let payload = usize::from(u16::from_be_bytes([head[4], head[5]]));
    layout(at, IPV6_HEADER, payload, head[6], Marks::V6).filter(|_| head[0] >> 4 == 6)
}

/// The layout of a packet with this header, followed by this many bytes of TCP or UDP.
#[inline(always)]
fn layout(at: usize, header: usize, payload: usize, protocol: u8, version: Marks) -> Option<Layout> {
    let protocol = IpProtocol(protocol);
    let needed = match protocol {
        IpProtocol::TCP => TCP_HEADER,
        IpProtocol::UDP => UDP_HEADER,
        _ => return None,
    };
    let headers = Headers {
        network: at,
        upper: at + header,
        end: at + header + payload,
        protocol,
        marks: version.with(Marks::PLAIN),
        ..Headers::default()
    };
    (payload >= needed && headers.upper <= FURTHEST).then(|| headers.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ipv4, ipv6};
    use proptest::prelude::*;

    /// The layout without the mark of a plain packet.
    fn described(layout: Layout) -> (usize, usize, usize, IpProtocol, [bool; 7], [Option<usize>; 3]) {
        let marks = [
            Marks::V6,
            Marks::PART,
            Marks::LATER,
            Marks::EXTENDED,
            Marks::AUTHENTICATED,
            Marks::UNDER_WAY,
            Marks::CUT,
        ];
        (
            layout.network(),
            layout.upper(),
            layout.end(),
            layout.protocol(),
            marks.map(|mark| layout.has(mark)),
            [layout.fragment(), layout.home(), layout.routed()],
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn a_plain_packet_is_what_the_walk_finds(
            mut frame in proptest::collection::vec(any::<u8>(), 0..90),
            before in 0_usize..20,
            header in prop_oneof![
                Just(vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6]),
                Just(vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17]),
                Just(vec![0x60, 0, 0, 0, 0, 20, 6, 64]),
                Just(vec![0x60, 0, 0, 0, 0, 8, 17, 64]),
            ],
            change in proptest::option::of((0_usize..10, any::<u8>())),
        ) {
            for (to, from) in frame.iter_mut().skip(before).zip(&header) {
                *to = *from;
            }
            if let Some((at, value)) = change && let Some(byte) = frame.get_mut(before + at) {
                *byte = value;
            }
            for (plain, walked) in [
                (v4(&frame, before), ipv4::walked(&frame, before)),
                (v6(&frame, before), ipv6::walked(&frame, before)),
            ] {
                if let Some(plain) = plain {
                    prop_assert_eq!(walked.map(described), Ok(described(plain)));
                }
            }
        }
    }

    #[test]
    fn the_shape_of_most_packets_is_plain_and_no_other() {
        let mut tcp = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6];
        tcp.resize(40, 0);
        assert!(v4(&tcp, 0).is_some());
        assert!(v4(&tcp[..24], 0).is_some(), "the ports were captured");
        assert!(v4(&tcp[..23], 0).is_none());
        for (at, value) in [(0, 0x46), (3, 39), (6, 0x20), (7, 1), (9, 132)] {
            let mut other = tcp.clone();
            other[at] = value;
            assert!(v4(&other, 0).is_none(), "byte {at} as {value}");
        }
    }
}
