//! Datagrams of IPv4 in two fragments of 64 bytes, made whole: against smoltcp's reassembly, and against frames that are only
//! received, dissected, hashed and sent. The fragments of a datagram arrive one after the other, or those of many datagrams
//! interleaved: all first ones, then all second ones. smoltcp is built for the 32 that it offers at most. Rings in memory,
//! batches of 32 frames, one CPU, one run, interleaved rounds; the results are medians and ratios.
//!
//! Only what receives and sends is timed: frames are put into the ring before, and taken out of the other ring after. A rate is
//! that of fragments whose datagrams left; of a round, that of its median turn, so that a turn during which another program
//! had the CPU does not count. smoltcp delivers to a UDP socket, whose data is sent. Both verify the checksum of IPv4
//! headers.

use corelane_link::memory::{MemoryLink, pair};
use corelane_link::{Burst, FrameLayout, Link};
use corelane_packet::{Dissection, HashTypes, checksum};
use corelane_rss::{Key, Toeplitz};
use corelane_stage::reassembly::{Plan, Reassembly};
use corelane_stage::{Batch, Desk, Stage, Work};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::udp;
use smoltcp::time::Duration;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const BATCH: usize = 32;
const FRAME: usize = 64;
/// Bytes of a frame's Ethernet and IP headers.
const HEADERS: usize = 34;
/// Data of the first fragment: a multiple of 8.
const FIRST: usize = 24;

const ROUNDS: usize = 101;
const TURNS: usize = 100;

type Frame = [u8; FRAME];

fn main() {
    // `cargo test --benches` only checks that the benchmark runs.
    let quick = std::env::args().any(|argument| argument == "--test");
    let (rounds, turns) = if quick { (1, 2) } else { (ROUNDS, TURNS) };
    println!("datagrams at a time  reassembly   smoltcp  only hashed  to smoltcp  to only hashed");
    println!("                     M fragments/s          M frames/s  (4 is wanted)  (0.17 is)");
    for at_a_time in [1, 32, 256] {
        compare(at_a_time, rounds, turns);
    }
}

fn compare(at_a_time: usize, rounds: usize, turns: usize) {
    let toeplitz = Toeplitz::new(&Key::VERIFICATION);
    let mut reassembly = Reassembly::new(Plan::default(), 1, Arc::default());
    let (mut ours, mut hashing, mut smoltcp) = (Rings::new(), Rings::new(), Smoltcp::new());
    let mut found: [Vec<f64>; 3] = Default::default();
    let mut ids = (0..1 << 6).cycle();
    for _ in 0..rounds {
        let mut rates: [Vec<f64>; 3] = Default::default();
        for _ in 0..turns {
            let fragments = fragments(at_a_time, ids.next().unwrap_or_default() << 8);
            let plain = vec![datagram(); fragments.len()];
            let (took, left) = ours.run(&fragments, |work| {
                work.read();
                reassembly.run(work);
            });
            assert_eq!(2 * left, fragments.len(), "every datagram");
            rates[0].push(fragments.len() as f64 / took);
            let (took, left) = smoltcp.run(&fragments);
            assert!(left == fragments.len() / 2 || at_a_time > 32);
            rates[1].push((2 * left) as f64 / took);
            let (took, left) = hashing.run(&plain, |work| {
                work.read();
                for place in 0..work.len() {
                    let packet = work.dissection(place);
                    hash(&packet.expect("frames of this benchmark are IP"), &toeplitz);
                }
            });
            rates[2].push(left as f64 / took);
        }
        for (found, rates) in found.iter_mut().zip(rates) {
            found.push(median(rates));
        }
    }
    let ratio = |number: usize| {
        let ratios = found[0].iter().zip(&found[number]);
        median(ratios.map(|(over, under)| over / under).collect())
    };
    let [to_smoltcp, to_hashing] = [1, 2].map(ratio);
    let [ours, smoltcp, hashing] = found.map(|rates| median(rates) / 1e6);
    println!("{at_a_time:19} {ours:11.1} {smoltcp:9.1} {hashing:12.1} {to_smoltcp:11.2} {to_hashing:15.2}");
}

