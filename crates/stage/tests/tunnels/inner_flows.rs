//! tshark finds the same flows in tunnels as the stage takes out of them.

use super::encapsulation::{V4_ENDS, V6_ENDS, WRAPS, plan, stage};
use super::frames::{self, V4, V6};
use super::{run, run_from};
use crate::common::tshark;
use corelane_link::capture::CaptureWriter;
use corelane_packet::Dissection;
use corelane_stage::decapsulation::{self, Decapsulation};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Source port of the first flow of IPv6, beyond those of IPv4: the fields of a tunnel may be of both families.
const FIRST_OF_V6: u16 = 20_000;

/// Frames of each flow: source, destination and ports.
type Flows = BTreeMap<[String; 4], usize>;

/// A frame of a flow, of IPv4 or IPv6 by its number.
fn datagram(flow: u16) -> Vec<u8> {
    let payload = [flow as u8; 30];
    let low = flow as u8;
    match flow % 2 {
        0 => {
            let packet = V4 {
                source: [10, 1, 0, low].into(),
                destination: [10, 2, low / 3, 1].into(),
                ..V4::SUITE
            };
            packet.frame(&frames::udp(10_000 + flow, 777, &payload))
        }
        _ => {
            let packet = V6 {
                source: [0xfd00, 0, 0, 1, 0, 0, 0, flow].into(),
                destination: [0xfd00, 0, 0, 2, 0, 0, 0, flow / 3].into(),
                ..V6::suite(vec![], 17)
            };
            packet.frame(&frames::udp(FIRST_OF_V6 + flow, 777, &payload))
        }
    }
}

/// The innermost flows that tshark shows, if it is here.
fn theirs(path: &Path) -> Option<Flows> {
    let fields = [
        "ip.src",
        "ip.dst",
        "ipv6.src",
        "ipv6.dst",
        "udp.srcport",
        "udp.dstport",
    ];
    let lines = tshark(path, &["-E", "occurrence=l"], &fields)?;
    let mut flows = Flows::new();
    for line in lines {
        let [v4, v4_to, v6, v6_to, from, to] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let is_v6 = from.parse::<u16>().unwrap() >= FIRST_OF_V6;
        let ends = if is_v6 { [v6, v6_to] } else { [v4, v4_to] };
        let flow = [ends[0], ends[1], from, to].map(str::to_owned);
        *flows.entry(flow).or_default() += 1;
    }
    Some(flows)
}

fn ours(left: &[Vec<u8>]) -> Flows {
    let mut flows = Flows::new();
    for frame in left {
        let packet = Dissection::of(frame).unwrap();
        let ports = packet.ports().unwrap();
        let ends = [packet.source(), packet.destination()].map(|end| end.to_string());
        let [from, to] = ends;
        let ports = [ports.source, ports.destination].map(|port| port.to_string());
        let [from_port, to_port] = ports;
        *flows.entry([from, to, from_port, to_port]).or_default() += 1;
    }
    flows
}

#[test]
fn tshark_counts_the_same_inner_flows() {
    let mut wrapped = Vec::new();
    for (wrap, ends) in WRAPS.iter().flat_map(|wrap| [(wrap, V4_ENDS), (wrap, V6_ENDS)]) {
        let (mut outer, _) = stage(plan(*wrap, ends));
        for flow in (0..60).chain(20..40) {
            let once = run(&mut outer, &datagram(flow)).unwrap();
            wrapped.extend(run(&mut outer, &once).filter(|_| flow % 3 == 0));
            wrapped.push(once);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tunnels.pcap");
    let mut writer = CaptureWriter::create(&path).unwrap();
    for (number, frame) in (0..).zip(&wrapped) {
        writer.write(number, frame.len() as u32, frame).unwrap();
    }
    writer.flush().unwrap();
    let Some(theirs) = theirs(&path) else { return };

    let counts = Arc::new(decapsulation::Counts::default());
    let mut inner = Decapsulation::new(decapsulation::Plan::default(), 7, Arc::clone(&counts));
    let frames: Vec<(usize, Vec<u8>)> = wrapped.into_iter().map(|frame| (0, frame)).collect();
    let left = run_from(&mut inner, &frames);
    assert_eq!(left.len(), frames.len());
    let ours = ours(&left);
    assert_eq!(ours.len(), 60);
    assert_eq!(theirs, ours);
}
