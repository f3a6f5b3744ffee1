//! Arbitrary bytes as a batch of segments, changed anywhere and with checksums made right again or not: whatever is merged is
//! cut into the same frames, and none is lost. For an hour: `tests/fuzz.sh 60 coalesce`.

#![no_main]

use corelane_packet::{Dissection, IpProtocol, checksum, finish_checksum};
use corelane_rss::Key;
use corelane_stage::coalescing::{self, Acknowledgments, Coalescing, Grouping, Plan, Push};
use corelane_stage::segmenting::{self, Segmenting};
use corelane_stage::{Desk, Stage, Work};
use std::sync::Arc;
use std::time::Instant;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let frames = frames(bytes);
    for grouping in [Grouping::Sorted, Grouping::List] {
        let exact = Plan { grouping, ..Plan::default() };
        let (mut back, _) = there_and_back(exact, &frames);
        let mut sent = frames.clone();
        back.sort_unstable();
        sent.sort_unstable();
        assert_eq!(back, sent);
        let all = Plan {
            push: Push::Merge,
            acks: Acknowledgments::Merge,
            grouping,
        };
        let (back, replaced) = there_and_back(all, &frames);
        assert_eq!(back.len() + replaced, frames.len());
    }
});

/// What leaves both stages, and how many acknowledgments were replaced.
fn there_and_back(plan: Plan, frames: &[Vec<u8>]) -> (Vec<Vec<u8>>, usize) {
    let (merged, cut) = (Arc::<coalescing::Counts>::default(), Arc::<segmenting::Counts>::default());
    let coalescing = Coalescing::new(plan, &Key::VERIFICATION, Arc::clone(&merged));
    let mut stages = (coalescing, Segmenting::new(Arc::clone(&cut)));
    let (mut desk, mut lent) = (Desk::default(), frames.to_vec());
    let mut work = Work::new(&mut desk, &mut lent, Instant::now());
    work.read();
    stages.run(&mut work);
    let places = (0..work.len()).filter(|place| work.goes_on(*place));
    let left = places.map(|place| work.frame(place).to_vec()).collect();
    let used = merged.segments.get() - merged.aggregations.get();
    let added = cut.segments.get() - cut.merged.get();
    (left, (used - added) as usize)
}

/// Each frame is six bytes: the flow, the number of its segment, what is changed, where, and the length of its payload.
fn frames(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (each, _) = bytes.as_chunks();
    each.iter().map(|[flow, number, how, at, value, length]| {
        let mut frame = segment(*flow, *number, usize::from(*length) % 64);
        let at = usize::from(*at) % frame.len();
        match how % 4 {
            0 => {}
            1 => frame[at] ^= value,
            2 => frame.truncate(at),
            _ => frame.extend(vec![*value; at]),
        }
        if how & 4 == 0 {
            make_right(&mut frame);
        }
        frame
    })
    .collect()
}

fn segment(flow: u8, number: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    let tcp = (20 + length) as u8;
    if flow & 1 == 0 {
        frame.extend([0x08, 0x00, 0x45, 0, 0, 20 + tcp, 0, number, 0x40, 0, 64, 6, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, tcp, 6, 64]);
        frame.extend([7; 32]);
    }
    let sequence = u32::from(number).wrapping_mul(32).wrapping_sub(128);
    frame.extend([4, flow, 0, 80]);
    frame.extend(sequence.to_be_bytes());
    frame.extend([0, 0, 0, 9, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    frame.extend((0..length).map(|byte| byte as u8 ^ number));
    frame
}

/// Computes the checksums of a TCP packet.
fn make_right(frame: &mut [u8]) {
    let Ok(dissection) = Dissection::of(frame) else { return };
    if dissection.protocol() != IpProtocol::TCP || dissection.is_part() {
        return;
    }
    let (network, transport) = (dissection.network_offset(), dissection.transport_offset());
    let sum = !checksum::finished(dissection.pseudo_header_sum());
    if dissection.source().is_ipv4() {
        frame[network + 10..network + 12].fill(0);
        let sum = checksum::internet(&frame[network..transport]);
        frame[network + 10..network + 12].copy_from_slice(&sum.to_be_bytes());
    }
    if let Some(field) = frame.get_mut(transport + 16..transport + 18) {
        field.copy_from_slice(&sum.to_be_bytes());
        finish_checksum(frame);
    }
}
