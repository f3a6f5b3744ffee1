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
use corelane_loops::segments::{ACK, Connection, Connections, Merging, PAYLOAD, SYN};
use corelane_stage::coalescing::Grouping;
use etherparse::{SlicedPacket, TransportSlice};
use nix::time::{ClockId, clock_gettime};
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, ExitCode};
use std::time::Duration;

const FLOWS: u16 = 1000;
const FRAMES: usize = 4096;
const ROUNDS: usize = 31;

/// The receiver of the segments.
const SERVER: ([u8; 4], u16) = ([10, 9, 0, 1], 80);

fn main() -> ExitCode {
    let quick = std::env::args().any(|argument| argument == "--test");
    let rounds = if quick { 1 } else { ROUNDS };
    println!(
        "{FRAMES} frames a batch over {FLOWS} flows, {PAYLOAD} bytes of payload (medians of {rounds} rounds)"
    );
    println!("{:24} {:>20} {:>10}", "", "packets/aggregation", "ns/packet");
    let connections = (0..FLOWS).map(Connection::new).collect();
    let mut frames = Connections::new(connections).batch(FRAMES);
    let kinds = [None, Some(Grouping::List), Some(Grouping::Sorted)];
    let mut runs = kinds.map(|grouping| (Vec::new(), Merging::new(grouping)));
    for _ in 0..rounds {
        for (samples, run) in &mut runs {
            let start = processor_time();
            run.over(&mut frames);
            samples.push(per_packet(processor_time() - start));
        }
    }
    let [alone, list, sorted] = runs.map(|(samples, run)| (run.packets_per_aggregation(), median(samples)));
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
        let mut run = Merging::new(Some(Grouping::Sorted));
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
    senders: Connections,
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
            TcpListener::bind((Ipv4Addr::from(SERVER.0), SERVER.1)).map_err(|error| error.to_string())?;
        let mut receiver = Receiver {
            link,
            senders: Connections::new(Vec::new()),
            connections: Vec::new(),
        };
        let mut senders = Vec::new();
        for number in 0..FLOWS {
            senders.push(receiver.open(number));
            let (connection, _) = listener.accept().expect("a connection that is complete");
            connection.set_nonblocking(true).expect("a socket");
            receiver.connections.push(connection);
        }
        receiver.senders = Connections::new(senders);
        Ok(receiver)
    }

    /// Opens a connection: its handshake.
    fn open(&mut self, number: u16) -> Connection {
        let mut sender = Connection::new(number);
        self.send(&sender.frame(SYN, 0));
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
        sender.acknowledged = answer.wrapping_add(1);
        self.send(&sender.frame(ACK, 0));
        sender
    }

    fn send(&mut self, frame: &[u8]) {
        let sent = self.link.send(std::iter::once(frame)).expect("a tap device");
        assert_eq!(sent.taken, 1);
    }

    /// The CPU time of receiving a batch segment by segment; of merging one, and of receiving that.
    fn round(&mut self, run: &mut Merging) -> [Duration; 3] {
        let single = self.senders.batch(FRAMES);
        let start = processor_time();
        for frame in &single {
            self.send(frame);
        }
        let alone = processor_time() - start;
        self.read();
        let mut frames = self.senders.batch(FRAMES);
        let start = processor_time();
        let work = run.over(&mut frames);
        let merged = processor_time() - start;
        for place in (0..work.len()).filter(|place| work.goes_on(*place)) {
            let segment = work.merged(place).map_or(0, |merged| merged.segment_bytes);
            let sent = self.link.send_merged(work.frame(place), segment);
            assert_eq!(sent.expect("a tap device").taken, 1);
        }
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
