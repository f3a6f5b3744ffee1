//! Merged frames are cut into what they were made of.

use super::{Tcp, segment, there_and_back};
use corelane_stage::coalescing::Plan;

#[test]
fn segments_are_byte_for_byte_what_arrived() {
    for v6 in [false, true] {
        let mut batch: Vec<Tcp> = (0..40)
            .map(|number: u32| segment(v6, 1024, (999 * number).wrapping_sub(2000), &[number as u8; 999]))
            .collect();
        batch[39].payload.truncate(5);
        batch[39].tcp.psh = true;
        for (number, segment) in batch.iter_mut().enumerate() {
            segment.tags = vec![3, 4];
            if !v6 {
                segment.v4().identification = 65_530_u16.wrapping_add(number as u16);
            }
        }
        let frames: Vec<Vec<u8>> = batch.iter().map(Tcp::frame).collect();
        let (back, counts) = there_and_back(
            Plan::default(),
            frames.iter().cloned().map(|frame| (0, frame)).collect(),
        );
        assert_eq!(back, frames);
        assert_eq!((counts.merged.get(), counts.segments.get()), (1, 40));
    }
}

#[test]
fn segments_leave_in_the_place_of_the_merged_frame() {
    let one = |port, number: u32| segment(false, port, 100 * number, &[7; 100]).frame();
    let frames = [one(1, 0), one(2, 0), one(1, 1), one(3, 0), one(2, 1)];
    let (back, _) = there_and_back(Plan::default(), frames.map(|frame| (0, frame)).to_vec());
    assert_eq!(back, [one(1, 0), one(1, 1), one(2, 0), one(2, 1), one(3, 0)]);
}

#[test]
fn equal_identifications_stay_equal() {
    let batch = [0, 1, 2].map(|number| {
        let mut segment = segment(false, 1, 100 * number, &[7; 100]);
        segment.v4().identification = 0;
        (0, segment.frame())
    });
    let (back, counts) = there_and_back(Plan::default(), batch.to_vec());
    assert_eq!(back, batch.map(|(_, frame)| frame));
    assert_eq!(counts.merged.get(), 1);
}
