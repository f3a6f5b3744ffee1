//! The time of reading an item of another worker: from its memory, and by handing the key over and getting the value back; beside it the
//! time of reading an own item.
//!
//! `cargo bench -p corelane-serve --bench memcached_reads`, on two CPUs. The owner is on the other one and, in the second column, stores
//! items all the time. Both threads look at their mailboxes without end, so that a handoff costs no wake-up here: in a server it costs a
//! system call more per batch. Each figure is the median of rounds.

use corelane_host::pin;
use corelane_store::{Attributes, Hash, Memory, Partition, Placement, Reader, Settings, hash};
use corelane_worker::mailbox::{Inbox, Outbox, mailbox};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

const SIZES: [usize; 4] = [100, 1_024, 4_096, 32_768];
/// Bytes of all values: they are not in the caches of the core.
const BYTES: usize = 64 << 20;
const KEY: usize = 32;
/// Keys that are handed over together.
const BATCHES: [usize; 2] = [1, 32];
const ROUNDS: usize = 9;
const READS: usize = 20_000;
const NOW: u32 = 1;

fn main() {
    pin::current_thread(0).expect("CPU 0");
    println!("ns per item; the owner in brackets: idle, storing");
    for size in SIZES {
        measure(size);
    }
}

fn key(number: u64) -> (Hash, [u8; KEY]) {
    let mut key = [b'k'; KEY];
    key[..8].copy_from_slice(&number.to_le_bytes());
    (hash(&key, 0), key)
}

fn filled(items: u64, size: usize) -> Partition {
    let memory = Memory::zeroed(2 * BYTES + items as usize * 128, Placement::default()).expect("memory");
    let mut store = Partition::new(memory, &Settings::default()).expect("a store");
    for number in 0..items {
        let (hash, key) = key(number);
        store
            .set(hash, &key, &vec![7; size], Attributes::default(), NOW)
            .expect("room");
        assert!((0..3).all(|_| store.read(hash, &key, NOW).is_some()));
    }
    store
}

fn measure(size: usize) {
    let items = (BYTES / size) as u64;
    let mut own = filled(items, size);
    let local = median(|random| {
        let (hash, key) = key(random.u64(..items));
        let item = own.read(hash, &key, NOW).expect("it is there").into_item();
        black_box(item.value.to_vec());
    });
    drop(own);
    let direct = [false, true].map(|stores| {
        with_owner(items, size, stores, |reader, _, _| {
            let (mut buffer, mut missed) = (Vec::new(), 0);
            let time = median(|random| {
                let (hash, key) = key(random.u64(..items));
                let copied = reader.read((hash, &key), NOW, |_| true, &mut buffer);
                missed += u32::from(copied.is_err());
                black_box(copied.map(|copied| copied.value.to_vec()).unwrap_or_default());
            });
            (time, missed)
        })
    });
    print!("{size:6} bytes: own {local:6.0}");
    for (name, (time, missed)) in ["idle", "storing"].into_iter().zip(direct) {
        let share = f64::from(missed) / (ROUNDS * READS) as f64;
        print!(", direct ({name}) {time:6.0}, not read {:.2} %", share * 100.0);
    }
    for batch in BATCHES {
        let handed = with_owner(items, size, false, |_, asked, answered| {
            let time = median_of(READS / batch, |random| {
                for _ in 0..batch {
                    let number = random.u64(..items);
                    while asked.post(number, &key(number).1).is_err() {}
                }
                for _ in 0..batch {
                    let value = loop {
                        if let Some((_, value)) = answered.take() {
                            break value;
                        }
                        std::hint::spin_loop();
                    };
                    black_box(value.to_vec());
                }
            });
            time / batch as f64
        });
        print!(", handed over by {batch}: {handed:6.0}");
    }
    println!();
}

/// Runs `read` on CPU 0 while the owner of so many items answers, or stores, on CPU 1.
fn with_owner<T>(
    items: u64,
    size: usize,
    stores: bool,
    read: impl FnOnce(&Reader, &mut Outbox<u64>, &mut Inbox<()>) -> T,
) -> T {
    let mut store = filled(items, size);
    let reader = store.reader();
    let (mut asked, mut asked_in) = mailbox::<u64>(4 << 20);
    let (mut answers, mut answered) = mailbox::<()>(4 << 20);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            pin::current_thread(1).expect("CPU 1");
            let (mut random, value) = (fastrand::Rng::with_seed(2), vec![8; size]);
            while !is_over.load(Ordering::Relaxed) {
                while let Some((number, key)) = asked_in.take() {
                    let hash = hash(key, 0);
                    let item = store.read(hash, key, NOW).expect("it is there").into_item();
                    let value = item.value.whole().expect("it is in one part");
                    black_box(number);
                    while answers.post((), value).is_err() {}
                }
                if stores {
                    let (hash, key) = key(random.u64(..items));
                    let stored = store.set(hash, &key, &value, Attributes::default(), NOW);
                    stored.expect("room");
                }
            }
        });
        let result = read(&reader, &mut asked, &mut answered);
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

fn median(read: impl FnMut(&mut fastrand::Rng)) -> f64 {
    median_of(READS, read)
}

/// Nanoseconds per call: the median of rounds of so many.
fn median_of(calls: usize, mut call: impl FnMut(&mut fastrand::Rng)) -> f64 {
    let mut random = fastrand::Rng::with_seed(1);
    let mut round = |_| {
        let start = Instant::now();
        (0..calls).for_each(|_| call(&mut random));
        start.elapsed().as_nanos() as f64 / calls as f64
    };
    let mut times: Vec<f64> = (0..ROUNDS).map(&mut round).collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}
