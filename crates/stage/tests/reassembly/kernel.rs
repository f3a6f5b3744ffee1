//! Fragments that the kernel makes become what was sent, and it takes those that are made here: between namespaces whose MTU is
//! small, over both families, of UDP, TCP and ICMP.

use super::frames::{Family, bytes, data};
use crate::common::Runner;
use corelane_host::bed::{Bed, BedPlan, Side};
use corelane_link::{AnyLink, Link, LinkSpec, Opener};
use corelane_packet::{Dissection, IpProtocol};
use corelane_stage::fragmenting::{self, Fragmenting};
use corelane_stage::reassembly::{Plan, Reassembly};
use corelane_tests::{namespaces, namespaces_plan, undisturbed, until};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Of the kernel's fragments, the least that IPv6 has, and of ours.
const MTU: u32 = 1280;
const OUR_MTU: u16 = 500;

fn bed(family: Family) -> Option<Bed> {
    let plan = match family {
        Family::V4 => namespaces_plan(),
        Family::V6 => BedPlan {
            loopback_ok: false,
            ..BedPlan::new("fd00::1".parse().unwrap(), vec!["fd00::/64".parse().unwrap()])
        },
    };
    namespaces(&BedPlan {
        mtu: Some(MTU),
        ..plan
    })
}

/// A raw socket of a protocol: it sends what follows the IP header, which the kernel cuts.
fn raw(side: &Side, address: IpAddr, protocol: IpProtocol) -> Socket {
    let domain = Domain::for_address(SocketAddr::new(address, 0));
    let protocol = Protocol::from(i32::from(protocol.0));
    let socket = side.run(move || Socket::new(domain, Type::RAW, Some(protocol)).unwrap());
    socket.set_nonblocking(true).unwrap();
    socket
}

fn open(side: &Side) -> AnyLink {
    let spec: LinkSpec = format!("packet:{}", side.device()).parse().unwrap();
    side.run(move || Opener::new(spec).open()).unwrap().remove(0)
}

/// The datagram with this content among those that the kernel delivers to a socket, without IP header.
fn delivered(socket: &Socket, family: Family, content: &[u8]) {
    let mut packet = vec![0; 1 << 16];
    until("the kernel delivers the datagram", || {
        let Ok(length) = (&mut &*socket).read(&mut packet) else {
            return false;
        };
        let header = if family == Family::V4 { 20 } else { 0 };
        packet[..length]
            .get(header..)
            .is_some_and(|data| is(data, content))
    });
}

/// Whether data is this, but for its first bytes, in which the kernel may have computed a checksum.
fn is(data: &[u8], content: &[u8]) -> bool {
    data.len() == content.len() && data[8..] == content[8..]
}

/// Frames that carry fragments of a protocol, until a stage has made the content whole of them; and the whole frame.
fn fragments(link: &mut AnyLink, protocol: IpProtocol, content: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut runner = Runner::new(Reassembly::new(Plan::default(), 1, Arc::default()));
    let (mut fragments, mut whole) = (Vec::new(), None);
    until("the fragments arrive", || {
        let burst = link.receive(64).unwrap();
        let of_protocol = |frame: &&[u8]| {
            Dissection::of(frame).is_ok_and(|packet| packet.is_part() && packet.protocol() == protocol)
        };
        let came: Vec<Vec<u8>> = burst.iter().filter(of_protocol).map(<[u8]>::to_vec).collect();
        let made = runner.run(&came);
        fragments.extend(came);
        whole = made
            .into_iter()
            .find(|frame| is(data(frame), content))
            .or(whole.take());
        whole.is_some()
    });
    (fragments, whole.unwrap_or_default())
}

fn compare(bed: &Bed, family: Family) {
    let server = bed.server.address();
    let (mut inside, mut outside) = (open(&bed.server), open(&bed.client));
    let icmp = match family {
        Family::V4 => IpProtocol(1),
        Family::V6 => IpProtocol::ICMPV6,
    };
    for protocol in [IpProtocol::UDP, IpProtocol::TCP, icmp] {
        let content = bytes(5000, protocol.0);
        let (from, to) = (
            raw(&bed.client, server, protocol),
            raw(&bed.server, server, protocol),
        );
        from.send_to(&content, &SocketAddr::new(server, 0).into())
            .unwrap();
        let (theirs, whole) = fragments(&mut inside, protocol, &content);
        assert!(theirs.len() >= 4, "{family:?} {protocol}");
        delivered(&to, family, &content);

        // The same datagram, cut further.
        let stages = (
            Reassembly::new(Plan::default(), 1, Arc::default()),
            Fragmenting::new(&fragmenting::Plan { mtu: OUR_MTU }, Arc::default()),
        );
        let ours = Runner::new(stages).run(&theirs);
        assert!(ours.len() > 10 && ours.iter().all(|frame| frame.len() <= 14 + usize::from(OUR_MTU)));
        let sent = outside.send(ours.iter().rev().map(Vec::as_slice)).unwrap();
        assert_eq!(sent.taken, ours.len());
        delivered(&to, family, &content);
        let (_, again) = fragments(&mut inside, protocol, &content);
        assert_eq!(again, whole, "{family:?} {protocol}");
    }
}

#[test]
fn fragments_of_the_kernel_are_made_whole_and_it_takes_ours_by_real_sockets() {
    undisturbed(|| {
        for family in [Family::V4, Family::V6] {
            let Some(bed) = bed(family) else { return };
            compare(&bed, family);
        }
    });
}
