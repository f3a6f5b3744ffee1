//! Frames in memory: the addresses that they will carry, and a thread's rings of buffers a stride apart.

use corelane_host::HostError;
use corelane_host::counters::ThreadClock;
use corelane_measure::counters::Counters;
use corelane_packet::checksum::internet;
use corelane_stage::Batch;
use fastrand::Rng;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Bytes of a frame: the smallest of Ethernet without its check sequence is 60, and the post's payloads are "64 bytes".
pub const FRAME_BYTES: usize = 64;

/// Where buffers begin: at a page, so that a stride alone decides how they lie in a cache.
const ALIGNMENT: usize = 4096;

/// Where the IPv4 header of an untagged frame has its checksum, its source and its destination.
const CHECKSUM: usize = 14 + 10;
const ADDRESSES: usize = 14 + 12;

/// An untagged frame with a UDP datagram, without addresses and checksum: 50 bytes of IPv4, 22 of payload.
const TEMPLATE: [u8; FRAME_BYTES] = {
    let mut frame = [0; FRAME_BYTES];
    // Locally administered Ethernet addresses, EtherType of IPv4.
    (frame[0], frame[5], frame[6], frame[11]) = (2, 1, 2, 2);
    frame[12] = 0x08;
    // Version 4 and five words of header; total length; time to live; UDP.
    (frame[14], frame[17], frame[22], frame[23]) = (0x45, 50, 64, 17);
    // Ports 1024 and 8080, the posts' port; length of the datagram; no UDP checksum (RFC 768).
    (frame[34], frame[36], frame[37], frame[39]) = (4, 0x1f, 0x90, 30);
    frame
};

/// Source and destination of every frame to come, repeated from the beginning when they end.
pub struct Traffic {
    pairs: Vec<[Ipv4Addr; 2]>,
}

impl Traffic {
    /// Random pairs; each address is one of `entries` with a probability of one half, as far as there are entries.
    pub fn new(pairs: usize, entries: &[Ipv4Addr], random: &mut Rng) -> Traffic {
        let mut address = || {
            if entries.is_empty() || random.bool() {
                Ipv4Addr::from_bits(random.u32(..))
            } else {
                entries[random.usize(..entries.len())]
            }
        };
        Traffic {
            pairs: (0..pairs.max(1)).map(|_| [address(), address()]).collect(),
        }
    }

    /// The pair number `number`.
    fn pair(&self, number: usize) -> [Ipv4Addr; 2] {
        self.pairs[number % self.pairs.len()]
    }
}

/// The rings of one thread: slots that name buffers, and the buffers.
pub struct Rings {
    memory: Vec<u8>,
    first: usize,
    stride: usize,
    receive: Vec<u32>,
    transmit: Vec<u32>,
    next: usize,
}

impl Rings {
    /// Two rings of `slots` buffers each, `stride` bytes apart, in memory that is touched here.
    pub fn new(slots: usize, stride: usize) -> Rings {
        let bytes = 2 * slots * stride + FRAME_BYTES;
        let memory = vec![0; bytes + ALIGNMENT];
        let first = memory.as_ptr().addr().next_multiple_of(ALIGNMENT) - memory.as_ptr().addr();
        let slots = slots as u32;
        let mut rings = Rings {
            memory,
            first,
            stride,
            receive: (0..slots).collect(),
            transmit: (slots..2 * slots).collect(),
            next: 0,
        };
        for buffer in 0..2 * slots {
            let at = rings.at(buffer);
            rings.memory[at..at + FRAME_BYTES].copy_from_slice(&TEMPLATE);
        }
        rings
    }

    /// Receives a burst of frames with the pairs from number `first` on, and returns its slots: as many as requested,
    /// fewer at the end of the ring.
    pub fn receive(&mut self, frames: usize, traffic: &Traffic, first: usize) -> Range<usize> {
        let slots = self.next..self.receive.len().min(self.next + frames);
        self.next = slots.end % self.receive.len();
        for slot in slots.clone() {
            let at = self.at(self.receive[slot]);
            write(
                &mut self.memory[at..at + FRAME_BYTES],
                traffic.pair(first + slot - slots.start),
            );
        }
        slots
    }

    /// The frame in a slot of the receive ring.
    #[inline(always)]
    pub fn frame(&self, slot: usize) -> &[u8] {
        let at = self.at(self.receive[slot]);
        &self.memory[at..at + FRAME_BYTES]
    }

    /// Sends the frames of these slots: their buffers change places with those of the transmit ring, as netmap's bridge
    /// swaps them.
    #[inline(always)]
    pub fn forward(&mut self, slots: Range<usize>) {
        let (receive, transmit) = (&mut self.receive[slots.clone()], &mut self.transmit[slots]);
        receive.swap_with_slice(transmit);
    }

    #[inline(always)]
    fn at(&self, buffer: u32) -> usize {
        self.first + buffer as usize * self.stride
    }
}

/// The frames in some slots of the receive ring, as a batch.
pub struct Slots<'a> {
    rings: &'a mut Rings,
    slots: Range<usize>,
}

impl Slots<'_> {
    /// The frames in these slots.
    pub fn new(rings: &mut Rings, slots: Range<usize>) -> Slots<'_> {
        Slots { rings, slots }
    }
}

