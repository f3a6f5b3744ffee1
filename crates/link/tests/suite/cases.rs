//! Properties of every link.

use super::worlds::World;
use corelane_link::{AnyLink, Link, Sent};
use corelane_tests::until;

pub type Case = fn(&mut World);

pub const ALL: &[(&str, Case)] = &[
    (
        "frames arrive whole and in order, both ways",
        frames_arrive_whole_and_in_order_both_ways,
    ),
    (
        "a burst has no more frames than requested",
        a_burst_has_no_more_frames_than_asked_for,
    ),
    (
        "more frames than buffers arrive if both ends keep up",
        more_frames_than_buffers_arrive,
    ),
    (
        "a received frame can be edited where it lies",
        a_received_frame_can_be_edited,
    ),
    (
        "a frame that is too long is refused and the others go",
        a_frame_that_is_too_long_is_refused,
    ),
    ("what both ends count agrees", what_both_ends_count_agrees),
];

/// A frame of `length` bytes with its number, of a local experimental protocol (IEEE 802, 0x88b5) so that no network
/// stack answers. All belong to one flow, so they arrive in order.
fn frame(number: usize, length: usize) -> Vec<u8> {
    let mut frame = vec![0x02, 0x63, 0x6c, 0, 0, 9, 0x02, 0x63, 0x6c, 0, 0, 8, 0x88, 0xb5];
    frame.extend((number as u32).to_be_bytes());
    frame.extend((frame.len()..length).map(|index| (index * 7 + number) as u8));
    frame
}

/// Receives from all queues until there are `wanted` frames.
fn collect(links: &mut [AnyLink], wanted: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    until("all frames arrive", || {
        for link in &mut *links {
            frames.extend(link.receive(64).unwrap().iter().map(<[u8]>::to_vec));
        }
        frames.len() >= wanted
    });
    frames
}

fn send(link: &mut AnyLink, frames: &[Vec<u8>]) -> Sent {
    link.send(frames.iter().map(Vec::as_slice)).unwrap()
}

fn frames_arrive_whole_and_in_order_both_ways(world: &mut World) {
    let frames: Vec<Vec<u8>> = (0..200).map(|number| frame(number, 60 + number * 7)).collect();
    for _ in 0..2 {
        let sent = send(&mut world.left[0], &frames);
        assert_eq!((sent.taken, sent.oversized, sent.full), (200, 0, 0));
        assert_eq!(collect(&mut world.right, 200), frames);
        assert_eq!(send(&mut world.right[0], &frames[..150]).taken, 150);
        assert_eq!(collect(&mut world.left, 150), frames[..150]);
    }
}

fn a_burst_has_no_more_frames_than_asked_for(world: &mut World) {
    let frames: Vec<Vec<u8>> = (0..10).map(|number| frame(number, 100)).collect();
    send(&mut world.left[0], &frames);
    let mut came = Vec::new();
    until("all frames arrive", || {
        for link in &mut world.right {
            let burst = link.receive(3).unwrap();
            assert!(burst.len() <= 3);
            came.extend(burst.iter().map(<[u8]>::to_vec));
        }
        came.len() >= 10
    });
    assert_eq!(came, frames);
}

fn more_frames_than_buffers_arrive(world: &mut World) {
    for round in 0..100 {
        let frames: Vec<Vec<u8>> = (0..100).map(|number| frame(round * 100 + number, 64)).collect();
        let mut left = &frames[..];
        let mut came = Vec::new();
        until("the frames of a round arrive", || {
            left = &left[send(&mut world.left[0], left).taken..];
            for link in &mut world.right {
                came.extend(link.receive(64).unwrap().iter().map(<[u8]>::to_vec));
            }
            came.len() >= 100
        });
        assert_eq!(came, frames, "round {round}");
    }
}

fn a_received_frame_can_be_edited(world: &mut World) {
    send(&mut world.left[0], &[frame(7, 60), frame(8, 60)]);
    let mut edited = 0;
    until("both frames arrive", || {
        for link in &mut world.right {
            let mut burst = link.receive(8).unwrap();
            for number in 0..burst.len() {
                burst.prefetch(number);
                burst.frame_mut(number)[0] = 0x06;
                assert_eq!(burst.frame(number)[0], 0x06);
                assert_eq!(burst.frame(number)[1], 0x63);
                assert_eq!(burst.wire_length(number), 60);
                edited += 1;
            }
        }
        edited >= 2
    });
}

fn a_frame_that_is_too_long_is_refused(world: &mut World) {
    let longest = world.left[0].longest();
    let frames = [frame(0, 60), frame(1, longest + 1), frame(2, 60)];
    let sent = send(&mut world.left[0], &frames);
    assert_eq!((sent.taken, sent.oversized, sent.full), (2, 1, 0));
    assert_eq!(collect(&mut world.right, 2), [frame(0, 60), frame(2, 60)]);
}

fn what_both_ends_count_agrees(world: &mut World) {
    let frames: Vec<Vec<u8>> = (0..50).map(|number| frame(number, 60 + number)).collect();
    let bytes: usize = frames.iter().map(Vec::len).sum();
    send(&mut world.left[0], &frames);
    collect(&mut world.right, 50);
    let sent = world.left[0].tally();
    assert_eq!(
        (sent.sent, sent.sent_bytes, sent.send_failed),
        (50, bytes as u64, 0)
    );
    let (mut received, mut received_bytes) = (0, 0);
    for link in &world.right {
        let tally = link.tally();
        received += tally.received;
        received_bytes += tally.received_bytes;
        assert_eq!((tally.receive_dropped, tally.receive_invalid), (0, 0));
    }
    assert_eq!((received, received_bytes), (50, bytes as u64));
}
