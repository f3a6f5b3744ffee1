//! Datagrams of IPv4 in two fragments of 64 bytes, made whole: against smoltcp's reassembly, and against frames that are only
//! received, dissected, hashed and sent. Rings in memory, batches of 32 frames, one CPU, one run, interleaved rounds; the
//! results are medians and ratios.
//!
//! Only what receives is timed: frames are put into the ring before, and taken out of the other ring after. The rate of a
//! round is that of the median batch, so that a batch during which another program had the CPU does not count. smoltcp
//! delivers to a UDP socket, without checksums: it does not forward.

use corelane_link::memory::{MemoryLink, pair};
use corelane_link::{Burst, FrameLayout, Link};
use corelane_packet::{HashTypes, checksum};
use corelane_rss::{Key, Toeplitz};
use corelane_stage::reassembly::{Plan, Reassembly};
use corelane_stage::{Batch, Desk, Stage, Work};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::udp;
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
const BATCHES_A_ROUND: usize = 200;

type Frame = [u8; FRAME];

fn main() {
    // `cargo test --benches` only checks that the benchmark runs.
    let quick = std::env::args().any(|argument| argument == "--test");
    let (rounds, batches) = if quick { (1, 2) } else { (ROUNDS, BATCHES_A_ROUND) };
    let (mut whole, mut plain, mut smoltcp) = (Rings::new(), Rings::new(), Smoltcp::new());
    let mut reassembly = Reassembly::new(Plan::default(), 1, Arc::default());
    let toeplitz = Toeplitz::new(&Key::VERIFICATION);
    let mut found: [Vec<f64>; 3] = Default::default();
    let mut id = 0;
    for _ in 0..rounds {
        let mut took: [Vec<f64>; 3] = Default::default();
        for _ in 0..batches {
            let fragments: Vec<Frame> = (0..BATCH)
                .map(|number| fragment(id + number as u16 / 2, number % 2))
                .collect();
            id = (id + BATCH as u16 / 2) % (1 << 15);
            took[0].push(whole.run(&fragments, BATCH / 2, |work| {
                work.read(|_, _| {});
                reassembly.run(work);
            }));
            took[1].push(plain.run(&[datagram(); BATCH], BATCH, |work| {
                work.read(|work, place| hash(work, place, &toeplitz));
            }));
            took[2].push(smoltcp.run(&fragments));
        }
        for (found, took) in found.iter_mut().zip(took) {
            found.push(BATCH as f64 / median(took));
        }
    }
    print(found);
}

/// Prints the rates of the reassembly, of plain frames, and of smoltcp.
fn print(found: [Vec<f64>; 3]) {
    let ratio = |over: &[f64], under: &[f64]| {
        median(over.iter().zip(under).map(|(over, under)| over / under).collect())
    };
    let (to_smoltcp, to_plain) = (ratio(&found[0], &found[2]), ratio(&found[0], &found[1]));
    let [whole, plain, smoltcp] = found.map(median);
    println!("reassembly            {:8.1} M fragments/s", whole / 1e6);
    println!("smoltcp               {:8.1} M fragments/s", smoltcp / 1e6);
    println!("dissected and hashed  {:8.1} M frames/s", plain / 1e6);
    println!("to smoltcp            {to_smoltcp:8.2} (at least 4 is wanted)");
    println!("to plain frames       {to_plain:8.2} (at least 0.17 is wanted)");
}

fn hash(work: &mut Work<'_, Lent<'_>>, place: usize, toeplitz: &Toeplitz) {
    let packet = work.dissection(place).expect("frames of this benchmark are IP");
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

/// A way between two rings, and the other ends of the rings.
struct Rings {
    from: MemoryLink,
    near: MemoryLink,
    far: MemoryLink,
    to: MemoryLink,
    desk: Desk,
}

impl Rings {
    fn new() -> Rings {
        let layout = FrameLayout::new(BATCH, 1920, 0).expect("a layout within bounds");
        let (from, near) = pair(layout).expect("memory for a ring");
        let (far, to) = pair(layout).expect("memory for a ring");
        Rings {
            from,
            near,
            far,
            to,
            desk: Desk::default(),
        }
    }

    /// Seconds in which a batch is received, passes a stage and is sent.
    fn run(&mut self, frames: &[Frame], leave: usize, stage: impl FnOnce(&mut Work<'_, Lent<'_>>)) -> f64 {
        let sent = self.from.send(frames.iter().map(|frame| &frame[..]));
        assert_eq!(sent.expect("a ring").taken, BATCH);
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
        assert_eq!(self.far.send(leaving).expect("a ring").taken, leave);
        let took = started.elapsed().as_secs_f64();
        assert_eq!(self.to.receive(BATCH).expect("a ring").len(), leave);
        for link in [&mut self.to, &mut self.near] {
            let _ = link.receive(0);
        }
        took
    }
}

/// smoltcp's stack with a UDP socket.
struct Smoltcp {
    device: Queue,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    since: Instant,
}

impl Smoltcp {
    fn new() -> Smoltcp {
        let mut device = Queue(VecDeque::new());
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
            device,
            interface,
            sockets,
            socket,
            since: Instant::now(),
        }
    }

    /// Seconds in which a batch is received, and its datagrams read.
    fn run(&mut self, frames: &[Frame]) -> f64 {
        self.device.0.extend(frames);
        let started = Instant::now();
        let now = smoltcp::time::Instant::from_micros(self.since.elapsed().as_micros() as i64);
        self.interface.poll(now, &mut self.device, &mut self.sockets);
        let socket = self.sockets.get_mut::<udp::Socket>(self.socket);
        let mut received = 0;
        while let Ok((data, _)) = socket.recv() {
            black_box(data);
            received += 1;
        }
        let took = started.elapsed().as_secs_f64();
        assert_eq!(received, BATCH / 2);
        took
    }
}

/// A device that receives what is in memory.
struct Queue(VecDeque<Frame>);

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
        Some((Received(self.0.pop_front()?), Nowhere))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Nowhere> {
        Some(Nowhere)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities.checksum = ChecksumCapabilities::ignored();
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
