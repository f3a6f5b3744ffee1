//! What is put into a tunnel has right headers, and comes out again as it was.

use super::frames::{self, V4, V6};
use super::{TAGS, packets, run, run_from};
use crate::common::Lent;
use corelane_packet::ethernet::{self, MacAddress};
use corelane_packet::tunnel::{Kind, Tunnel};
use corelane_packet::{Dissection, Editor};
use corelane_rss::Key;
use corelane_stage::decapsulation::{self, Decapsulation};
use corelane_stage::encapsulation::{Counts, DontFragment, Encapsulation, Plan, PlanError, Wrap};
use corelane_stage::fragmenting::{self, Fragmenting};
use corelane_stage::{Desk, Stage, Work};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

pub const WRAPS: [Wrap; 4] = [
    Wrap::Vxlan { vni: 0x0a_0b0c },
    Wrap::Gre { key: None },
    Wrap::Gre {
        key: Some(0x0102_0304),
    },
    Wrap::Ipip,
];

pub fn plan(wrap: Wrap, ends: [&str; 2]) -> Plan {
    let [local, remote] = ends.map(|end| end.parse().unwrap());
    Plan {
        wrap,
        local,
        remote,
        source_mac: None,
        destination_mac: None,
        dscp: None,
        ttl: 64,
        df: DontFragment::default(),
        link: None,
    }
}

pub const V4_ENDS: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
pub const V6_ENDS: [&str; 2] = ["2001:db8::1", "2001:db8::2"];

pub fn stage(plan: Plan) -> (Encapsulation, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    (
        Encapsulation::new(plan, &Key::VERIFICATION, (0, 1), Arc::clone(&counts)),
        counts,
    )
}

fn unwrapped(frame: &[u8]) -> Option<Vec<u8>> {
    let mut stage = Decapsulation::new(decapsulation::Plan::default(), 7, Arc::default());
    run(&mut stage, frame)
}

#[test]
fn what_is_wrapped_and_unwrapped_is_itself() {
    for (wrap, ends) in WRAPS.iter().flat_map(|wrap| [(wrap, V4_ENDS), (wrap, V6_ENDS)]) {
        for ((ether_type, packet), tags) in packets()
            .iter()
            .flat_map(|packet| TAGS.map(|tags| (packet, tags)))
        {
            for class in [0x00, 0x01, 0x02, 0x03, 0xb8, 0xbb] {
                let mut frame = frames::ethernet(tags, *ether_type, packet);
                Editor::of(&mut frame).unwrap().set_traffic_class(class);
                let (mut stage, counts) = stage(plan(*wrap, ends));
                let wrapped = run(&mut stage, &frame).unwrap();
                assert_eq!(counts.encapsulated.get(), 1);
                let outer = Dissection::of(&wrapped).unwrap();
                assert_eq!(outer.source().to_string(), ends[0]);
                assert_eq!(outer.destination().to_string(), ends[1]);
                assert_eq!(outer.packet_end(), wrapped.len());
                assert!(!outer.has_wrong_checksum() && !outer.is_truncated());
                assert_eq!((outer.traffic_class(), outer.time_to_live()), (class, 64));
                let kind = Tunnel::of(&outer).unwrap().unwrap().kind();
                assert_eq!(kind, wrap.kind());
                // The tags are outside, except those of a whole frame.
                let outside = if kind == Kind::Vxlan { 0 } else { tags.len() };
                assert_eq!(ethernet::vlan_ids(&wrapped).count(), outside);
                assert_eq!(unwrapped(&wrapped), Some(frame), "{wrap:?} {ends:?} {tags:?}");
            }
        }
    }
}

#[test]
fn frames_without_ip_go_into_a_vxlan_alone() {
    let arp = frames::ethernet(&[], 0x0806, &[1; 46]);
    for wrap in WRAPS {
        let (mut stage, counts) = stage(plan(wrap, V4_ENDS));
        let left = run(&mut stage, &arp).unwrap();
        match wrap {
            Wrap::Vxlan { .. } => assert_eq!(unwrapped(&left), Some(arp.clone())),
            _ => assert_eq!((left, counts.not_ip.get()), (arp.clone(), 1)),
        }
    }
    let (mut stage, counts) = stage(plan(WRAPS[0], V4_ENDS));
    assert_eq!(run(&mut stage, &[7; 13]), Some(vec![7; 13]));
    assert_eq!(counts.not_ip.get(), 1);
}

#[test]
fn a_packet_of_which_the_frame_has_a_part_does_not_go_into_gre_or_ip() {
    let cut = V4::SUITE.frame(&[1; 100])[..80].to_vec();
    for wrap in WRAPS {
        let (mut stage, counts) = stage(plan(wrap, V4_ENDS));
        let left = run(&mut stage, &cut).unwrap();
        let takes_frames = matches!(wrap, Wrap::Vxlan { .. });
        assert_eq!(left == cut, !takes_frames, "{wrap:?}");
        assert_eq!(counts.truncated.get(), u64::from(!takes_frames));
    }
}

