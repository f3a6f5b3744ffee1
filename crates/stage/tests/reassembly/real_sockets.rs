//! The kernel makes the same datagrams of the same fragments: on the loopback of a network namespace.

use super::Bench;
use super::frames::{EXPERIMENT, Family, Fragment, data};
use super::overlaps::{fragments, sequences, who_gave};
use corelane_host::bed::Side;
use corelane_stage::reassembly::Plan;
use corelane_tests::{namespaces, namespaces_plan, undisturbed, until};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Sequences after which what was received is read.
const PART: usize = 64;

/// A socket that sends whole packets, and one that receives datagrams of a protocol for experiments.
struct Sockets {
    out: Socket,
    received: Socket,
    to: SockAddr,
    family: Family,
}

impl Sockets {
    fn open(side: &Side, family: Family) -> Sockets {
        let (domain, address): (_, IpAddr) = match family {
            Family::V4 => (Domain::IPV4, Ipv4Addr::LOCALHOST.into()),
            Family::V6 => (Domain::IPV6, Ipv6Addr::LOCALHOST.into()),
        };
        let open = move |protocol: u8| {
            Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(protocol)))).unwrap()
        };
        // IPPROTO_RAW
        let (out, received) = side.run(move || (open(255), open(EXPERIMENT)));
        received.set_nonblocking(true).unwrap();
        received.set_recv_buffer_size(4 << 20).unwrap();
        Sockets {
            out,
            received,
            to: SocketAddr::new(address, 0).into(),
            family,
        }
    }

    fn send(&self, packet: &[u8]) {
        self.out.send_to(packet, &self.to).unwrap();
    }

    /// The data of a datagram, if one has arrived.
    fn receive(&self) -> Option<Vec<u8>> {
        let mut packet = vec![0; 1 << 16];
        let length = (&self.received).read(&mut packet).ok()?;
        // A socket of IPv4 receives headers, too.
        let header = if self.family == Family::V4 { 20 } else { 0 };
        Some(packet[header..length].to_vec())
    }
}

/// By sequence, who gave each unit of the datagrams that the kernel makes whole.
fn kernels(sockets: &Sockets, sequences: &[Vec<Fragment>]) -> Vec<Vec<Vec<u8>>> {
    let mut found = vec![Vec::new(); sequences.len()];
    for part in (0..sequences.len()).collect::<Vec<_>>().chunks(PART) {
        for number in part {
            sequences[*number]
                .iter()
                .for_each(|fragment| sockets.send(&fragment.packet()));
        }
        // A whole datagram marks the end.
        sockets.send(&Fragment::new(sockets.family, u32::MAX, 0, false, &[]).packet());
        until("the last datagram arrives", || {
            while let Some(data) = sockets.receive() {
                let Some(unit) = data.first_chunk::<8>() else {
                    return true;
                };
                let [_, _, a, b, c, d, ..] = *unit;
                found[u32::from_be_bytes([a, b, c, d]) as usize].push(who_gave(&data));
            }
            false
        });
    }
    found
}

fn compare(side: &Side, family: Family) {
    let sequences: Vec<Vec<Fragment>> = (0..)
        .zip(sequences())
        .map(|(id, sequence)| fragments(family, id, &sequence, false))
        .collect();
    let kernels = kernels(&Sockets::open(side, family), &sequences);
    let mut bench = Bench::new(Plan::default());
    for (sequence, kernels) in sequences.iter().zip(kernels) {
        let frames: Vec<_> = sequence.iter().map(Fragment::frame).collect();
        let ours = bench.run(&frames);
        let ours: Vec<_> = ours.iter().map(|frame| who_gave(data(frame))).collect();
        let shown = || {
            sequence
                .iter()
                .map(|fragment| (fragment.offset, fragment.data.len(), fragment.more))
        };
        assert_eq!(
            ours,
            kernels,
            "{family:?}, offset, bytes, more: {:?}",
            shown().collect::<Vec<_>>()
        );
    }
}

#[test]
fn the_kernel_makes_the_same_of_every_overlap_of_three_fragments() {
    undisturbed(|| {
        let Some(bed) = namespaces(&namespaces_plan()) else {
            return;
        };
        for (name, value) in [
            ("net.ipv4.ipfrag_high_thresh", "400000000"),
            ("net.ipv6.ip6frag_high_thresh", "400000000"),
            ("net.ipv6.conf.lo.disable_ipv6", "0"),
        ] {
            bed.server.set(name, value).unwrap();
        }
        compare(&bed.server, Family::V4);
        compare(&bed.server, Family::V6);
    });
}
