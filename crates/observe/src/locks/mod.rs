//! Kernel lock waits by place and duration: the table of FreeBSD's `LOCK_PROFILING`, from the tracepoints
//! `lock:contention_begin` and `lock:contention_end`.
//!
//! Input: CPUs, and optionally the processes to which the waits outside softirqs are limited, from [`LockWatch::start`] to
//! [`LockWatch::finish`]. Output: a [`LockReport`]; [`compare`] describes those of an echo and a sink run in one sentence.
//!
//! The tracepoints report only waiting. An acquisition without a wait is not counted, and hold times are unknown: those
//! columns are null, with the reason.

mod compare;
mod pairs;
mod report;
mod sink;
mod sites;

use perf_event::{Builder, SampleFlag, events};

use crate::ObserveError;
use crate::perf::tracepoint::Tracepoint;
use crate::perf::{Event, Privilege, Recorder, open, record};
use crate::symbols::KernelSymbols;

use sink::LockSink;

pub use compare::compare;
pub use report::{LockReport, LockSite, SpinCoverage};

/// The maximum depth of a waiter's call chain. Up to six functions of the lock itself precede the one that requested it
/// (a read-write semaphore); the rest shows its callers.
const CHAIN_DEPTH: u16 = 16;

/// The ring memory per CPU: at 200 bytes per wait, 100,000 waits per second and 20 readings per second, a quarter of it
/// is used.
const RING_BYTES: usize = 4 << 20;

/// A running watch. If dropped, it stops shortly afterwards and its data is lost.
pub struct LockWatch {
    recorder: Recorder<LockSink>,
    cpus: Vec<u32>,
}

impl LockWatch {
    /// Starts watching what waits for kernel locks on these CPUs: softirqs and the threads of these processes, or
    /// everybody when none is named. Naming them keeps other users of the machine out of the table.
    ///
    /// # Errors
    ///
    /// [`ObserveError::Tracefs`] if tracefs is hidden or the kernel (before 5.19) has no such tracepoints,
    /// [`ObserveError::Forbidden`] with the sysctl that would permit it, [`ObserveError::Refused`] without a CPU.
    pub fn start(cpus: &[u32], processes: &[u32]) -> Result<Self, ObserveError> {
        if cpus.is_empty() {
            return Err(ObserveError::no_cpu());
        }
        let begin = Tracepoint::find("lock", "contention_begin")?;
        let end = Tracepoint::find("lock", "contention_end")?;
        let sink = LockSink::new(&begin, &end, processes)?;
        let mut rings = Vec::new();
        for cpu in cpus {
            for point in [&begin, &end] {
                let event = Event {
                    name: &point.name,
                    needs: "Linux 5.19 or newer with CONFIG_TRACEPOINTS",
                    privilege: Privilege::Tracepoint,
                };
                let builder = every_hit(point, point == &begin);
                rings.push(open(builder, *cpu, event, RING_BYTES)?);
            }
        }
        Ok(Self {
            recorder: record(rings, cpus, sink)?,
            cpus: cpus.to_vec(),
        })
    }

    /// Stops watching and returns the report.
    ///
    /// # Errors
    ///
    /// [`ObserveError::Refused`] if the collecting thread failed.
    pub fn finish(self) -> Result<LockReport, ObserveError> {
        let recorded = self.recorder.finish()?;
        let (waits, chains) = recorded.sink.close();
        let watched = LockReport {
            cpus: self.cpus,
            elapsed_ns: recorded.elapsed_ns,
            lost_records: recorded.lost,
            ..LockReport::default()
        };
        Ok(sites::report(waits, &chains, &KernelSymbols::read(), watched))
    }
}

/// Every hit of the tracepoint with its payload, and with the kernel's call chain if waiting begins.
fn every_hit(point: &Tracepoint, with_chain: bool) -> Builder<'static> {
    let mut builder = Builder::new(events::Tracepoint::with_id(point.id));
    builder
        .sample_period(1)
        .sample(SampleFlag::RAW)
        .exclude_kernel(false)
        .exclude_callchain_user(true)
        .exclude_callchain_kernel(!with_chain)
        .sample_max_stack(CHAIN_DEPTH);
    builder
}
