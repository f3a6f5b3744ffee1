//! What coalescing costs, and what it saves its receiver: a thousand flows whose segments are interleaved, 4,096 frames a
//! batch.
//!
//! The first table has the packets per aggregation and the CPU time per packet, of reading headers included. The second one
//! needs permission to create a namespace: there, this machine's kernel receives the same segments on a thousand connections
//! from a tap device, one by one and merged. The write to the device runs the whole receive path of the kernel within the
//! call, so that its CPU time is that of the writing thread: device, IP, TCP, checksum, the queue of the socket, and the
//! acknowledgment. Rounds are interleaved; the results are medians of one run.

use corelane_host::bed::{Bed, BedPlan};
use corelane_link::{AnyLink, Link, LinkSpec, Opener};
use corelane_rss::Key;
use corelane_stage::coalescing::{Coalescing, Counts, Grouping, Plan};
use corelane_stage::{Desk, Stage, Work};
use etherparse::{IpNumber, Ipv4Header, PacketBuilder, SlicedPacket, TcpHeader, TransportSlice};
use nix::time::{ClockId, clock_gettime};
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

const FLOWS: usize = 1000;
const FRAMES: usize = 4096;
const PAYLOAD: usize = 1448;
const ROUNDS: usize = 31;

/// The sender and the receiver of the segments.
const CLIENT: [u8; 4] = [10, 9, 0, 2];
const SERVER: [u8; 4] = [10, 9, 0, 1];
const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PORT: u16 = 80;

