//! Arbitrary fragments, also of few datagrams: what leaves is whole, memory stays within its limit, every fragment is in one count;
//! and what was made whole is itself again after it was cut. For an hour: `tests/fuzz.sh 60 reassemble`.

#![no_main]

use corelane_packet::{Dissection, checksum};
use corelane_stage::fragmenting::{self, Fragmenting};
use corelane_stage::reassembly::{Counts, Overlap, OverlapIpv6, Plan, Reassembly};
use corelane_stage::{Desk, Stage, Work};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MEMORY: u64 = 16 << 10;
const MTU: u16 = 100;

/// The frames that leave, each with whether it was made. Those that come may be cut as this identification says.
fn run(
    stage: &mut impl Stage,
    frames: Vec<Vec<u8>>,
    now: Instant,
    cut_as: Option<u32>,
) -> Vec<(bool, Vec<u8>)> {
    let (mut desk, mut lent) = (Desk::default(), frames);
    let mut work = Work::new(&mut desk, &mut lent, now);
    work.read();
    if let Some(identification) = cut_as {
        (0..work.len()).for_each(|place| work.set_cut_as(place, identification));
    }
    stage.run(&mut work);
    work.settle();
    let leaving = (0..work.len()).filter(|place| work.goes_on(*place));
    leaving
        .map(|place| (work.cut_as(place).is_some(), work.frame(place).to_vec()))
        .collect()
}

/// A fragment of few datagrams, from eight bytes; or the bytes behind them as they are.
fn frame(head: [u8; 8], rest: &mut &[u8]) -> Vec<u8> {
    let [kind, id, offset, length, seed, class, far, _] = head;
    if kind & 1 != 0 {
        let (frame, behind) = rest.split_at(rest.len().min(length.into()));
        *rest = behind;
        return frame.to_vec();
    }
    let more = kind & 2 != 0;
    let offset = u16::from(offset & 31) * 8 + if far & 128 != 0 { u16::from(far) << 8 } else { 0 };
    let data = vec![seed; length.into()];
    match kind & 4 {
        0 => {
            let field = offset / 8 | u16::from(more) << 13 | u16::from(kind & 8) << 11;
            let mut packet = vec![0x45, class & 3, 0, 0, 0, id & 3];
            packet[2..4].copy_from_slice(&(20 + data.len() as u16).to_be_bytes());
            packet.extend(field.to_be_bytes());
            packet.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            let sum = checksum::internet(&packet).to_be_bytes();
            packet[10..12].copy_from_slice(&sum);
            [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0], &packet[..], &data].concat()
        }
        _ => {
            let mut packet = vec![0x60, class << 4, 0, 0, 0, 0, 44, 64];
            packet[4..6].copy_from_slice(&(8 + data.len() as u16).to_be_bytes());
            packet.extend([0x20; 32]);
            // Of experiments, another fragment header, or destination options.
            let next = [253, 44, 60, 253][usize::from(kind >> 4 & 3)];
            packet.extend([next, 0]);
            packet.extend((offset | u16::from(more)).to_be_bytes());
            packet.extend([0, 0, 0, id & 3]);
            [
                &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd],
                &packet[..],
                &data,
            ]
            .concat()
        }
    }
}

fn unaccounted(counts: &Counts) -> u64 {
    let cells = [
        &counts.made_whole,
        &counts.duplicate,
        &counts.overlap,
        &counts.contradicts_end,
        &counts.empty,
        &counts.unaligned,
        &counts.truncated,
        &counts.checksum,
        &counts.tiny_first,
        &counts.too_long,
        &counts.nested,
        &counts.ecn,
        &counts.timeout,
        &counts.no_memory,
        &counts.too_many_datagrams,
        &counts.too_many_fragments,
        &counts.ended,
        &counts.waiting,
    ];
    let counted: u64 = cells.iter().map(|count| count.get()).sum();
    counts.fragments.get() - counted
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [policies, behind @ ..] = bytes else { return };
    let mut rest = behind;
    let plan = Plan {
        overlap_ipv4: [Overlap::Linux, Overlap::Drop, Overlap::Trim][usize::from(policies % 3)],
        overlap_ipv6: [OverlapIpv6::Linux, OverlapIpv6::Drop][usize::from(policies / 3 % 2)],
        memory: MEMORY,
        datagrams: 5,
        fragments: 9,
        ..Plan::default()
    };
    let counts = Arc::new(Counts::default());
    let mut stage = Reassembly::new(plan, 3, Arc::clone(&counts));
    let mut now = Instant::now();
    while let Some((head, behind)) = rest.split_first_chunk() {
        rest = behind;
        now += Duration::from_secs((head[7] & 15).into());
        let frame = frame(*head, &mut rest);
        let left = run(&mut stage, vec![frame.clone()], now, None);
        assert_eq!(unaccounted(&counts), 0);
        assert!(counts.memory.get() <= MEMORY && counts.datagrams_waiting.get() <= 5);
        assert!(left.len() <= 1);
        for (was_made, whole) in left {
            match was_made {
                true => made(&whole),
                false => assert!(whole == frame, "what is no fragment passes"),
            }
        }
    }
    let mut desk = Desk::default();
    stage.end(&mut Work::new(&mut desk, &mut Vec::<Vec<u8>>::new(), now));
    assert_eq!(
        (counts.waiting.get(), counts.memory.get(), unaccounted(&counts)),
        (0, 0, 0)
    );
});

/// A datagram that was made whole, cut and made whole, is itself.
fn made(whole: &[u8]) {
    let packet = Dissection::of(whole).expect("its headers are right");
    assert!(!packet.is_fragment() && packet.packet_end() == whole.len());
    let network = packet.network_offset();
    let is_v6 = whole[network] >> 4 == 6;
    if !is_v6 && whole[network + 6] & 0x40 != 0 {
        return;
    }
    let cutting = fragmenting::Plan { mtu: MTU };
    let cut = run(
        &mut Fragmenting::new(&cutting, Arc::default()),
        vec![whole.to_vec()],
        Instant::now(),
        is_v6.then_some(7),
    );
    let cut: Vec<Vec<u8>> = cut.into_iter().map(|(_, frame)| frame).collect();
    assert!(cut.iter().all(|frame| frame.len() <= network + usize::from(MTU)));
    let mut stage = Reassembly::new(Plan::default(), 1, Arc::default());
    let again = run(&mut stage, cut, Instant::now(), None);
    assert!(again.len() == 1 && again[0].1 == whole);
}
