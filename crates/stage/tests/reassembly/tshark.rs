//! tshark makes the same datagrams of the same capture: fragments of many datagrams in any order, some of them lost or twice.

use super::Bench;
use super::frames::{FAMILIES, Family, Fragment, bytes, data};
use crate::common::tshark;
use corelane_link::{Link, LinkSpec, Opener};
use corelane_stage::reassembly::Plan;
use std::path::Path;

/// Draws of an arithmetic generator (Knuth's MMIX).
struct Draws(u64);

impl Draws {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % most
    }
}

/// Fragments of a hundred datagrams of a family.
fn capture(family: Family, draws: &mut Draws) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for id in 0..100 {
        let step = 8 * (5 + draws.below(100));
        let length = step + 1 + draws.below(4000);
        let content = bytes(length, id as u8);
        for offset in (0..length).step_by(step) {
            let end = length.min(offset + step);
            let fragment = Fragment::new(family, 1 + id, offset, end < length, &content[offset..end]);
            match draws.below(40) {
                0 => {}
                1 => frames.extend([fragment.frame(), fragment.frame()]),
                _ => frames.push(fragment.frame()),
            }
        }
    }
    for place in 0..frames.len() {
        let other = (place + draws.below(50)).min(frames.len() - 1);
        frames.swap(place, other);
    }
    frames
}

/// Lengths and first bytes of the datagrams that tshark makes whole, in order.
fn theirs(path: &Path) -> Option<Vec<(usize, String)>> {
    let fields = [
        "ip.reassembled.length",
        "ipv6.reassembled.length",
        "ip.reassembled.data",
        "ipv6.reassembled.data",
    ];
    let lines = tshark(path, &["-2"], &fields)?;
    let datagram = |line: &str| {
        let mut fields = line.split('\t').filter(|field| !field.is_empty());
        Some((fields.next()?.parse().unwrap(), fields.next()?.to_owned()))
    };
    Some(lines.iter().filter_map(|line| datagram(line)).collect())
}

#[test]
fn tshark_makes_the_same_datagrams_of_the_same_capture() {
    let folder = tempfile::tempdir().unwrap();
    for family in FAMILIES {
        let mut draws = Draws(family as u64 + 5);
        let frames = capture(family, &mut draws);
        let path = folder.path().join(format!("{family:?}.pcap"));
        let spec: LinkSpec = format!("pcap:out={}", path.display()).parse().unwrap();
        let mut link = Opener::new(spec).open().unwrap().remove(0);
        let sent = link.send(frames.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(sent.taken, frames.len());
        link.check().unwrap();
        drop(link);
        let Some(theirs) = theirs(&path) else { return };

        let left = Bench::new(Plan::default()).run(&frames);
        let hex = |data: &[u8]| data.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let ours: Vec<_> = left
            .iter()
            .map(|frame| (data(frame).len(), hex(data(frame))))
            .collect();
        assert!(ours.len() > 30 && ours.len() < 90, "{family:?}: {}", ours.len());
        assert_eq!(theirs.len(), ours.len(), "{family:?}");
        assert!(theirs == ours, "{family:?}");
    }
}
