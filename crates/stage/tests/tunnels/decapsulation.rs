//! What is in a tunnel comes out as it was put in, and what is no such tunnel passes, counted by the reason.

use super::frames::{self, V4, V6};
use super::{TAGS, packets, run, run_from};
use crate::common::Lent;
use corelane_measure::counter::Counter;
use corelane_packet::tunnel::Kind;
use corelane_packet::{Dissection, Editor, checksum};
use corelane_stage::decapsulation::{Counts, Decapsulation, Plan};
use corelane_stage::{Desk, Stage, Work};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

fn stage_of(plan: Plan) -> (Decapsulation, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    (Decapsulation::new(plan, 7, Arc::clone(&counts)), counts)
}

fn stage() -> (Decapsulation, Arc<Counts>) {
    stage_of(Plan::default())
}

/// The outer packet of both families around this payload.
fn outer(protocol: u8, payload: &[u8]) -> [(u16, Vec<u8>); 2] {
    let v4 = V4 {
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        protocol,
        ..V4::SUITE
    };
    let v6 = V6::suite(vec![frames::hop_by_hop()], protocol);
    [(0x0800, v4.packet(payload)), (0x86dd, v6.packet(payload))]
}

fn outer_v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [(ether_type, packet), _] = outer(protocol, payload);
    frames::ethernet(&[], ether_type, &packet)
}

fn gre(ether_type: u16, inner: &[u8]) -> Vec<u8> {
    [&[0, 0], &ether_type.to_be_bytes(), inner].concat()
}

