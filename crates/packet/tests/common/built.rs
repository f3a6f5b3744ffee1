//! Frames built by `etherparse` in every supported shape: an independent reference for dissection and edits.

use etherparse::{
    IpAuthHeader, IpFragOffset, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv4Options, Ipv6Extensions,
    Ipv6FragmentHeader, Ipv6Header, Ipv6RawExtHeader, Ipv6RoutingExtensions, PacketBuilder, VlanHeader,
    VlanId,
};
use proptest::prelude::*;
use std::net::IpAddr;

/// Everything in which built frames may differ.
#[derive(Clone, Debug)]
pub struct Shape {
    pub ends: Ends,
    pub transport: Transport,
    pub tags: Vec<u16>,
    /// Words of IPv4 options, at most 10.
    pub options: usize,
    pub extensions: Extensions,
    /// Offset in units of 8 bytes, whether more fragments follow, identification.
    pub fragment: Option<(u16, bool, u16)>,
    pub authenticated: bool,
    pub payload: Vec<u8>,
}

/// The addresses and ports of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub ports: [u16; 2],
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transport {
    Tcp,
    Udp,
    Icmp,
}

/// The IPv6 extension headers before the fragment and authentication headers.
#[derive(Clone, Copy, Debug)]
pub struct Extensions {
    pub hop_by_hop: bool,
    pub destination_options: bool,
    pub routing: bool,
    pub final_destination_options: bool,
}

pub fn ends(v6: bool) -> BoxedStrategy<Ends> {
    let address = if v6 {
        any::<[u8; 16]>().prop_map(IpAddr::from).boxed()
    } else {
        any::<[u8; 4]>().prop_map(IpAddr::from).boxed()
    };
    let ends = (address.clone(), address, any::<[u16; 2]>());
    ends.prop_map(|(source, destination, ports)| Ends {
        source,
        destination,
        ports,
    })
    .boxed()
}

pub fn shape() -> impl Strategy<Value = Shape> {
    let transport = prop_oneof![Just(Transport::Tcp), Just(Transport::Udp), Just(Transport::Icmp)];
    let extensions = any::<[bool; 4]>().prop_map(|[a, b, c, d]| Extensions {
        hop_by_hop: a,
        destination_options: b,
        routing: c,
        final_destination_options: d,
    });
    let fragment = proptest::option::weighted(
        0.3,
        (prop_oneof![Just(0), 0_u16..0x1fff], any::<bool>(), any::<u16>()),
    );
    let parts = (
        any::<bool>().prop_flat_map(ends),
        transport,
        proptest::collection::vec(0_u16..4096, 0..3),
        0_usize..=10,
        extensions,
        fragment,
        proptest::bool::weighted(0.2),
        proptest::collection::vec(any::<u8>(), 0..64),
    );
    parts.prop_map(
        |(ends, transport, tags, options, extensions, fragment, authenticated, payload)| Shape {
            ends,
            transport,
            tags,
            options,
            extensions,
            fragment,
            authenticated,
            payload,
        },
    )
}

impl Shape {
    /// The frame with every checksum that `etherparse` computes.
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]);
        let tags: Vec<VlanId> = self.tags.iter().map(|id| VlanId::try_new(*id).unwrap()).collect();
        let headers = self.headers();
        let ip = match tags[..] {
            [] => ethernet.ip(headers),
            [tag] => ethernet.single_vlan(tag).ip(headers),
            [outer, inner, ..] => ethernet.vlan(double(outer, inner)).ip(headers),
        };
        let [source, destination] = self.ends.ports;
        match self.transport {
            Transport::Tcp => ip
                .tcp(source, destination, 7, 1024)
                .write(&mut frame, &self.payload),
            Transport::Udp => ip.udp(source, destination).write(&mut frame, &self.payload),
            Transport::Icmp if self.ends.source.is_ipv6() => ip
                .icmpv6_echo_request(source, destination)
                .write(&mut frame, &self.payload),
            Transport::Icmp => ip
                .icmpv4_echo_request(source, destination)
                .write(&mut frame, &self.payload),
        }
        .unwrap();
        frame
    }

    fn headers(&self) -> IpHeaders {
        let auth = self
            .authenticated
            .then(|| IpAuthHeader::new(IpNumber::UDP, 1, 1, &[0xaa; 12]).unwrap());
        match (self.ends.source, self.ends.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header =
                    Ipv4Header::new(0, 64, IpNumber::UDP, source.octets(), destination.octets()).unwrap();
                header.options = Ipv4Options::try_from(&[1_u8; 40][..4 * self.options]).unwrap();
                header.dont_fragment = false;
                if let Some((offset, more, identification)) = self.fragment {
                    header.fragment_offset = IpFragOffset::try_new(offset).unwrap();
                    header.more_fragments = more;
                    header.identification = identification;
                }
                IpHeaders::Ipv4(header, Ipv4Extensions { auth })
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = Ipv6Header {
                    hop_limit: 64,
                    source: source.octets(),
                    destination: destination.octets(),
                    ..Ipv6Header::default()
                };
                IpHeaders::Ipv6(header, self.extensions(auth))
            }
            _ => unreachable!("ends are of one family"),
        }
    }

    fn extensions(&self, auth: Option<IpAuthHeader>) -> Ipv6Extensions {
        // Padding of 4 bytes as the only option; as a routing header: type 253, no segments left.
        let options = || Ipv6RawExtHeader::new_raw(IpNumber::UDP, &[1, 4, 0, 0, 0, 0]).unwrap();
        let routing = || Ipv6RoutingExtensions {
            routing: Ipv6RawExtHeader::new_raw(IpNumber::UDP, &[253, 0, 0, 0, 0, 0]).unwrap(),
            final_destination_options: self.extensions.final_destination_options.then(options),
        };
        Ipv6Extensions {
            hop_by_hop_options: self.extensions.hop_by_hop.then(options),
            destination_options: self.extensions.destination_options.then(options),
            routing: self.extensions.routing.then(routing),
            fragment: self.fragment.map(|(offset, more, identification)| {
                let offset = IpFragOffset::try_new(offset).unwrap();
                Ipv6FragmentHeader::new(IpNumber::UDP, offset, more, identification.into())
            }),
            auth,
        }
    }
}

fn double(outer: VlanId, inner: VlanId) -> VlanHeader {
    let tag = |vlan_id, ether_type| etherparse::SingleVlanHeader {
        vlan_id,
        ether_type,
        ..Default::default()
    };
    VlanHeader::Double(etherparse::DoubleVlanHeader {
        outer: tag(outer, etherparse::ether_type::VLAN_TAGGED_FRAME),
        inner: tag(inner, etherparse::ether_type::IPV4),
    })
}
