//! AF_XDP on veth: frames per second that a link receives, compared with a bare loop (`bare`) over the rings of a
//! socket. Rounds are interleaved and the results are medians; the sender is the same throughout and runs on another
//! CPU if there is one. Needs permission to create network namespaces; without it, prints the reason and exits.

mod bare;

use corelane_host::bed::{Bed, BedPlan};
use corelane_link::{Link, LinkSpec, Opener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(500);
const BURST: usize = 256;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--test");
    let (rounds, round) = if quick {
        (1, Duration::from_millis(20))
    } else {
        (ROUNDS, ROUND)
    };
    let plan = BedPlan {
        loopback_ok: false,
        ..BedPlan::new(
            "10.11.2.1".parse().expect("an address"),
            vec!["10.11.2.0/24".parse().expect("a prefix")],
        )
    };
    let bed = match Bed::build(&plan) {
        Ok(bed) => bed,
        Err(error) => {
            eprintln!("skipped: {error}");
            return;
        }
    };
    let cpus = corelane_host::cpus::allowed()
        .expect("the CPUs of this process")
        .cpus;
    let (receiving, sending) = (cpus[0], *cpus.get(1).unwrap_or(&cpus[0]));
    let stop = Arc::new(AtomicBool::new(false));
    let sender = bed.client.spawn({
        let stop = Arc::clone(&stop);
        move || flood(sending, &stop)
    });
    let sender = sender.expect("a thread");

    let mut found: [Vec<f64>; 4] = Default::default();
    for _ in 0..rounds {
        let bare = bed
            .server
            .run(move || once_free(|| bare::frames_per_second(receiving, round)));
        match bare {
            Ok(rate) => found[0].push(rate),
            Err(error) => {
                eprintln!("skipped: {error}");
                stop.store(true, Ordering::Relaxed);
                let _ = sender.join();
                return;
            }
        }
        for (place, spec) in [
            "xdp:server0,stride=2048",
            "xdp:server0,stride=1920",
            "packet:server0",
        ]
        .into_iter()
        .enumerate()
        {
            found[place + 1].push(bed.server.run(move || received(receiving, spec, round)));
        }
    }
    stop.store(true, Ordering::Relaxed);
    let _ = sender.join();
    print(found.map(median));
}

fn print([bare, aligned, unaligned, packet]: [f64; 4]) {
    println!("bare loop, stride 2048      {bare:8.0} frames/s");
    for (name, rate) in [
        ("xdp, stride 2048", aligned),
        ("xdp, stride 1920", unaligned),
        ("packet", packet),
    ] {
        println!(
            "{name:<27} {rate:8.0} frames/s, {:.3} of the bare loop",
            rate / bare
        );
    }
    println!("(of xdp at least 0.95 is wanted)");
}

/// Frames per second that a link receives; each is read once.
fn received(cpu: u32, spec: &str, round: Duration) -> f64 {
    corelane_host::pin::current_thread(cpu).expect("a CPU of this process");
    let spec: LinkSpec = spec.parse().expect("a specification");
    let mut link = once_free(|| Opener::new(spec.clone()).open())
        .expect("the device of the bed")
        .remove(0);
    let (mut frames, mut first_bytes) = (0u64, 0u64);
    let started = Instant::now();
    while started.elapsed() < round {
        let burst = link.receive(BURST).expect("the device stays");
        frames += burst.len() as u64;
        first_bytes += burst.iter().map(|frame| u64::from(frame[0])).sum::<u64>();
        if burst.is_empty() {
            std::thread::yield_now();
        }
    }
    std::hint::black_box(first_bytes);
    frames as f64 / started.elapsed().as_secs_f64()
}

/// Retries for up to a second while the attempt fails: the kernel frees a queue shortly after its socket is closed
/// (`xp_put_pool` of net/xdp/xsk_buff_pool.c leaves it to a worker).
fn once_free<T, E>(attempt: impl Fn() -> Result<T, E>) -> Result<T, E> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(_) if started.elapsed() < Duration::from_secs(1) => std::thread::yield_now(),
            outcome => return outcome,
        }
    }
}

/// Sends frames of 60 bytes at full speed.
fn flood(cpu: u32, stop: &AtomicBool) {
    corelane_host::pin::current_thread(cpu).expect("a CPU of this process");
    let spec: LinkSpec = "xdp:client0".parse().expect("a specification");
    let mut link = Opener::new(spec).open().expect("the device of the bed").remove(0);
    while !stop.load(Ordering::Relaxed) {
        let sent = link.transmit(64, |_, buffer| {
            buffer[..60].fill(2);
            60
        });
        // Nothing can be sent while the receiver changes.
        if sent.is_err() {
            std::thread::yield_now();
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
