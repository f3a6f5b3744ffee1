//! Frames whose bucket changes are found, each with its cause, as the definition of the hashes says.

use crate::reassembly::frames::{Family, Fragment, UDP, bytes};
use corelane_packet::HashTypes;
use corelane_rss::{HashFields, IndirectionTable, Key, Toeplitz, Tuple};
use corelane_stage::StagePlans;
use corelane_stage::dispatch::Spread;
use corelane_stage::explain::{Cause, Explained, Explanation};
use std::net::SocketAddrV4;
use std::time::Duration;

const BUCKETS: u16 = 8;
/// IPv4 in an IP header (RFC 2003).
const IPIP: u8 = 4;

fn spread(hash_types: HashTypes) -> Spread {
    Spread {
        toeplitz: Toeplitz::new(&Key::VERIFICATION),
        hash_types,
        table: IndirectionTable::round_robin(128, BUCKETS.into()).unwrap(),
        buckets: BUCKETS,
    }
}

/// A datagram of 1,200 bytes of data between two hosts, whole or in parts of 600.
fn datagram(source: u16, in_parts: bool) -> Vec<Fragment> {
    let mut data = bytes(1200, 3);
    data[..2].copy_from_slice(&source.to_be_bytes());
    data[2..8].copy_from_slice(&[0, 53, 4, 176, 0, 0]);
    let part = |offset: usize, more, data: &[u8]| Fragment {
        protocol: UDP,
        ..Fragment::new(Family::V4, source.into(), offset, more, data)
    };
    match in_parts {
        false => vec![part(0, false, &data)],
        true => vec![part(0, true, &data[..600]), part(600, false, &data[600..])],
    }
}

/// The frame that carries this one's packet to 127.0.0.9.
fn in_tunnel(inner: &Fragment) -> Fragment {
    Fragment {
        protocol: IPIP,
        ends: [1, 9],
        ..Fragment::new(Family::V4, inner.id + 1000, 0, false, &inner.packet())
    }
}

fn explained(frames: &[Fragment], hash_types: HashTypes, device: Option<IndirectionTable>) -> Explanation {
    let spread = spread(hash_types);
    let device = device.unwrap_or_else(|| spread.table.clone());
    let mut explained = Explained::new(spread, device, &StagePlans::default());
    for (number, frame) in (1..).zip(frames) {
        explained.frame(number, &frame.frame(), Duration::from_micros(number));
    }
    explained.report()
}

/// The bucket of a datagram from this port, or of the tunnel.
fn bucket(source: u16, fields: HashFields, destination: u8) -> usize {
    let tuple = Tuple::V4 {
        source: SocketAddrV4::new([127, 0, 0, 1].into(), source),
        destination: SocketAddrV4::new([127, 0, 0, destination].into(), 53),
    };
    let spread = spread(HashTypes::NONE);
    spread.table.bucket(spread.toeplitz.hash(&tuple, fields)).index()
}

fn of<'a>(report: &'a Explanation, fields: &str) -> &'a corelane_stage::explain::FieldsExplained {
    report.fields.iter().find(|row| row.fields == fields).unwrap()
}

#[test]
fn fragments_change_bucket_if_ports_are_hashed() {
    let ports = 1000..1100;
    let mut frames: Vec<Fragment> = ports.clone().flat_map(|port| datagram(port, true)).collect();
    frames.extend(ports.clone().flat_map(|port| datagram(port, false)));
    let report = explained(&frames, HashTypes::FOUR_TUPLE, None);
    assert_eq!(
        (report.frames, report.fragments, report.arrived, report.flows),
        (300, 200, 300, 100)
    );
    let [two, driver, four] = ["2tuple", "driver", "4tuple"].map(|fields| of(&report, fields));
    assert_eq!((two.change, driver.change), (0, 0));
    assert_eq!(
        (two.flows_on_several, two.imbalance_before),
        (0, Some(f64::from(BUCKETS)))
    );
    let arrives = bucket(0, HashFields::TwoTuple, 1);
    let moving = ports
        .filter(|port| bucket(*port, HashFields::FourTuple, 1) != arrives)
        .count() as u64;
    assert!(moving > 50);
    assert_eq!(four.change, 2 * moving);
    assert_eq!(
        (
            four.by_cause[&Cause::FirstFragment],
            four.by_cause[&Cause::LaterFragment]
        ),
        (moving, moving)
    );
    assert_eq!(four.flows_on_several, moving);
    assert!(four.imbalance_after < two.imbalance_after);
    let first = &report.changes[0];
    assert_eq!(
        (first.from, first.hashed.as_deref(), first.hashed_then.as_deref()),
        (arrives, Some("IPV4"), Some("UDP_IPV4"))
    );
    assert_eq!(report.changes.len(), 20);
}