/// Fragments of 32 datagrams or more: the first ones of so many, then their second ones.
fn fragments(at_a_time: usize, id: u16) -> Vec<Frame> {
    let groups = (0..BATCH.max(at_a_time)).step_by(at_a_time);
    let group = |first: usize| {
        let halves = [0, 1].into_iter();
        halves.flat_map(move |half| {
            (first..first + at_a_time).map(move |number| fragment(id + number as u16, half))
        })
    };
    groups.flat_map(group).collect()
}

fn hash(packet: &Dissection<'_>, toeplitz: &Toeplitz) {
    let input = packet.rss_input(HashTypes::ALL).expect("every type is enabled");
    black_box(input.hash(toeplitz));
}

/// A burst of a ring.
struct Lent<'link>(Burst<'link>);

impl Batch for Lent<'_> {
    #[inline(always)]
    fn frames(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn frame(&self, number: usize) -> &[u8] {
        self.0.frame(number)
    }

    #[inline(always)]
    fn frame_mut(&mut self, number: usize) -> &mut [u8] {
        self.0.frame_mut(number)
    }

    #[inline(always)]
    fn link(&self, _number: usize) -> usize {
        0
    }
}

/// Ends of two rings: frames are put into one, and taken out of the other.
struct Ends {
    from: MemoryLink,
    to: MemoryLink,
}

impl Ends {
    /// With the other ends of the rings.
    fn new() -> (Ends, MemoryLink, MemoryLink) {
        let layout = FrameLayout::new(BATCH, 1920, 0).expect("a layout within bounds");
        let (from, near) = pair(layout).expect("memory for a ring");
        let (far, to) = pair(layout).expect("memory for a ring");
        (Ends { from, to }, near, far)
    }

    fn put(&mut self, frames: &[Frame]) {
        let sent = self.from.send(frames.iter().map(|frame| &frame[..]));
        assert_eq!(sent.expect("a ring").taken, frames.len());
    }

    fn take(&mut self) -> usize {
        let left = self.to.receive(BATCH).expect("a ring").len();
        let _ = self.to.receive(0);
        left
    }
}

/// A way between two rings.
struct Rings {
    ends: Ends,
    near: MemoryLink,
    far: MemoryLink,
    desk: Desk,
}

impl Rings {
    fn new() -> Rings {
        let (ends, near, far) = Ends::new();
        Rings {
            ends,
            near,
            far,
            desk: Desk::default(),
        }
    }

    /// Seconds in which frames are received, pass a stage and are sent; and how many left.
    fn run(&mut self, frames: &[Frame], mut stage: impl FnMut(&mut Work<'_, Lent<'_>>)) -> (f64, usize) {
        let (mut took, mut all_left) = (0.0, 0);
        for batch in frames.chunks(BATCH) {
            self.ends.put(batch);
            let started = Instant::now();
            let mut lent = Lent(self.near.receive(BATCH).expect("a ring"));
            let mut work = Work::new(&mut self.desk, &mut lent, started);
            stage(&mut work);
            work.settle();
            let (mut places, mut left) = ([0; BATCH], 0);
            for place in (0..work.len()).filter(|place| work.goes_on(*place)) {
                places[left] = place;
                left += 1;
            }
            let leaving = places[..left].iter().map(|place| work.frame(*place));
            assert_eq!(self.far.send(leaving).expect("a ring").taken, left);
            took += started.elapsed().as_secs_f64();
            let _ = self.near.receive(0);
            all_left += self.ends.take();
        }
        (took, all_left)
    }
}

/// smoltcp's stack with a UDP socket.
struct Smoltcp {
    ends: Ends,
    far: MemoryLink,
    device: Queue,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    now: smoltcp::time::Instant,
}