#[test]
fn the_bytes_of_a_vxlan_and_of_gre_are_those_of_the_standards() {
    let [(_, packet), _] = packets();
    let frame = frames::ethernet(&[], 0x0800, &packet);
    let wrapped = run(&mut stage(plan(WRAPS[0], V4_ENDS)).0, &frame).unwrap();
    // UDP without checksum, the I flag, the identifier.
    assert_eq!(wrapped[36..38], 4789_u16.to_be_bytes());
    assert_eq!(wrapped[40..50], [0, 0, 8, 0, 0, 0, 0x0a, 0x0b, 0x0c, 0]);
    let wrapped = run(&mut stage(plan(WRAPS[2], V4_ENDS)).0, &frame).unwrap();
    assert_eq!(wrapped[34..42], [0x20, 0, 8, 0, 1, 2, 3, 4]);
    // Over IPv6, UDP has a checksum (RFC 8200, section 8.1).
    let wrapped = run(&mut stage(plan(WRAPS[0], V6_ENDS)).0, &frame).unwrap();
    assert_ne!(wrapped[60..62], [0, 0]);
}

#[test]
fn what_the_plan_gives_is_in_the_outer_header() {
    let [(_, packet), _] = packets();
    let mut frame = frames::ethernet(&[], 0x0800, &packet);
    Editor::of(&mut frame).unwrap().set_traffic_class(0xb9);
    let plan = Plan {
        source_mac: Some(MacAddress([2; 6])),
        destination_mac: Some(MacAddress([4; 6])),
        dscp: Some(10),
        ttl: 9,
        df: DontFragment::Set,
        ..plan(Wrap::Ipip, V4_ENDS)
    };
    let wrapped = run(&mut stage(plan).0, &frame).unwrap();
    assert_eq!(wrapped[..12], [[4; 6], [2; 6]].concat());
    let outer = Dissection::of(&wrapped).unwrap();
    assert_eq!((outer.traffic_class(), outer.time_to_live()), (10 << 2 | 1, 9));
    assert_eq!(wrapped[20] & 0x40, 0x40);
}

#[test]
fn dont_fragment_is_that_of_the_packet_inside() {
    let datagram = frames::udp(1, 2, b"data");
    let whole = V4 {
        fragment: 0x4000,
        ..V4::SUITE
    }
    .frame(&datagram);
    let v6 = V6::suite(vec![], 17).frame(&datagram);
    for (frame, df, expected) in [
        (&whole, DontFragment::Inherit, 0x40),
        (&whole, DontFragment::Unset, 0),
        (&V4::SUITE.frame(&datagram), DontFragment::Inherit, 0),
        (&v6, DontFragment::Inherit, 0),
    ] {
        let plan = Plan {
            df,
            ..plan(Wrap::Ipip, V4_ENDS)
        };
        assert_eq!(run(&mut stage(plan).0, frame).unwrap()[20], expected);
    }
}

#[test]
fn a_flow_has_one_source_port_and_flows_have_many() {
    let mut stage = stage(plan(WRAPS[0], V4_ENDS)).0;
    let mut ports = HashSet::new();
    for port in 0..200 {
        let frame = |payload: &[u8]| V4::SUITE.frame(&frames::udp(1000 + port, 53, payload));
        let left = run_from(&mut stage, &[(0, frame(b"one")), (0, frame(b"another"))]);
        let [one, another] = [0, 1].map(|at| Dissection::of(&left[at]).unwrap().ports().unwrap().source);
        assert!(one == another && one >= 49_152);
        ports.insert(one);
    }
    assert!(ports.len() > 190, "{}", ports.len());
}

#[test]
fn identifications_repeat_after_all_others_of_all_buckets() {
    let [(_, packet), _] = packets();
    let frame = (0, frames::ethernet(&[], 0x0800, &packet));
    let mut seen = HashSet::new();
    for bucket in 0..4 {
        let mut stage = Encapsulation::new(
            plan(Wrap::Ipip, V4_ENDS),
            &Key::VERIFICATION,
            (bucket, 4),
            Arc::default(),
        );
        for wrapped in run_from(&mut stage, &vec![frame.clone(); 1 << 14]) {
            assert!(seen.insert([wrapped[18], wrapped[19]]));
        }
    }
    assert_eq!(seen.len(), 1 << 16);
}

