//! Dissection agrees with `etherparse`, whatever the frame contains.

use crate::common::built::{self, Shape};
use corelane_packet::{Dissection, Fragment, Ports, TransportHeader, ethernet};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use std::net::IpAddr;

/// The facts about a frame that both report.
#[derive(Debug, PartialEq)]
struct Facts {
    tags: Vec<u16>,
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    /// Of a fragment: offset in bytes, and whether more fragments follow.
    part: Option<(u16, bool)>,
    authenticated: bool,
    /// The bytes after the IP headers, without padding.
    payload: Vec<u8>,
    /// Only of unfragmented datagrams.
    ports: Option<(u16, u16)>,
}

fn ours(frame: &[u8]) -> Option<Facts> {
    let dissection = Dissection::of(frame).ok()?;
    let part = match dissection.fragment() {
        Fragment::Part(part) => Some((part.offset, part.more)),
        Fragment::Whole | Fragment::Atomic { .. } => None,
    };
    let ports = match dissection.transport() {
        TransportHeader::Tcp(ports) | TransportHeader::Udp(ports) if part.is_none() => Some(ports),
        _ => None,
    };
    Some(Facts {
        tags: ethernet::vlan_ids(frame).collect(),
        source: dissection.source(),
        destination: dissection.destination(),
        protocol: dissection.protocol().0,
        part,
        authenticated: dissection.is_authenticated(),
        payload: frame[dissection.transport_offset()..dissection.packet_end()].to_vec(),
        ports: ports.map(|Ports { source, destination }| (source, destination)),
    })
}

fn theirs(frame: &[u8]) -> Option<Facts> {
    let sliced = SlicedPacket::from_ethernet(frame).ok()?;
    let ports = match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => Some((tcp.source_port(), tcp.destination_port())),
        Some(TransportSlice::Udp(udp)) => Some((udp.source_port(), udp.destination_port())),
        _ => None,
    };
    let tags = sliced.vlan_ids().iter().map(|id| id.value()).collect();
    match sliced.net? {
        NetSlice::Ipv4(ipv4) => {
            let header = ipv4.header();
            let part = ipv4.is_payload_fragmented();
            Some(Facts {
                tags,
                source: header.source_addr().into(),
                destination: header.destination_addr().into(),
                protocol: ipv4.payload().ip_number.0,
                part: part.then(|| (header.fragments_offset().value() * 8, header.more_fragments())),
                authenticated: ipv4.extensions().auth.is_some(),
                payload: ipv4.payload().payload.to_vec(),
                ports,
            })
        }
        NetSlice::Ipv6(ipv6) => {
            let (headers, ..) = etherparse::Ipv6Extensions::from_slice(
                ipv6.header().next_header(),
                ipv6.extensions().slice(),
            )
            .ok()?;
            let fragment = headers.fragment.filter(|header| header.is_fragmenting_payload());
            Some(Facts {
                tags,
                source: ipv6.header().source_addr().into(),
                destination: ipv6.header().destination_addr().into(),
                protocol: ipv6.payload().ip_number.0,
                part: fragment.map(|header| (header.fragment_offset.value() * 8, header.more_fragments)),
                authenticated: headers.auth.is_some(),
                payload: ipv6.payload().payload.to_vec(),
                ports,
            })
        }
        NetSlice::Arp(_) => None,
    }
}

/// Whether both can be compared: `etherparse` parses headers after a fragment header even in later fragments, where
/// they are data.
fn comparable(shape: &Shape) -> bool {
    let later = shape.fragment.is_some_and(|(offset, ..)| offset > 0);
    let behind_fragment_header = shape.extensions.routing && shape.extensions.final_destination_options;
    !(later && (shape.authenticated || (behind_fragment_header && shape.ends.source.is_ipv6())))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn both_say_the_same_of_every_shape_of_frame(shape in built::shape(), padding in 0_usize..20) {
        prop_assume!(comparable(&shape));
        let mut frame = shape.frame();
        frame.resize(frame.len() + padding, 0);
        let expected = theirs(&frame).expect("etherparse reads what it wrote");
        prop_assert_eq!(ours(&frame), Some(expected));
    }

    #[test]
    fn both_refuse_frames_cut_in_their_ip_header(shape in built::shape(), length in 0_usize..34) {
        let frame = &shape.frame()[..length];
        prop_assert_eq!(ours(frame), None);
        prop_assert_eq!(theirs(frame), None);
    }
}
