//! Deliberate lock contention is reported where it occurs. Needs root, or `kernel.perf_event_paranoid` of -1 and
//! tracefs.

use std::io::{ErrorKind, Read, Write, pipe};
use std::net::UdpSocket;
use std::process::id;
use std::sync::Barrier;
use std::thread;

use corelane_observe::ObserveError;
use corelane_observe::locks::{LockReport, LockWatch, SpinCoverage};

use crate::common::{alone, cpus};

/// How often work is repeated until its waits are seen.
const TURNS: usize = 10;

/// Starts the watch; `None`, after printing the reason, if the machine does not permit it or has only one CPU.
fn start(cpus: &[u32]) -> Option<LockWatch> {
    if cpus.len() < 2 {
        eprintln!("skipped: one CPU allows no contention");
        return None;
    }
    match LockWatch::start(cpus, &[id()]) {
        Err(error @ (ObserveError::Forbidden { .. } | ObserveError::Tracefs { .. })) => {
            eprintln!("skipped: {error}");
            None
        }
        started => Some(started.unwrap()),
    }
}

/// Runs `work` on up to four CPUs at once: a kernel that reports only the second waiter needs three.
fn on_several_cpus(cpus: &[u32], work: impl Fn() + Sync) {
    let several = &cpus[..cpus.len().min(4)];
    let ready = Barrier::new(several.len());
    thread::scope(|scope| {
        for cpu in several {
            scope.spawn(|| {
                corelane_host::pin::current_thread(*cpu).unwrap();
                ready.wait();
                work();
            });
        }
    });
}

/// Repeats the work until its waits are in the report: beside other programs, the CPUs may work on it one after the other.
fn observed(cpus: &[u32], work: impl Fn() + Sync, mut are_in: impl FnMut(&LockReport) -> bool) {
    let mut report = None;
    let found = (0..TURNS).any(|_| {
        let watch = start(cpus).expect("it was permitted before");
        on_several_cpus(cpus, &work);
        let watched = watch.finish().unwrap();
        assert_sums_agree(&watched);
        let found = are_in(&watched);
        report = Some(watched);
        found
    });
    assert!(found, "{report:?}");
}

fn assert_sums_agree(report: &LockReport) {
    assert_eq!(
        report.waits,
        report.rows.iter().map(|site| site.count).sum::<u64>()
    );
    assert_eq!(
        report.wait_total_ns,
        report.rows.iter().map(|site| site.wait_total_ns).sum::<u64>()
    );
    for site in &report.rows {
        assert!(
            site.wait_avg_ns <= site.wait_max_ns && site.wait_max_ns <= site.wait_total_ns,
            "{site:?}"
        );
        assert!(site.count_in_softirq <= site.count, "{site:?}");
        assert_eq!((site.max_ns, site.total_ns, site.avg_ns), (None, None, None));
    }
    assert!(
        report.unknown["total_ns"].contains("waiting only"),
        "{:?}",
        report.unknown
    );
}

#[test]
fn writers_of_one_pipe_wait_for_its_mutex() {
    let _alone = alone();
    let cpus = cpus();
    if start(&cpus).is_none() {
        return;
    }
    let (reader, writer) = pipe().unwrap();
    let write_and_read = || {
        let mut byte = [0];
        for _ in 0..50_000 {
            (&writer).write_all(&byte).unwrap();
            (&reader).read_exact(&mut byte).unwrap();
        }
    };
    observed(&cpus, write_and_read, |report| {
        report.rows.iter().any(|site| {
            let wanting = site.name.split(" < ").next().unwrap();
            wanting.contains("pipe_") && wanting.ends_with("(mutex)")
        })
    });
}

#[test]
fn readers_of_one_socket_on_several_cpus_wait_for_its_receive_lock() {
    let _alone = alone();
    let cpus = cpus();
    if start(&cpus).is_none() {
        return;
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let send_and_receive = || {
        let source = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        for _ in 0..100_000 {
            source.send_to(&[0; 8], address).unwrap();
            for _ in 0..2 {
                match socket.recv(&mut [0; 8]) {
                    Ok(length) => assert_eq!(length, 8),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
        }
    };
    // Some kernels report no waiting for spin locks; one without any may also be chance.
    let mut unseen = 0;
    observed(&cpus, send_and_receive, |report| {
        if report.spin_coverage == SpinCoverage::NoneSeen {
            unseen += 1;
            if unseen == TURNS {
                eprintln!("skipped: {}", report.notes.join("; "));
            }
            return unseen == TURNS;
        }
        report.receive_lock_waits > 0
    });
}