#[test]
fn what_the_length_field_cannot_say_is_dropped() {
    let longest = |header: usize| 65_535 - header;
    for (ends, overhead) in [(V4_ENDS, 20 + 8 + 8), (V6_ENDS, 8 + 8)] {
        for (length, fits) in [(longest(overhead), true), (longest(overhead) + 1, false)] {
            let (mut stage, counts) = stage(plan(WRAPS[0], ends));
            let mut frame = vec![0; length];
            frame[12] = 0x88;
            let left = run(&mut stage, &frame);
            assert_eq!(left.is_some(), fits);
            assert_eq!(counts.too_long.get(), u64::from(!fits));
            assert!(left.is_none_or(|left| !Dissection::of(&left).unwrap().is_truncated()));
        }
    }
}

#[test]
fn the_outer_packet_may_be_cut_as_its_own_header_says() {
    let frame = V4 {
        fragment: 0x4000,
        ..V4::SUITE
    }
    .frame(&frames::udp(1, 2, &[7; 1400]));
    let cut = |ends, df| {
        let fragment = Arc::new(fragmenting::Counts::default());
        let cutter = Fragmenting::new(&fragmenting::Plan { mtu: 1280 }, Arc::clone(&fragment));
        let mut both = (
            stage(Plan {
                df,
                ..plan(Wrap::Ipip, ends)
            })
            .0,
            cutter,
        );
        let (mut desk, mut lent) = (Desk::default(), Lent(vec![(0, frame.clone())]));
        let mut work = Work::new(&mut desk, &mut lent, Instant::now());
        work.read();
        // Made of fragments with this identification.
        work.set_cut_as(0, 9);
        both.run(&mut work);
        (fragment.cut.get(), fragment.dont_fragment.get())
    };
    assert_eq!(cut(V6_ENDS, DontFragment::Inherit), (1, 0));
    assert_eq!(cut(V4_ENDS, DontFragment::Inherit), (0, 1));
    assert_eq!(cut(V4_ENDS, DontFragment::Unset), (1, 0));
}

#[test]
fn other_links_pass() {
    let [(_, packet), _] = packets();
    let frame = frames::ethernet(&[], 0x0800, &packet);
    let (mut stage, counts) = stage(Plan {
        link: Some(1),
        ..plan(Wrap::Ipip, V4_ENDS)
    });
    let left = run_from(&mut stage, &[(0, frame.clone()), (1, frame.clone())]);
    assert_eq!(left[0], frame);
    assert_eq!((left[1].len(), counts.encapsulated.get()), (frame.len() + 20, 1));
}

#[test]
fn a_tunnel_that_cannot_be_is_refused_by_name() {
    let good = plan(WRAPS[0], V4_ENDS);
    assert_eq!(good.check(), Ok(()));
    let remote: IpAddr = "::1".parse().unwrap();
    let rows = [
        (
            Plan {
                remote,
                ..good.clone()
            },
            PlanError::Families {
                local: good.local,
                remote,
            },
        ),
        (
            Plan {
                wrap: Wrap::Vxlan { vni: 1 << 24 },
                ..good.clone()
            },
            PlanError::Vni(1 << 24),
        ),
        (
            Plan {
                dscp: Some(64),
                ..good.clone()
            },
            PlanError::Dscp(64),
        ),
        (Plan { ttl: 0, ..good }, PlanError::Ttl),
    ];
    for (plan, error) in rows {
        assert_eq!(plan.check(), Err(error));
    }
}

#[test]
fn a_plan_is_read_as_it_is_written() {
    let vxlan = Plan {
        dscp: Some(10),
        destination_mac: Some(MacAddress([2, 0, 0, 0, 0, 1])),
        link: Some(1),
        ..plan(WRAPS[0], V4_ENDS)
    };
    let text = "kind = \"vxlan\"\nvni = 658188\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
        destination_mac = \"02:00:00:00:00:01\"\ndscp = 10\nlink = 1";
    assert_eq!(toml::from_str::<Plan>(text).unwrap(), vxlan);
    for wrap in WRAPS {
        let plan = Plan {
            wrap,
            ..vxlan.clone()
        };
        let written = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&written).unwrap(), plan);
    }
    let ends = "local = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n";
    for (text, error) in [
        ("kind = \"vxlan\"", "a VXLAN needs a network identifier: give vni"),
        ("kind = \"gre\"\nvni = 1", "only a VXLAN has a vni"),
        ("kind = \"ipip\"\nkey = 1", "only GRE has a key"),
        ("kind = \"vxlan\"\nvni = 1\nkey = 1", "only GRE has a key"),
        ("kind = \"gre\"\nttl = 0", "ttl 0: use 1 to 255"),
        ("kind = \"geneve\"", "unknown variant `geneve`"),
        ("kind = \"gre\"\ntos = 1", "unknown field `tos`"),
        ("kind = \"gre\"\nsource_mac = \"2:0\"", "is not a MAC address"),
    ] {
        let refused = toml::from_str::<Plan>(&format!("{ends}{text}"))
            .unwrap_err()
            .to_string();
        assert!(refused.contains(error), "{refused}");
    }
}
