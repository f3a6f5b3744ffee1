//! Frames with the device's hash and queue, on a loopback device that nobody else uses: the hash is the sender's, and
//! there are no queues.

use corelane_host::bed::switch_on;
use corelane_rss::{HashFields, IndirectionTable, Key, Steering};
use corelane_tests::{undisturbed, until};
use corelane_worker::WatchError;
use corelane_worker::received::{ReceivedFrame, Receiver};
use nix::sched::{CloneFlags, unshare};
use std::net::UdpSocket;

/// The number of frames to wait for.
const FRAMES: u8 = 50;

#[test]
fn every_frame_is_reported_once_and_whole_with_one_hash_per_flow() {
    let in_namespace = || match unshare(CloneFlags::CLONE_NEWNET) {
        Ok(()) => {
            switch_on("lo").unwrap();
            undisturbed(check_frames);
        }
        Err(error) => eprintln!("skipped: a network namespace: {error}"),
    };
    std::thread::spawn(in_namespace).join().unwrap();
}

fn check_frames() {
    let mut receiver = match Receiver::new("lo") {
        Ok(receiver) => receiver,
        Err(error @ WatchError::NotPermitted) => {
            eprintln!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let to = UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = UdpSocket::bind("127.0.0.1:0").unwrap();
    from.connect(to.local_addr().unwrap()).unwrap();
    let port = to.local_addr().unwrap().port().to_be_bytes();
    let (mut found, mut number) = (Vec::<ReceivedFrame>::new(), 0_u8);
    // The kernel starts to timestamp frames shortly after the request: earlier frames stay incomplete.
    until("the frames are seen", || {
        from.send(&[number; 4]).unwrap();
        number = number.wrapping_add(1);
        let mut take = |frame: ReceivedFrame| {
            if frame.bytes.len() >= 46 && frame.bytes[36..38] == port {
                found.push(frame);
            }
        };
        receiver.drain(&mut take).unwrap();
        found.len() >= usize::from(FRAMES)
    });
    for frame in &found {
        assert_eq!(frame.bytes[12..14], [0x08, 0x00]);
        assert_eq!(frame.hash, found[0].hash, "one flow, one hash");
        assert_eq!(frame.queue, None);
    }
    let payloads: Vec<u8> = found.iter().map(|frame| frame.bytes[42]).collect();
    assert!(
        payloads.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)),
        "{payloads:?}"
    );
}

#[test]
fn more_buckets_or_steerings_than_are_told_apart_are_refused() {
    let steering = |buckets: usize| Steering {
        key: Key::VERIFICATION,
        hash_fields: HashFields::FourTuple,
        table: IndirectionTable::round_robin(128, buckets).unwrap(),
        cpus: vec![0; buckets],
        generation: 0,
    };
    for steerings in [vec![steering(33)], vec![steering(2); 21]] {
        let error = Receiver::of_heads("lo", &steerings).unwrap_err().to_string();
        assert_eq!(error, "frames are read with 20 steerings of 32 buckets at most");
    }
    // No device, but the steerings fit.
    let error = Receiver::of_heads("none0", &[(); 20].map(|()| steering(32))).unwrap_err();
    assert!(matches!(error, WatchError::NoDevice { .. }), "{error}");
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let error = Receiver::new("none0").unwrap_err();
    assert!(error.to_string().contains("no device none0"), "{error}");
}
