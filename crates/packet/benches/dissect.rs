//! Compares the rate of dissecting and hashing frames with the rate at which `etherparse` slices them without hashing.
//! The frames have 64 bytes and are in memory. Rounds are interleaved; the results are medians and ratios of one run.

use corelane_packet::{Dissection, HashTypes};
use corelane_rss::{Key, Toeplitz};
use etherparse::{PacketBuilder, SlicedPacket};
use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Duration;

/// Frames per pass: 256 KiB, so that the rate is not limited by memory.
const FRAMES: usize = 4096;

/// Passes per round, and rounds.
const PASSES: usize = 20;
const ROUNDS: usize = 51;

fn main() {
    println!("64-byte frames, ns each (median of {ROUNDS} rounds)");
    println!(
        "{:24} {:>10} {:>10} {:>14} {:>8}",
        "frames", "etherparse", "dissect", "dissect + hash", "ratio"
    );
    for (name, frames) in [
        ("IPv4 UDP", frames(Kind::V4Udp)),
        ("IPv4 TCP", frames(Kind::V4Tcp)),
        ("IPv6 UDP", frames(Kind::V6Udp)),
        ("IPv4 UDP, two VLAN tags", frames(Kind::Tagged)),
    ] {
        compare(name, &frames);
    }
}

fn compare(name: &str, frames: &[[u8; 64]]) {
    let toeplitz = Toeplitz::new(&Key::VERIFICATION);
    let slice = |frame: &[u8]| {
        SlicedPacket::from_ethernet(frame).is_ok_and(|sliced| black_box(&sliced).net.is_some())
    };
    let dissect =
        |frame: &[u8]| Dissection::of(frame).is_ok_and(|dissection| !black_box(&dissection).is_truncated());
    let hash = |frame: &[u8]| {
        let dissection = Dissection::of(frame).expect("frames of this benchmark are IP");
        let input = dissection
            .rss_input(HashTypes::ALL)
            .expect("every type is enabled");
        black_box(input.hash(&toeplitz)).value != 1
    };
    let mut samples = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        samples[0].push(nanoseconds_a_frame(frames, slice));
        samples[1].push(nanoseconds_a_frame(frames, dissect));
        samples[2].push(nanoseconds_a_frame(frames, hash));
    }
    let [sliced, dissected, hashed] = samples.map(median);
    println!(
        "{name:24} {sliced:>10.2} {dissected:>10.2} {hashed:>14.2} {:>8.2}",
        sliced / hashed
    );
}

fn nanoseconds_a_frame(frames: &[[u8; 64]], work: impl Fn(&[u8]) -> bool) -> f64 {
    let start = processor_time();
    let mut done = 0;
    for _ in 0..PASSES {
        done += frames.iter().filter(|frame| work(&black_box(frame)[..])).count();
    }
    assert_eq!(done, PASSES * frames.len(), "every frame is understood");
    (processor_time() - start).as_nanos() as f64 / done as f64
}

/// CPU time of this thread; unaffected by other processes.
fn processor_time() -> Duration {
    let clock = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    clock.into()
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

#[derive(Clone, Copy)]
enum Kind {
    V4Udp,
    V4Tcp,
    V6Udp,
    Tagged,
}

fn frames(kind: Kind) -> Vec<[u8; 64]> {
    (0..FRAMES as u32).map(|number| frame(kind, number)).collect()
}

/// A frame of 64 bytes (without check sequence); `number` selects the flow.
fn frame(kind: Kind, number: u32) -> [u8; 64] {
    let [_, a, b, c] = (number.wrapping_mul(0x9e37_79b9)).to_be_bytes();
    let (port, client, server) = (1024 + number as u16, [10, a, b, c], [10, 11, 2, 1]);
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let mut frame = Vec::new();
    let padded = |header: usize| vec![0; 64 - header];
    match kind {
        Kind::V4Udp => ethernet
            .ipv4(client, server, 64)
            .udp(port, 8080)
            .write(&mut frame, &padded(42)),
        Kind::V4Tcp => {
            let tcp = ethernet.ipv4(client, server, 64).tcp(port, 8080, number, 1024);
            tcp.write(&mut frame, &padded(54))
        }
        Kind::V6Udp => {
            let (mut source, destination) = ([0x20; 16], [0x21; 16]);
            source[12..].copy_from_slice(&client);
            let udp = ethernet.ipv6(source, destination, 64).udp(port, 8080);
            udp.write(&mut frame, &padded(62))
        }
        Kind::Tagged => {
            let (outer, inner) = (100_u16.try_into(), 200_u16.try_into());
            let tagged = ethernet.double_vlan(outer.expect("below 4096"), inner.expect("below 4096"));
            tagged
                .ipv4(client, server, 64)
                .udp(port, 8080)
                .write(&mut frame, &padded(50))
        }
    }
    .expect("writing to memory");
    frame.try_into().expect("payloads pad to 64 bytes")
}
