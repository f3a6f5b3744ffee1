//! Frames go into tunnels and come out of them.

mod apart;
mod decapsulation;
mod encapsulation;
mod esp;
mod esp_elsewhere;
#[path = "../../../packet/tests/common/frames.rs"]
#[allow(dead_code, reason = "the builder of another crate's tests has more shapes")]
mod frames;
mod inner_flows;

use crate::common::Lent;
use corelane_stage::{Desk, Stage, Work};
use frames::{V4, V6};
use std::time::Instant;

/// What leaves a stage of frames that come from these links.
pub fn run_from(stage: &mut impl Stage, frames: &[(usize, Vec<u8>)]) -> Vec<Vec<u8>> {
    let (mut desk, mut lent) = (Desk::default(), Lent(frames.to_vec()));
    let mut work = Work::new(&mut desk, &mut lent, Instant::now());
    work.read();
    stage.run(&mut work);
    work.settle();
    let left = (0..work.len()).filter(|place| work.goes_on(*place));
    left.map(|place| work.frame(place).to_vec()).collect()
}

/// What leaves a stage of one frame.
pub fn run(stage: &mut impl Stage, frame: &[u8]) -> Option<Vec<u8>> {
    let mut left = run_from(stage, &[(0, frame.to_vec())]);
    assert!(left.len() <= 1);
    left.pop()
}

/// Tags: none, one, two.
pub const TAGS: [&[(u16, u16)]; 3] = [&[], &[(0x8100, 5)], &[(0x88a8, 100), (0x8100, 0x2007)]];

/// A packet of each family, and its type.
pub fn packets() -> [(u16, Vec<u8>); 2] {
    let datagram = frames::udp(2794, 1766, b"payload");
    [
        (0x0800, V4::SUITE.packet(&datagram)),
        (0x86dd, V6::suite(vec![], 17).packet(&datagram)),
    ]
}