impl Batch for Slots<'_> {
    #[inline(always)]
    fn frames(&self) -> usize {
        self.slots.len()
    }

    #[inline(always)]
    fn frame(&self, number: usize) -> &[u8] {
        self.rings.frame(self.slots.start + number)
    }

    #[inline(always)]
    fn frame_mut(&mut self, number: usize) -> &mut [u8] {
        let at = self.rings.at(self.rings.receive[self.slots.start + number]);
        &mut self.rings.memory[at..at + FRAME_BYTES]
    }

    fn link(&self, _number: usize) -> usize {
        0
    }
}

/// Writes a whole frame, as a device does.
fn write(frame: &mut [u8], [source, destination]: [Ipv4Addr; 2]) {
    frame.copy_from_slice(&TEMPLATE);
    frame[ADDRESSES..ADDRESSES + 4].copy_from_slice(&source.octets());
    frame[ADDRESSES + 4..ADDRESSES + 8].copy_from_slice(&destination.octets());
    let checksum = internet(&frame[14..34]);
    frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// A byte of every frame that is zero: of the payload, in the frame's line.
const ZERO_BYTE: usize = 60;

/// Receives bursts for `duration` and fetches the headers of each one after the other, in an order that no prefetcher
/// guesses: where the next one is depends on a byte of the one before. Gives the time of one header, the median over
/// the bursts, so that what interrupts the thread does not count.
pub fn nanoseconds(
    stride: usize,
    slots: usize,
    burst: usize,
    traffic: &Traffic,
    random: &mut Rng,
    duration: Duration,
) -> Result<f64, HostError> {
    let mut rings = Rings::new(slots, stride);
    let mut order: Vec<usize> = (0..burst).collect();
    random.shuffle(&mut order);
    let clock = ThreadClock::of_this_thread();
    let (begun, mut times, mut next) = (Instant::now(), Vec::new(), 0);
    while times.is_empty() || begun.elapsed() < duration {
        let arrived = rings.receive(burst, traffic, next);
        next += burst;
        // Reading the order first brings it near, whatever the frames displaced.
        black_box(order.iter().sum::<usize>());
        let before = clock.read()?;
        let started = Instant::now();
        let mut zero = 0;
        for step in 0..burst {
            zero = usize::from(rings.frame(arrived.start + order[step + zero])[ZERO_BYTE]);
        }
        black_box(zero);
        let wall = started.elapsed();
        if clock.read()?.since(&before).waited_ns == 0 {
            times.push(wall.as_nanos() as f64 / burst as f64);
        }
        rings.forward(arrived);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_packet::Dissection;

    #[test]
    fn a_received_frame_carries_its_pair_and_a_right_checksum() {
        let traffic = Traffic::new(100, &[Ipv4Addr::new(192, 0, 2, 1)], &mut Rng::with_seed(1));
        let mut rings = Rings::new(8, 1920);
        for round in 0..5 {
            let first = round * 8;
            for slot in rings.receive(8, &traffic, first) {
                let frame = rings.frame(slot);
                let dissection = Dissection::of(frame).unwrap();
                let [source, destination] = traffic.pair(first + slot);
                assert_eq!(dissection.source(), source);
                assert_eq!(dissection.destination(), destination);
                assert_eq!(internet(&frame[14..34]), 0);
                assert_eq!(dissection.ports().unwrap().destination, 8080);
            }
            rings.forward(0..8);
        }
    }

    #[test]
    fn buffers_lie_a_stride_apart_and_change_places_between_the_rings() {
        let traffic = Traffic::new(1, &[], &mut Rng::with_seed(1));
        let mut rings = Rings::new(4, 2048);
        assert_eq!(rings.receive(3, &traffic, 0), 0..3);
        assert_eq!(rings.receive(3, &traffic, 0), 3..4, "bursts end with the ring");
        let address = |rings: &Rings, slot: usize| rings.frame(slot).as_ptr().addr();
        assert_eq!(address(&rings, 0) % ALIGNMENT, 0);
        assert_eq!(address(&rings, 1) - address(&rings, 0), 2048);
        let before = address(&rings, 0);
        rings.forward(0..4);
        assert_eq!(address(&rings, 0) - before, 4 * 2048);
        rings.forward(0..4);
        assert_eq!(address(&rings, 0), before);
    }

    #[test]
    fn half_of_the_addresses_are_entries() {
        let entry = Ipv4Addr::new(192, 0, 2, 1);
        let traffic = Traffic::new(10_000, &[entry], &mut Rng::with_seed(7));
        let present = traffic
            .pairs
            .iter()
            .flatten()
            .filter(|address| **address == entry)
            .count();
        assert!((9_500..10_500).contains(&present), "{present} of 20,000");
    }

    #[test]
    fn fetching_a_header_takes_time_and_ends() {
        let (mut random, mut order) = (Rng::with_seed(1), Rng::with_seed(2));
        let traffic = Traffic::new(100, &[], &mut random);
        let time = nanoseconds(2048, 256, 64, &traffic, &mut order, Duration::from_millis(1)).unwrap();
        assert!(time > 0.0 && time.is_finite(), "{time}");
    }
}