/// GRE with a checksum, a key and a sequence number.
fn gre_with_all(ether_type: u16, inner: &[u8]) -> Vec<u8> {
    let mut bytes = [
        &[0xb0, 0],
        &ether_type.to_be_bytes()[..],
        &[0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 9],
        inner,
    ]
    .concat();
    let checksum = checksum::internet(&bytes);
    bytes[4..6].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn vxlan(frame: &[u8]) -> Vec<u8> {
    frames::udp(50_000, 4789, &[&[8, 0, 0, 0, 0, 0, 7, 0], frame].concat())
}

fn geneve(ether_type: u16, inner: &[u8]) -> Vec<u8> {
    let header = [&[1, 0], &ether_type.to_be_bytes()[..], &[0, 0, 7, 0, 1, 2, 0, 0]].concat();
    frames::udp(50_000, 6081, &[&header, inner].concat())
}

fn labels(inner: &[u8]) -> Vec<u8> {
    [&[0, 1, 0, 64, 0, 1, 0x11, 64], inner].concat()
}

/// Another Ethernet header than that of tests.
fn framed(tags: &[(u16, u16)], ether_type: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = frames::ethernet(tags, ether_type, packet);
    frame[..12].copy_from_slice(&[6; 12]);
    frame
}

#[test]
fn a_packet_comes_out_with_the_addresses_and_tags_of_the_outer_frame() {
    for (ether_type, inner) in packets() {
        let protocol = if ether_type == 0x0800 { 4 } else { 41 };
        let tunnels = [
            (protocol, inner.clone()),
            (47, gre(ether_type, &inner)),
            (47, gre_with_all(ether_type, &inner)),
            (47, gre(0x8847, &labels(&inner))),
            (17, geneve(ether_type, &inner)),
        ];
        for (protocol, payload) in tunnels {
            for ((outer_type, packet), tags) in outer(protocol, &payload)
                .iter()
                .flat_map(|outer| TAGS.map(|tags| (outer, tags)))
            {
                let mut frame = framed(tags, *outer_type, packet);
                // Padding of Ethernet goes.
                frame.extend([0xee; 3]);
                let (mut stage, counts) = stage();
                assert_eq!(
                    run(&mut stage, &frame),
                    Some(framed(tags, ether_type, &inner)),
                    "{protocol} {tags:?}"
                );
                let taken = [&counts.ipip, &counts.gre, &counts.geneve].map(Counter::get);
                assert_eq!(taken.iter().sum::<u64>(), 1);
            }
        }
        for tags in TAGS {
            let (mut stage, counts) = stage();
            let frame = framed(tags, 0x8847, &labels(&inner));
            assert_eq!(run(&mut stage, &frame), Some(framed(tags, ether_type, &inner)));
            assert_eq!(counts.mpls.get(), 1);
        }
    }
}

#[test]
fn a_frame_comes_out_as_it_is() {
    let arp = frames::ethernet(&[], 0x0806, &[1; 46]);
    let of_packets = packets()
        .into_iter()
        .flat_map(|(ether_type, packet)| TAGS.map(|tags| framed(tags, ether_type, &packet)));
    for inner in of_packets.chain([arp]) {
        let tunnels = [
            (17, vxlan(&inner)),
            (17, geneve(0x6558, &inner)),
            (47, gre(0x6558, &inner)),
            (47, gre_with_all(0x6558, &inner)),
        ];
        for (protocol, payload) in tunnels {
            for (outer_type, packet) in outer(protocol, &payload) {
                let (mut stage, _) = stage();
                assert_eq!(
                    run(&mut stage, &frames::ethernet(TAGS[1], outer_type, &packet)),
                    Some(inner.clone())
                );
            }
        }
    }
}

/// One of the counts.
type Of = fn(&Counts) -> &Counter;

#[test]
fn what_is_not_entered_passes_as_it_is_and_is_counted() {
    let [(_, inner), _] = packets();
    let changed = |mut frame: Vec<u8>, at: usize, byte: u8| {
        frame[14 + 20 + at] = byte;
        frame
    };
    let in_geneve = outer_v4(17, &geneve(0x0800, &inner));
    let rows: [(Vec<u8>, Of); 15] = [
        (changed(outer_v4(47, &gre(0x0800, &inner)), 1, 1), |counts| {
            &counts.gre_version
        }),
        (changed(outer_v4(47, &gre(0x0800, &inner)), 0, 0x40), |counts| {
            &counts.gre_version
        }),
        (outer_v4(47, &gre(0x88be, &inner)), |counts| &counts.gre_protocol),
        (changed(outer_v4(17, &vxlan(&[0; 60])), 8, 0), |counts| {
            &counts.vxlan_no_vni
        }),
        (changed(in_geneve.clone(), 8, 0x41), |counts| {
            &counts.geneve_version
        }),
        (changed(in_geneve.clone(), 9, 0x80), |counts| {
            &counts.geneve_control
        }),
        (changed(in_geneve.clone(), 9, 0x40), |counts| {
            &counts.geneve_critical
        }),
        (outer_v4(17, &geneve(0x0806, &inner)), |counts| {
            &counts.geneve_protocol
        }),
        (frames::ethernet(&[], 0x8847, &labels(&[0; 60])), |counts| {
            &counts.mpls_not_ip
        }),
        (outer_v4(47, &gre(0x8847, &labels(&[0; 60]))), |counts| {
            &counts.mpls_not_ip
        }),
        (frames::ethernet(&[], 0x8847, &[0; 4]), |counts| {
            &counts.not_readable
        }),
        (outer_v4(47, &[0; 3]), |counts| &counts.not_readable),
        (outer_v4(17, &vxlan(&[2; 13])), |counts| &counts.not_readable),
        (outer_v4(4, &inner[..19]), |counts| &counts.not_readable),
        // The length of the inner packet is more than there is.
        (outer_v4(4, &inner[..30]), |counts| &counts.not_readable),
    ];
    for (frame, counter) in rows {
        let (mut stage, counts) = stage();
        assert_eq!(run(&mut stage, &frame), Some(frame.clone()), "{counts:?}");
        assert_eq!(counter(&counts).get(), 1, "{counts:?}");
    }
}

#[test]
fn a_frame_that_stays_in_its_tunnel_is_counted_once_and_looked_at_again_when_it_changed() {
    let [(_, inner), _] = packets();
    let unknown = outer_v4(47, &gre(0x88be, &inner));
    let tunnel = outer_v4(4, &inner);
    let (mut stage, counts) = stage();
    let (mut desk, mut lent) = (Desk::default(), Lent(vec![(0, unknown)]));
    let mut work = Work::new(&mut desk, &mut lent, Instant::now());
    for _ in 0..3 {
        work.read();
        stage.run(&mut work);
    }
    assert_eq!(counts.gre_protocol.get(), 1);
    work.replace(0, tunnel.len(), |_, bytes| bytes.copy_from_slice(&tunnel));
    work.read();
    stage.run(&mut work);
    assert_eq!(counts.ipip.get(), 1);
}

#[test]
fn fragments_other_kinds_and_other_links_pass_uncounted() {
    let [(_, inner), _] = packets();
    let fragment = V4 {
        protocol: 4,
        fragment: 0x2000,
        ..V4::SUITE
    }
    .frame(&inner);
    let tunnel = outer_v4(17, &vxlan(&frames::ethernet(&[], 0x0800, &inner)));
    let only_gre = Plan {
        kinds: vec![Kind::Gre],
        ..Plan::default()
    };
    let of_link_1 = Plan {
        link: Some(1),
        ..Plan::default()
    };
    for (plan, frame) in [
        (Plan::default(), fragment),
        (only_gre, tunnel.clone()),
        (of_link_1.clone(), tunnel.clone()),
    ] {
        let (mut stage, counts) = stage_of(plan);
        assert_eq!(run(&mut stage, &frame), Some(frame));
        assert_eq!(format!("{counts:?}"), format!("{:?}", Counts::default()));
    }
    let (mut stage, _) = stage_of(of_link_1);
    let left = run_from(
        &mut stage,
        &[(0, tunnel.clone()), (1, tunnel.clone()), (0, tunnel.clone())],
    );
    assert_eq!(
        left,
        [tunnel.clone(), frames::ethernet(&[], 0x0800, &inner), tunnel]
    );
}

#[test]
fn a_whole_datagram_with_a_fragment_header_is_a_tunnel_alone_and_beside_others() {
    let [(_, inner), _] = packets();
    let expected = frames::ethernet(&[], 0x0800, &inner);
    for (protocol, payload) in [
        (4, inner.clone()),
        (47, gre(0x0800, &inner)),
        (17, vxlan(&expected)),
    ] {
        let packet = V6::suite(vec![frames::fragment_header(0, false, 7)], protocol).packet(&payload);
        let tunnel = frames::ethernet(&[], 0x86dd, &packet);
        assert_eq!(run(&mut stage().0, &tunnel), Some(expected.clone()), "{protocol}");
        let both = [(0, tunnel), (0, outer_v4(4, &inner))];
        assert_eq!(
            run_from(&mut stage().0, &both),
            [expected.clone(), expected.clone()]
        );
    }
}

#[test]
fn tunnels_within_tunnels_are_taken_off_up_to_the_limit() {
    let [(_, inner), _] = packets();
    // From the inside out: IP in IP, VXLAN, GRE, MPLS, GENEVE.
    let mut layers = vec![frames::ethernet(&[], 0x0800, &inner)];
    layers.push(outer_v4(4, &layers[0][14..]));
    layers.push(outer_v4(17, &vxlan(&layers[1])));
    layers.push(outer_v4(47, &gre(0x0800, &layers[2][14..])));
    layers.push(frames::ethernet(&[], 0x8847, &labels(&layers[3][14..])));
    layers.push(outer_v4(17, &geneve(0x6558, &layers[4])));
    for nesting in 0..=6 {
        let (mut stage, counts) = stage_of(Plan {
            nesting,
            ..Plan::default()
        });
        let left = usize::from(5_u8.saturating_sub(nesting));
        assert_eq!(run(&mut stage, &layers[5]), Some(layers[left].clone()));
        assert_eq!(counts.too_deep.get(), u64::from(left > 0));
    }
}

#[test]
fn congestion_marked_outside_is_marked_inside_or_the_frame_is_dropped() {
    let marked = |mut frame: Vec<u8>, class: u8| {
        Editor::of(&mut frame).unwrap().set_traffic_class(class);
        frame
    };
    for (ether_type, packet) in packets() {
        let inner = frames::ethernet(&[], ether_type, &packet);
        for (inside, outside, expected) in [
            (0x02, 0x03, Some(0x03)),
            (0xb9, 0x2b, Some(0xbb)),
            (0xba, 0x01, Some(0xb9)),
            (0x00, 0x03, None),
            (0x03, 0x00, Some(0x03)),
        ] {
            let inner = marked(inner.clone(), inside);
            let tunnels = [(47, gre(ether_type, &inner[14..])), (17, vxlan(&inner))];
            for (protocol, payload) in tunnels {
                for (outer_type, packet) in outer(protocol, &payload) {
                    let frame = marked(frames::ethernet(&[], outer_type, &packet), outside);
                    let (mut stage, counts) = stage();
                    let left = run(&mut stage, &frame);
                    assert_eq!(left, expected.map(|class| marked(inner.clone(), class)));
                    assert_eq!(counts.ecn.get(), u64::from(expected.is_none()));
                    if let Some(left) = left {
                        assert!(!Dissection::of(&left).unwrap().has_wrong_checksum());
                    }
                }
            }
        }
    }
    // Labels and frames without IP have nothing to mark.
    let arp = frames::ethernet(&[], 0x0806, &[1; 46]);
    let (mut stage, _) = stage();
    assert_eq!(run(&mut stage, &marked(outer_v4(17, &vxlan(&arp)), 3)), Some(arp));
}

#[test]
fn wrong_outer_checksums_and_an_outer_time_to_live_of_0_drop() {
    let [(_, inner), _] = packets();
    let with_udp_checksum = |wrong: u8| {
        let mut frame = outer_v4(17, &vxlan(&frames::ethernet(&[], 0x0800, &inner)));
        let (addresses, datagram) = (26..34, 34..frame.len());
        let sum =
            checksum::sum(&frame[addresses]) + 17 + datagram.len() as u64 + checksum::sum(&frame[datagram]);
        frame[40..42].copy_from_slice(&checksum::finished(sum).to_be_bytes());
        frame[41] ^= wrong;
        frame
    };
    let mut wrong_gre = gre_with_all(0x0800, &inner);
    wrong_gre[5] ^= 1;
    let mut wrong_header = outer_v4(4, &inner);
    wrong_header[14 + 10] ^= 1;
    let out = frames::ethernet(&[], 0x0800, &inner);
    let rows = [
        (with_udp_checksum(0), false),
        (with_udp_checksum(1), true),
        (outer_v4(47, &wrong_gre), true),
        (wrong_header, true),
    ];
    for (frame, is_wrong) in rows {
        let (mut stage, counts) = stage();
        assert_eq!(run(&mut stage, &frame), (!is_wrong).then(|| out.clone()));
        assert_eq!(counts.checksum.get(), u64::from(is_wrong));
        let (mut stage, _) = stage_of(Plan {
            verify: false,
            ..Plan::default()
        });
        assert_eq!(run(&mut stage, &frame), Some(out.clone()));
    }
    for (ether_type, mut packet) in outer(4, &inner) {
        let at = if ether_type == 0x0800 { 8 } else { 7 };
        packet[at] = 0;
        let (mut stage, counts) = stage_of(Plan {
            verify: false,
            ..Plan::default()
        });
        assert_eq!(run(&mut stage, &frames::ethernet(&[], ether_type, &packet)), None);
        assert_eq!(counts.ttl.get(), 1);
    }
}

#[test]
fn what_a_capture_cut_short_comes_out_as_short() {
    let [(_, inner), _] = packets();
    let whole = outer_v4(47, &gre_with_all(0x0800, &inner));
    let (mut stage, counts) = stage();
    let cut = run(&mut stage, &whole[..whole.len() - 3]).unwrap();
    let out = frames::ethernet(&[], 0x0800, &inner);
    assert_eq!(cut, out[..out.len() - 3]);
    assert_eq!(counts.gre.get(), 1);
}

#[test]
fn a_plan_is_read_as_it_is_written() {
    assert_eq!(toml::from_str::<Plan>("").unwrap(), Plan::default());
    let some = Plan {
        kinds: vec![Kind::Gre, Kind::IpInIp],
        nesting: 2,
        verify: false,
        link: Some(1),
        keys: Some(PathBuf::from("keys.toml").into()),
    };
    for text in ["kinds = \"gre+ipip\"", "kinds = [\"gre\", \"ipip\"]"] {
        let text = format!("{text}\nnesting = 2\nverify = false\nlink = 1\nkeys = \"keys.toml\"");
        assert_eq!(toml::from_str::<Plan>(&text).unwrap(), some);
    }
    for plan in [Plan::default(), some] {
        let written = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&written).unwrap(), plan);
    }
    for (text, error) in [
        ("kinds = \"ah\"", "'ah' is no tunnel that can be entered"),
        ("kinds = \"\"", "'' is no tunnel"),
        ("nesting = 0", "a nesting of 0: use 1 to 16"),
        ("nesting = 17", "a nesting of 17: use 1 to 16"),
        ("depth = 1", "unknown field `depth`"),
    ] {
        let refused = toml::from_str::<Plan>(text).unwrap_err().to_string();
        assert!(refused.contains(error), "{refused}");
    }
}