fn main() -> ExitCode {
    let quick = std::env::args().any(|argument| argument == "--test");
    let rounds = if quick { 1 } else { ROUNDS };
    println!(
        "{FRAMES} frames a batch over {FLOWS} flows, {PAYLOAD} bytes of payload (medians of {rounds} rounds)"
    );
    println!("{:24} {:>20} {:>10}", "", "packets/aggregation", "ns/packet");
    let mut flows = vec![Flow::default(); FLOWS];
    let mut frames = batch(&mut flows);
    let kinds = [None, Some(Grouping::List), Some(Grouping::Sorted)];
    let mut runs = kinds.map(|grouping| (Vec::new(), Run::new(grouping)));
    for _ in 0..rounds {
        for (samples, run) in &mut runs {
            let start = processor_time();
            run.over(&mut frames, |_| ());
            samples.push(per_packet(processor_time() - start));
        }
    }
    let [alone, list, sorted] = runs.map(|(samples, run)| (run.per_aggregation(), median(samples)));
    println!("{:24} {:>20} {:>10.1}", "reading headers alone", "", alone.1);
    println!("{:24} {:>20.2} {:>10.1}", "a list of eight", list.0, list.1);
    println!("{:24} {:>20.2} {:>10.1}", "sorted", sorted.0, sorted.1);
    let mut met = list.0 < 1.2 && sorted.0 >= 3.0;
    match receivers(rounds) {
        Ok([single, stage, merged]) => {
            let ratio = (stage + merged) / single;
            println!("the kernel receives, ns/packet");
            println!("{:24} {:>20} {single:>10.1}", "one by one", "");
            println!("{:24} {:>20} {merged:>10.1}", "merged", "");
            println!("{:24} {:>20} {stage:>10.1}", "and merging", "");
            println!("{:24} {:>20} {ratio:>10.2}", "both to one by one", "");
            met &= ratio <= 1.0;
        }
        Err(reason) => eprintln!("skipped: {reason}"),
    }
    if met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A stage, or none, and what it needs.
struct Run {
    stage: Option<Coalescing>,
    counts: Arc<Counts>,
    desk: Desk,
}

impl Run {
    fn new(grouping: Option<Grouping>) -> Run {
        let counts = Arc::new(Counts::default());
        let plan = |grouping| Plan {
            grouping,
            ..Plan::default()
        };
        let stage = |grouping| Coalescing::new(plan(grouping), &Key::VERIFICATION, Arc::clone(&counts));
        Run {
            stage: grouping.map(stage),
            counts: Arc::clone(&counts),
            desk: Desk::default(),
        }
    }

    fn over(&mut self, frames: &mut Vec<Vec<u8>>, then: impl FnOnce(&Work<'_, Vec<Vec<u8>>>)) {
        let mut work = Work::new(&mut self.desk, frames, Instant::now());
        work.read();
        if let Some(stage) = &mut self.stage {
            stage.run(&mut work);
        }
        then(&work);
    }

    fn per_aggregation(&self) -> f64 {
        match self.counts.aggregations.get() {
            0 => 1.0,
            aggregations => self.counts.segments.get() as f64 / aggregations as f64,
        }
    }
}

/// One connection: the next byte that it sends, and what it acknowledges.
#[derive(Clone, Copy, Default)]
struct Flow {
    next: u32,
    acknowledged: u32,
    identification: u16,
}

/// The next segments of all flows, one of each flow after the other.
fn batch(flows: &mut [Flow]) -> Vec<Vec<u8>> {
    (0..FRAMES)
        .map(|number| {
            let port = number % flows.len();
            segment(&mut flows[port], port, &[7; PAYLOAD], |tcp| tcp.ack = true)
        })
        .collect()
}

fn segment(flow: &mut Flow, number: usize, payload: &[u8], set: impl Fn(&mut TcpHeader)) -> Vec<u8> {
    let mut tcp = TcpHeader::new(1024 + number as u16, PORT, flow.next, u16::MAX);
    tcp.acknowledgment_number = flow.acknowledged;
    set(&mut tcp);
    let mut ip = Ipv4Header::new(0, 64, IpNumber::TCP, CLIENT, SERVER).expect("no payload yet");
    ip.identification = flow.identification;
    flow.identification = flow.identification.wrapping_add(1);
    flow.next = flow.next.wrapping_add(payload.len() as u32 + u32::from(tcp.syn));
    let ip = etherparse::IpHeaders::Ipv4(ip, Default::default());
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(CLIENT_MAC, SERVER_MAC)
        .ip(ip)
        .tcp_header(tcp)
        .write(&mut frame, payload)
        .expect("writing to memory");
    frame
}

/// CPU time per packet of the kernel for single segments, of the stage, and of the kernel for merged ones.
fn receivers(rounds: usize) -> Result<[f64; 3], String> {
    let plan = BedPlan {
        loopback_ok: false,
        ..BedPlan::new(
            [10, 11, 2, 1].into(),
            vec!["10.11.2.0/24".parse().expect("a prefix")],
        )
    };
    let bed = Bed::build(&plan).map_err(|error| error.to_string())?;
    bed.server.run(move || {
        let mut receiver = Receiver::connect()?;
        let mut run = Run::new(Some(Grouping::Sorted));
        let mut samples = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (sample, time) in samples.iter_mut().zip(receiver.round(&mut run)) {
                sample.push(per_packet(time));
            }
        }
        Ok(samples.map(median))
    })
}

/// A thousand connections of the kernel behind a tap device, and their other ends.
struct Receiver {
    link: AnyLink,
    flows: Vec<Flow>,
    connections: Vec<TcpStream>,
}

impl Receiver {
    fn connect() -> Result<Receiver, String> {
        let spec: LinkSpec = "tap:bench0,frames=4096".parse().expect("a link");
        let spec = spec.for_merged().expect("a tap device takes merged frames");
        let mut links = Opener::new(spec).open().map_err(|error| error.to_string())?;
        let link = links.pop().expect("one queue");
        // All acknowledgments are queued until they are read.
        ip("link set bench0 address 02:00:00:00:00:01 txqueuelen 10000")?;
        ip("addr add 10.9.0.1/24 dev bench0")?;
        ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:09 dev bench0 nud permanent")?;
        let listener =
            TcpListener::bind((Ipv4Addr::from(SERVER), PORT)).map_err(|error| error.to_string())?;
        let mut receiver = Receiver {
            link,
            flows: Vec::new(),
            connections: Vec::new(),
        };
        for number in 0..FLOWS {
            receiver.open(number);
            let (connection, _) = listener.accept().expect("a connection that is complete");
            connection.set_nonblocking(true).expect("a socket");
            receiver.connections.push(connection);
        }
        Ok(receiver)
    }

    /// Opens a connection: its handshake.
    fn open(&mut self, number: usize) {
        let mut flow = Flow::default();
        self.send(&segment(&mut flow, number, &[], |tcp| tcp.syn = true));
        let answer = loop {
            let burst = self.link.receive(FRAMES).expect("a tap device");
            let answer =
                burst.iter().find_map(
                    |frame| match SlicedPacket::from_ethernet(frame).ok()?.transport? {
                        TransportSlice::Tcp(tcp) if tcp.syn() => Some(tcp.sequence_number()),
                        _ => None,
                    },
                );
            if let Some(answer) = answer {
                break answer;
            }
        };
        flow.acknowledged = answer.wrapping_add(1);
        self.send(&segment(&mut flow, number, &[], |tcp| tcp.ack = true));
        self.flows.push(flow);
    }

    fn send(&mut self, frame: &[u8]) {
        let sent = self.link.send(std::iter::once(frame)).expect("a tap device");
        assert_eq!(sent.taken, 1);
    }

    /// The CPU time of receiving a batch segment by segment; of merging one, and of receiving that.
    fn round(&mut self, run: &mut Run) -> [Duration; 3] {
        let single = batch(&mut self.flows);
        let start = processor_time();
        for frame in &single {
            self.send(frame);
        }
        let alone = processor_time() - start;
        self.read();
        let mut frames = batch(&mut self.flows);
        let start = processor_time();
        let mut merged = Duration::ZERO;
        run.over(&mut frames, |work| {
            merged = processor_time() - start;
            for place in (0..work.len()).filter(|place| work.goes_on(*place)) {
                let segment = work.merged(place).map_or(0, |merged| merged.segment_bytes);
                let sent = self.link.send_merged(work.frame(place), segment);
                assert_eq!(sent.expect("a tap device").taken, 1);
            }
        });
        let both = processor_time() - start;
        self.read();
        [alone, merged, both - merged]
    }

    /// Reads what arrived, and the acknowledgments.
    fn read(&mut self) {
        let mut memory = vec![0; 1 << 16];
        let mut bytes = 0;
        for connection in &mut self.connections {
            loop {
                match connection.read(&mut memory) {
                    Ok(read) => bytes += read,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        assert_eq!(bytes, FRAMES * PAYLOAD, "all of it arrives");
        while !self.link.receive(FRAMES).expect("a tap device").is_empty() {}
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "ip {arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => Err(format!("ip: {error}")),
    }
}

fn per_packet(time: Duration) -> f64 {
    time.as_nanos() as f64 / FRAMES as f64
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