#[test]
fn packets_in_a_tunnel_change_bucket_and_so_do_fragments_in_and_around_it() {
    let ports = 1000..1100;
    let frames: Vec<Fragment> = ports
        .clone()
        .flat_map(|port| datagram(port, port % 2 == 0))
        .map(|inner| in_tunnel(&inner))
        .collect();
    let report = explained(&frames, HashTypes::DRIVER_DEFAULT, None);
    assert_eq!(
        (report.frames, report.arrived, report.from_tunnels, report.flows),
        (150, 150, 150, 100)
    );
    let arrives = bucket(0, HashFields::TwoTuple, 9);
    let changing = |port: u16| match bucket(port, HashFields::FourTuple, 1) == arrives {
        true => 0,
        false => 2 - u64::from(port % 2),
    };
    let four = of(&report, "4tuple");
    assert_eq!(
        four.by_cause.get(&Cause::Tunnel).copied(),
        Some(ports.map(changing).sum())
    );
    assert_eq!(four.by_cause.len(), 1);
    let moves = bucket(0, HashFields::TwoTuple, 1) != arrives;
    assert_eq!(of(&report, "driver").change, 150 * u64::from(moves));
    assert_eq!(four.flows_on_several, 0);
}

#[test]
fn an_entry_of_another_bucket_is_the_cause_if_the_hash_is_the_same() {
    let ports = 1000..1100;
    let frames: Vec<Fragment> = ports.clone().flat_map(|port| datagram(port, false)).collect();
    let spread = spread(HashTypes::FOUR_TUPLE);
    let mut entries = spread.table.entries().to_vec();
    let hash = |port| {
        let tuple = Tuple::V4 {
            source: SocketAddrV4::new([127, 0, 0, 1].into(), port),
            destination: SocketAddrV4::new([127, 0, 0, 1].into(), 53),
        };
        spread
            .table
            .entry(spread.toeplitz.hash(&tuple, HashFields::FourTuple))
    };
    let moved = hash(1000);
    entries[moved] = entries[(moved + 1) % entries.len()];
    let report = explained(
        &frames,
        HashTypes::FOUR_TUPLE,
        Some(IndirectionTable::from_entries(entries).unwrap()),
    );
    let changing = ports.filter(|port| hash(*port) == moved).count() as u64;
    let four = of(&report, "4tuple");
    assert_eq!((four.change, four.by_cause[&Cause::Entry]), (changing, changing));
    assert_eq!(report.changes[0].frame, 1);
}

#[test]
fn fragments_of_a_datagram_that_is_not_whole_have_no_end() {
    let mut frames = datagram(1000, true);
    frames.truncate(1);
    // The same again, and then both.
    frames.push(frames[0].clone());
    let report = explained(&frames, HashTypes::FOUR_TUPLE, None);
    assert_eq!((report.frames, report.fragments, report.arrived), (2, 2, 0));
    assert_eq!(report.stages["reassemble"]["duplicate"], 1);
    frames.extend(datagram(1000, true).into_iter().skip(1));
    let report = explained(&frames, HashTypes::FOUR_TUPLE, None);
    assert_eq!((report.arrived, report.flows), (2, 1));
}
