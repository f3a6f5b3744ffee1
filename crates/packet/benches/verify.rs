//! Measures the time of verifying a capture as a multiple of the time of only reading it. The capture has 64-byte
//! frames and is read from the page cache by one reader. Rounds are interleaved; the results are medians and ratios of
//! one run. `cargo bench --bench verify -- 10000000` uses that many frames instead of a million.

use corelane_packet::HashTypes;
use corelane_packet::verify::{Observed, Queue, Rule, Verifier};
use etherparse::PacketBuilder;
use nix::time::{ClockId, clock_gettime};
use pcap_file::pcap::{PcapPacket, PcapReader, PcapWriter};
use std::fs::{self, File};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default number of frames of the capture.
const FRAMES: u32 = 1_000_000;

/// Rounds, and the flows that the frames belong to.
const ROUNDS: usize = 7;
const FLOWS: u32 = 100_000;

fn main() {
    let frames = std::env::args().find_map(|argument| argument.parse().ok());
    let frames = frames.unwrap_or(FRAMES);
    println!("{frames} frames of 64 bytes, {FLOWS} flows, ns per frame (median of {ROUNDS} rounds)");
    println!("{:34} {:>8} {:>8} {:>6}", "capture", "read", "verify", "ratio");
    for (name, transport, observed) in [
        ("UDP, nothing observed", Transport::Udp, Seen::Nothing),
        ("UDP, hash and queue, all right", Transport::Udp, Seen::Right),
        ("TCP, nothing observed", Transport::Tcp, Seen::Nothing),
        ("TCP, hash and queue, all right", Transport::Tcp, Seen::Right),
        ("UDP, hash and queue, all wrong", Transport::Udp, Seen::Wrong),
    ] {
        let capture = Capture::write(transport, frames);
        compare(name, &capture.path, frames, observed);
    }
}

#[derive(Clone, Copy)]
enum Transport {
    Tcp,
    Udp,
}

/// The metadata of each frame: what a device would report, looked up by the frame's position.
#[derive(Clone, Copy)]
enum Seen {
    Nothing,
    Right,
    Wrong,
}

fn compare(name: &str, path: &Path, frames: u32, seen: Seen) {
    let rule = Rule {
        hash_types: HashTypes::FOUR_TUPLE,
        transform: corelane_rss::Transform::Plain,
        ..Rule::of_queues(8).expect("128 entries take 8 queues")
    };
    let reports = reported(path, &rule, seen);
    let (mut reads, mut verifies) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = processor_time();
        let mut bytes = 0;
        for_each_frame(path, |frame| bytes += black_box(frame).len());
        assert_eq!(bytes, 64 * frames as usize);
        reads.push((processor_time() - start).as_nanos() as f64 / f64::from(frames));

        let start = processor_time();
        let mut verifier = Verifier::new(&rule);
        let mut next = 0;
        for_each_frame(path, |frame| {
            let observed = reports.get(next).copied().unwrap_or_default();
            next = if next + 1 < reports.len() { next + 1 } else { 0 };
            verifier.frame(frame, observed);
        });
        let misplaced = black_box(verifier.report()).misplaced;
        assert_eq!(misplaced > 0, matches!(seen, Seen::Wrong));
        verifies.push((processor_time() - start).as_nanos() as f64 / f64::from(frames));
    }
    let (read, verify) = (median(reads), median(verifies));
    println!("{name:34} {read:>8.2} {verify:>8.2} {:>6.2}", verify / read);
}

/// What a device reports for the frames of each flow: the flows alternate, so one cycle is enough.
fn reported(path: &Path, rule: &Rule, seen: Seen) -> Vec<Observed> {
    let mut reports = Vec::new();
    if matches!(seen, Seen::Nothing) {
        return reports;
    }
    let toeplitz = corelane_rss::Toeplitz::new(&rule.key);
    for_each_frame(path, |frame| {
        if reports.len() < FLOWS as usize {
            let dissection = corelane_packet::Dissection::of(frame).expect("frames of this benchmark are IP");
            let input = dissection.rss_input(rule.hash_types).expect("all are hashed");
            let hash = input.hash(&toeplitz).value ^ u32::from(matches!(seen, Seen::Wrong));
            let queue = Queue(rule.table.bucket(hash).index() as u16);
            reports.push(Observed {
                hash: Some(hash),
                queue: Some(queue),
                sequence: None,
            });
        }
    });
    reports
}

fn for_each_frame(path: &Path, mut take: impl FnMut(&[u8])) {
    let file = File::open(path).expect("the capture was written");
    let mut reader = PcapReader::new(file).expect("a capture");
    while let Some(packet) = reader.next_packet() {
        take(&packet.expect("a whole record").data);
    }
}

/// A capture file that is deleted on drop.
struct Capture {
    path: PathBuf,
}

impl Capture {
    fn write(transport: Transport, frames: u32) -> Capture {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("verify-{}.pcap", std::process::id()));
        let file = std::io::BufWriter::new(File::create(&path).expect("a writable target folder"));
        let mut writer = PcapWriter::new(file).expect("a header");
        let flows: Vec<_> = (0..FLOWS).map(|flow| frame(transport, flow)).collect();
        for (number, frame) in (0..frames).zip(flows.iter().cycle()) {
            let packet = PcapPacket::new(Duration::from_micros(number.into()), 64, frame);
            writer.write_packet(&packet).expect("room for the capture");
        }
        Capture { path }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        fs::remove_file(&self.path).expect("the capture is still there");
    }
}

/// A frame of 64 bytes that belongs to a flow.
fn frame(transport: Transport, flow: u32) -> Vec<u8> {
    let [_, a, b, c] = flow.wrapping_mul(0x9e37_79b9).to_be_bytes();
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let ip = ethernet.ipv4([10, a, b, c], [10, 11, 2, 1], 64);
    let port = 1024 + flow as u16 % 60_000;
    let mut frame = Vec::new();
    match transport {
        Transport::Tcp => ip.tcp(port, 8080, flow, 1024).write(&mut frame, &[0; 10]),
        Transport::Udp => ip.udp(port, 8080).write(&mut frame, &[0; 22]),
    }
    .expect("writing to memory");
    frame
}

/// CPU time of this thread, including the kernel's for its reads; unaffected by other processes.
fn processor_time() -> Duration {
    let clock = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    clock.into()
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
