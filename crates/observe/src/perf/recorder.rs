//! The thread that reads the rings during a measurement.
//!
//! It wakes a few times per second, so that it costs the measured CPUs only a few batches of copying; it runs on CPUs that
//! are not measured, if there are any.

use std::io;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use perf_event::Sampler;
use perf_event::data::{Record, Sample};

use super::collector::{Collector, Stop, failed, nanoseconds};
use crate::ObserveError;

/// How often the rings are read. With rings of 4 MiB, 80 MB/s of records fit between two readings.
const READ_EVERY: Duration = Duration::from_millis(50);

/// Consumes the records of several rings.
pub(crate) trait Sink: Send + 'static {
    /// One sample of the ring at index `source`.
    fn sample(&mut self, source: usize, sample: &Sample<'_>);

    /// All rings were read once.
    fn batch_ends(&mut self) {}
}

/// The result of recording.
pub(crate) struct Recorded<S> {
    /// The sink, with all its records.
    pub sink: S,
    /// Samples that found no room in their ring.
    pub lost: u64,
    /// From the start of the first event to the end of the last.
    pub elapsed_ns: u64,
}

/// Enabled events, and the thread that reads their rings.
pub(crate) type Recorder<S> = Collector<Recorded<S>>;

/// Starts all events, then the thread, which avoids the `measured` CPUs if possible.
pub(crate) fn record<S: Sink>(
    mut rings: Vec<Sampler>,
    measured: &[u32],
    sink: S,
) -> Result<Recorder<S>, ObserveError> {
    let elsewhere = cpus_besides(measured);
    let begin = Instant::now();
    for ring in &mut rings {
        ring.enable().map_err(failed)?;
    }
    Collector::start("observe", move |stop| {
        if let Some(cpus) = elsewhere {
            sched_setaffinity(Pid::from_raw(0), &cpus).map_err(|errno| failed(errno.into()))?;
        }
        read_until_stopped(rings, sink, stop, begin).map_err(failed)
    })
}

/// A note for the reader if the collector could not keep up.
pub(crate) fn lost_note(lost: u64, what: &str) -> Option<String> {
    (lost > 0).then(|| format!("{lost} {what} were dropped by full rings and are in no table"))
}

/// The CPUs this thread may use that are not measured; `None` if there is none, or if that is unknown.
fn cpus_besides(measured: &[u32]) -> Option<CpuSet> {
    let mut cpus = sched_getaffinity(Pid::from_raw(0)).ok()?;
    for cpu in measured {
        cpus.unset(*cpu as usize).ok()?;
    }
    (0..CpuSet::count())
        .any(|cpu| cpus.is_set(cpu).unwrap_or(false))
        .then_some(cpus)
}

fn read_until_stopped<S: Sink>(
    mut rings: Vec<Sampler>,
    mut sink: S,
    stop: &Stop,
    begin: Instant,
) -> io::Result<Recorded<S>> {
    let mut lost_in_rings = 0;
    while !stop.within(READ_EVERY) {
        lost_in_rings += read_all(&mut rings, &mut sink);
    }
    for ring in &mut rings {
        ring.disable()?;
    }
    let elapsed_ns = nanoseconds(begin.elapsed());
    lost_in_rings += read_all(&mut rings, &mut sink);
    let mut lost_by_count = 0;
    for ring in &mut rings {
        lost_by_count += ring.read_full()?.lost().unwrap_or(0);
    }
    Ok(Recorded {
        sink,
        // The count is exact; the records in the rings lack samples lost after the last one that fitted.
        lost: lost_by_count.max(lost_in_rings),
        elapsed_ns,
    })
}

/// Reads every ring once; returns the number of lost samples that the rings report.
fn read_all<S: Sink>(rings: &mut [Sampler], sink: &mut S) -> u64 {
    let mut lost = 0;
    for (source, ring) in rings.iter_mut().enumerate() {
        while let Some(record) = ring.next_record() {
            match record.parse_record() {
                Ok(Record::Sample(sample)) => sink.sample(source, &sample),
                Ok(Record::Lost(record)) => lost += record.lost,
                _ => {}
            }
        }
    }
    sink.batch_ends();
    lost
}
