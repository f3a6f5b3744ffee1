//! One pool of memory for all workers against one per worker: what several pools on one memory node save ("Serving 100 Gbps
//! from an Open Connect Appliance" divided a machine into more nodes than it has, because CPUs waited for the lock of the
//! node's pages). The pool is a list of free pages behind a lock; a worker takes the pages of one payload, writes to each, and
//! gives them back. One worker per CPU, all at the same time. Locks of one pool each cost as much as those of a shared one:
//! the difference is the waiting, and the cache lines that move between CPUs.
//!
//! Rounds of both ways are interleaved; the result is the median time per page of each, and the median of the ratios of
//! neighbouring rounds. On one CPU nobody waits, and the ratio is 1.
//!
//! `cargo bench -p corelane-worker --bench pools` takes a few seconds. The argument after `--` is the number of rounds.

use corelane_host::cpus;
use corelane_worker::{CachePadded, WorkerSettings, spawn};
use std::hint::black_box;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

const ROUNDS: usize = 15;

/// Payloads that each worker handles in a round.
const PAYLOADS: u32 = 100_000;

/// Pages of a payload, which are taken and given back one by one, as the kernel does: 16 KiB.
const PAGES: usize = 4;

type Page = Box<[u8; 4096]>;

/// A list of free pages. In its own cache lines, so that neighbouring pools share none.
type Pool = CachePadded<Mutex<Vec<Page>>>;

fn pool(payloads: usize) -> Pool {
    let free = std::iter::repeat_with(|| Box::new([0; 4096])).take(payloads * PAGES);
    CachePadded::new(Mutex::new(free.collect()))
}

/// Takes pages of the pool, writes to each and gives them back.
fn work(pool: &Pool) {
    let mut taken: Vec<Page> = Vec::with_capacity(PAGES);
    for payload in 0..PAYLOADS {
        for _ in 0..PAGES {
            let mut page = pool
                .lock()
                .unwrap()
                .pop()
                .expect("as many pages as workers can hold");
            page[0] = payload as u8;
            taken.push(black_box(page));
        }
        for page in taken.drain(..) {
            pool.lock().unwrap().push(page);
        }
    }
}

/// The time that workers on these CPUs take, per page of a worker.
fn round(cpus: &[u32], pools: &Arc<[Pool]>) -> Duration {
    let start = Arc::new(Barrier::new(cpus.len()));
    let workers: Vec<_> = cpus
        .iter()
        .enumerate()
        .map(|(place, cpu)| {
            let (pools, start) = (Arc::clone(pools), Arc::clone(&start));
            let settings = WorkerSettings::new(format!("worker {place}"), *cpu);
            let body = move || {
                start.wait();
                let began = Instant::now();
                work(&pools[place % pools.len()]);
                began.elapsed()
            };
            spawn(settings, body).expect("a thread")
        })
        .collect();
    let longest = workers
        .into_iter()
        .map(|worker| worker.join().expect("it ends"))
        .max();
    longest.unwrap_or_default() / (PAYLOADS * PAGES as u32)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    // `cargo test --benches` only checks that the benchmark runs.
    let rounds = match arguments.next().as_deref() {
        Some("--test") => 1,
        argument => argument.map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds")),
    };
    let cpus = cpus::allowed().expect("the CPUs of this process").cpus;
    let one: Arc<[Pool]> = [pool(cpus.len())].into();
    let own: Arc<[Pool]> = cpus.iter().map(|_| pool(1)).collect();
    let nanoseconds = |pools| round(&cpus, pools).as_nanos() as f64;
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        off.push(nanoseconds(&one));
        on.push(nanoseconds(&own));
    }
    let ratios = off.iter().zip(&on).map(|(off, on)| off / on).collect();
    println!(
        "{} workers, ns per page taken, written and given back:",
        cpus.len()
    );
    println!("  one pool (off)            {:.0}", median(off));
    println!("  a pool per worker (on)    {:.0}", median(on));
    println!("  one over own              {:.2}", median(ratios));
}