impl Smoltcp {
    fn new() -> Smoltcp {
        let (ends, near, far) = Ends::new();
        let mut device = Queue {
            near,
            came: VecDeque::with_capacity(BATCH),
        };
        let config = Config::new(EthernetAddress([2, 0, 0, 0, 0, 1]).into());
        let mut interface = Interface::new(config, &mut device, smoltcp::time::Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            let own = IpCidr::new(IpAddress::v4(10, 0, 0, 2), 24);
            addresses.push(own).expect("room for an address");
        });
        let buffer = || {
            let headers = vec![udp::PacketMetadata::EMPTY; BATCH];
            udp::PacketBuffer::new(headers, vec![0; BATCH * FRAME])
        };
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(9000).expect("a port");
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(socket);
        Smoltcp {
            ends,
            far,
            device,
            interface,
            sockets,
            socket,
            now: smoltcp::time::Instant::ZERO,
        }
    }

    /// Seconds in which frames are received, and the data of their datagrams sent; and how many left. Fragments of earlier calls
    /// are too old.
    fn run(&mut self, frames: &[Frame]) -> (f64, usize) {
        self.now += Duration::from_secs(3600);
        let (mut took, mut left) = (0.0, 0);
        for batch in frames.chunks(BATCH) {
            self.ends.put(batch);
            let started = Instant::now();
            self.device.take();
            self.interface.poll(self.now, &mut self.device, &mut self.sockets);
            let socket = self.sockets.get_mut::<udp::Socket>(self.socket);
            while let Ok((data, _)) = socket.recv() {
                self.far.send(std::iter::once(data)).expect("a ring");
            }
            took += started.elapsed().as_secs_f64();
            let _ = self.device.near.receive(0);
            left += self.ends.take();
        }
        (took, left)
    }
}

/// A device that receives a ring's frames, which it copies: its tokens outlive the burst.
struct Queue {
    near: MemoryLink,
    came: VecDeque<Frame>,
}

impl Queue {
    fn take(&mut self) {
        let burst = self.near.receive(BATCH).expect("a ring");
        let frames = burst
            .iter()
            .map(|frame| Frame::try_from(frame).expect("64 bytes"));
        self.came.extend(frames);
    }
}

struct Received(Frame);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

/// Drops what is sent.
struct Nowhere;

impl TxToken for Nowhere {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        fill(&mut vec![0; length])
    }
}

impl Device for Queue {
    type RxToken<'a> = Received;
    type TxToken<'a> = Nowhere;

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Received, Nowhere)> {
        Some((Received(self.came.pop_front()?), Nowhere))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Nowhere> {
        Some(Nowhere)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

/// The first or the second fragment of a UDP datagram.
fn fragment(id: u16, number: usize) -> Frame {
    let (field, data) = match number {
        0 => (0x2000, FIRST),
        _ => ((FIRST / 8) as u16, FRAME - HEADERS),
    };
    let mut frame = packet(id, field, data);
    if number == 0 {
        frame[HEADERS..HEADERS + 8].copy_from_slice(&udp_header(FIRST + FRAME - HEADERS));
    }
    frame
}

/// A whole UDP datagram.
fn datagram() -> Frame {
    let mut frame = packet(0, 0, FRAME - HEADERS);
    frame[HEADERS..HEADERS + 8].copy_from_slice(&udp_header(FRAME - HEADERS));
    frame
}

/// Ports 9001 and 9000, no checksum.
fn udp_header(length: usize) -> [u8; 8] {
    let [high, low] = (length as u16).to_be_bytes();
    [0x23, 0x29, 0x23, 0x28, high, low, 0, 0]
}

fn packet(id: u16, field: u16, data: usize) -> Frame {
    let mut frame = [0; FRAME];
    frame[..16].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&((20 + data) as u16).to_be_bytes());
    frame[18..20].copy_from_slice(&id.to_be_bytes());
    frame[20..22].copy_from_slice(&field.to_be_bytes());
    frame[22..34].copy_from_slice(&[64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = checksum::internet(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
