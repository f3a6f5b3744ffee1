//! The cost of observation: datagrams echoed per CPU-second with observation, as a ratio to the rate without it, in one
//! run.
//!
//! Two workloads, each on all CPUs at once: one server socket per thread, where no thread waits for a lock, and one
//! shared server socket, where every wait produces two records. Rounds are interleaved; the ratio is of the medians.
//! The time is that of the whole process, so it includes the collecting threads.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use corelane_observe::ObserveError;
use corelane_observe::locks::LockWatch;
use corelane_observe::profile::{Processes, Profiler};
use corelane_observe::softnet::SoftnetWatch;
use nix::time::{ClockId, clock_gettime};

/// Enough for a stable median on a machine that runs other programs, too.
const ROUNDS: usize = 9;
/// A round takes some tenths of a second.
const DATAGRAMS_A_CPU: u32 = 100_000;

/// What is observed during a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    Nothing,
    Softnet,
    Locks,
    LocksAndSoftnet,
    Profile,
}

const WATCHES: [Watch; 5] = [
    Watch::Nothing,
    Watch::Softnet,
    Watch::Locks,
    Watch::LocksAndSoftnet,
    Watch::Profile,
];

fn main() -> Result<(), ObserveError> {
    // `cargo test --benches` runs this, too, and must not measure.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let cpus = corelane_host::cpus::allowed().expect("/proc is mounted").cpus;
    for (work, shared) in [("a server socket each", false), ("one server socket", true)] {
        println!("UDP echo on {} CPUs, {work}, medians of {ROUNDS}:", cpus.len());
        let mut rates = vec![Vec::new(); WATCHES.len()];
        let mut waits = Vec::new();
        for _ in 0..ROUNDS {
            for (watch, rates) in WATCHES.iter().zip(&mut rates) {
                let (rate, seen) = watched(*watch, &cpus, shared)?;
                rates.push(rate);
                waits.extend(seen);
            }
        }
        let unwatched = median(&mut rates[0]);
        for (watch, rates) in WATCHES.iter().zip(&mut rates) {
            let rate = median(rates);
            let ratio = rate / unwatched;
            let name = format!("{watch:?}");
            println!("{name:>16}  {rate:>9.0} datagrams per CPU-second  {ratio:.3}");
        }
        println!(
            "{:>16}  {:>9.0} a second\n",
            "waits for locks",
            median(&mut waits)
        );
    }
    Ok(())
}

/// Datagrams per CPU-second, and lock waits per second if they were observed.
fn watched(watch: Watch, cpus: &[u32], shared: bool) -> Result<(f64, Option<f64>), ObserveError> {
    let locks = match watch {
        Watch::Locks | Watch::LocksAndSoftnet => Some(LockWatch::start(cpus, &[])?),
        _ => None,
    };
    let softnet = match watch {
        Watch::Softnet | Watch::LocksAndSoftnet => Some(SoftnetWatch::start(Duration::from_millis(10))?),
        _ => None,
    };
    let profiler = match watch {
        Watch::Profile => Some(Profiler::start(cpus, &own())?),
        _ => None,
    };
    let begin = cpu_seconds();
    echo_on_all(cpus, shared);
    let spent = cpu_seconds() - begin;
    let report = locks.map(LockWatch::finish).transpose()?;
    softnet.map(SoftnetWatch::finish).transpose()?;
    profiler.map(Profiler::finish).transpose()?;
    let datagrams = f64::from(DATAGRAMS_A_CPU) * cpus.len() as f64;
    Ok((
        datagrams / spent,
        report.map(|report| report.waits as f64 / report.elapsed_ns as f64 * 1e9),
    ))
}

fn echo_on_all(cpus: &[u32], shared: bool) {
    let servers: Vec<UdpSocket> = cpus
        .iter()
        .map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port is free"))
        .collect();
    let ready = Barrier::new(cpus.len());
    thread::scope(|scope| {
        for (index, cpu) in cpus.iter().enumerate() {
            let server = &servers[if shared { 0 } else { index }];
            let ready = &ready;
            scope.spawn(move || {
                corelane_host::pin::current_thread(*cpu).expect("the CPU is among those allowed");
                ready.wait();
                echo(server);
            });
        }
    });
}

/// Sends to the server, answers in its place, and receives an answer, all on this CPU. With a shared server the
/// datagram answered may be another client's; only the numbers sent and received must agree.
fn echo(server: &UdpSocket) {
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let address = server.local_addr().expect("it is bound");
    server.set_nonblocking(true).expect("a non-blocking socket");
    client.set_nonblocking(true).expect("a non-blocking socket");
    let mut buffer = [0; 510];
    for _ in 0..DATAGRAMS_A_CPU {
        client.send_to(&buffer, address).expect("loopback accepts it");
        match server.recv_from(&mut buffer) {
            Ok((length, from)) => {
                server
                    .send_to(&buffer[..length], from)
                    .expect("loopback accepts it");
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        // The answer of another thread, for the shared server, may be late.
        let _ = client.recv(&mut buffer);
    }
}

fn own() -> Processes {
    Processes {
        server: vec![std::process::id()],
        generator: std::process::id(),
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("every Linux has this clock");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
