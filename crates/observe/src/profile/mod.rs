//! Which functions the CPUs ran: the table that the posts took from `pmcstat -T`, for the worker processes and for softirq.
//!
//! What enters: CPUs or a process, from [`Profiler::start`] to [`Profiler::finish`]. What leaves: a [`Profile`].
//!
//! The CPUs are sampled at a fixed rate by the best clock the machine has: cycles counted by hardware, else the kernel's
//! `cpu-clock`, a timer. A timer cannot interrupt code that runs with interrupts off: what such code spends appears at the
//! instruction that allows them again. Kernel callers are exact (ORC or frame pointers); callers in user code are found
//! by frame pointers and are missing where a program was built without.

mod fold;
mod table;

use std::fs;
use std::path::Path;

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Sampler};
use serde::{Deserialize, Serialize};

use crate::ObserveError;
use crate::perf::{Place, Privilege, Recorder, Terms, open};
use crate::symbols::KernelSymbols;

use fold::{Folder, Processes};

pub use table::{CallerShare, FunctionShare, FunctionTable};

/// What is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Everything that runs on these CPUs, softirq and the idle task included. Needs `kernel.perf_event_paranoid` of 0 or
    /// less, or CAP_PERFMON.
    Cpus(Vec<u32>),
    /// The threads that this process has when sampling starts, on whatever CPU, and the softirqs that interrupt them.
    /// Permitted to a process of the same user where `kernel.perf_event_paranoid` is 2 or less; with 2, its user code only.
    Process(u32),
}

/// How it is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Samples a second and CPU.
    pub frequency_hz: u32,
    /// The memory each CPU's (or thread's) samples wait in, in bytes; rounded up to a power of two.
    pub ring_bytes: usize,
    /// The processes that get a table of their own, and whose functions are resolved. They must exist when sampling
    /// starts. With [`Target::Process`] that process need not be named again.
    pub processes: Vec<u32>,
}

impl Default for Settings {
    /// 997 samples a second, a prime so that nothing periodic stays in step with them; less than 1 % of a CPU in a virtual
    /// machine. 256 KiB a ring is what `kernel.perf_event_mlock_kb` (516) lets everybody map, and more than a second
    /// of the deepest call chains.
    fn default() -> Self {
        Self {
            frequency_hz: 997,
            ring_bytes: 256 << 10,
            processes: Vec::new(),
        }
    }
}

/// Sampling that is under way. Dropped, it stops within a moment and what it took is lost.
pub struct Profiler {
    recorder: Recorder<Folder>,
    processes: Processes,
    event: SampledEvent,
    frequency_hz: u32,
    notes: Vec<String>,
}

/// What made the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampledEvent {
    /// Cycles counted by the CPU: its interrupt cannot be held off.
    Cycles,
    /// The kernel's timer.
    CpuClock,
}

/// Where the time went. Every sample is in exactly one of: a process, softirq, elsewhere, idle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// What made the samples.
    pub event: SampledEvent,
    /// Samples a second and CPU, as asked for.
    pub frequency_hz: u32,
    /// From the first sample to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples that found no room; in none of the tables.
    pub lost_samples: u64,
    /// Samples of the idle task.
    pub idle_samples: u64,
    /// Samples of processes that were not named and of kernel threads, outside softirq.
    pub elsewhere_samples: u64,
    /// One entry a named process: its threads outside softirq.
    pub processes: Vec<ProcessProfile>,
    /// Softirqs, whatever they interrupted: the receive path, and threads that run in its place (`ksoftirqd`, threaded
    /// NAPI).
    pub softirq: FunctionTable,
    /// What a reader should know: names that are hidden, kernel code that could not be seen.
    pub notes: Vec<String>,
}

/// The threads of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessProfile {
    /// Its id.
    pub process: u32,
    /// Its name in `/proc/PID/comm`.
    pub command: String,
    /// What its threads ran.
    pub functions: FunctionTable,
}

impl SampledEvent {
    /// Its name in Linux's tools.
    pub fn name(self) -> &'static str {
        match self {
            SampledEvent::Cycles => "cycles",
            SampledEvent::CpuClock => "cpu-clock",
        }
    }

    fn builder(self) -> Builder<'static> {
        match self {
            SampledEvent::Cycles => Builder::new(Hardware::CPU_CYCLES),
            SampledEvent::CpuClock => Builder::new(Software::CPU_CLOCK),
        }
    }
}

impl Profiler {
    /// Starts sampling.
    ///
    /// # Errors
    ///
    /// [`ObserveError::Forbidden`] with the sysctl that would permit it, [`ObserveError::RingMemory`],
    /// [`ObserveError::NoProcess`] for a process that is gone, [`ObserveError::NoTarget`] without a CPU.
    pub fn start(target: Target, settings: Settings) -> Result<Self, ObserveError> {
        let mut settings = settings;
        let places = places(&target)?;
        let measured = match &target {
            Target::Cpus(cpus) => cpus.clone(),
            Target::Process(process) => {
                if !settings.processes.contains(process) {
                    settings.processes.push(*process);
                }
                Vec::new()
            }
        };
        let processes = Processes::read(&settings.processes)?;
        let mut notes = Vec::new();
        let (event, rings) = open_best(&target, &places, &settings, &mut notes)?;
        Ok(Self {
            recorder: Recorder::start(rings, &measured, Folder::default())?,
            processes,
            event,
            frequency_hz: settings.frequency_hz,
            notes,
        })
    }

    /// Stops sampling and names what was seen. The named processes may have ended by now, except for functions of files
    /// that they mapped meanwhile.
    ///
    /// # Errors
    ///
    /// [`ObserveError::Collector`] when the collecting thread failed.
    pub fn finish(self) -> Result<Profile, ObserveError> {
        let recorded = self.recorder.finish()?;
        let kernel = KernelSymbols::read();
        let mut notes = self.notes;
        notes.extend(kernel.hidden_because().map(str::to_owned));
        let mut processes = self.processes;
        processes.read_again();
        let folded = recorded.sink.resolve(&kernel, &mut processes);
        Ok(Profile {
            event: self.event,
            frequency_hz: self.frequency_hz,
            elapsed_ns: u64::try_from(recorded.elapsed.as_nanos()).unwrap_or(u64::MAX),
            samples: folded.samples,
            lost_samples: recorded.lost,
            idle_samples: folded.idle_samples,
            elsewhere_samples: folded.elsewhere_samples,
            processes: folded.processes,
            softirq: folded.softirq,
            notes,
        })
    }
}

fn places(target: &Target) -> Result<Vec<Place>, ObserveError> {
    let places = match target {
        Target::Cpus(cpus) => cpus.iter().map(|cpu| Place::Cpu(*cpu)).collect(),
        Target::Process(process) => threads(*process)?,
    };
    if places.is_empty() {
        return Err(ObserveError::NoTarget);
    }
    Ok(places)
}

fn threads(process: u32) -> Result<Vec<Place>, ObserveError> {
    let directory = format!("/proc/{process}/task");
    let entries =
        fs::read_dir(Path::new(&directory)).map_err(|cause| ObserveError::NoProcess { process, cause })?;
    Ok(entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .map(|thread| Place::Thread { process, thread })
        .collect())
}

/// Opens the first event that works: cycles, then the timer; with the kernel, then, for a process, without.
fn open_best(
    target: &Target,
    places: &[Place],
    settings: &Settings,
    notes: &mut Vec<String>,
) -> Result<(SampledEvent, Vec<Sampler>), ObserveError> {
    let privileges: &[Privilege] = match target {
        Target::Cpus(_) => &[Privilege::WholeCpu],
        Target::Process(_) => &[Privilege::KernelOfProcess, Privilege::UserOfProcess],
    };
    let mut refusal = ObserveError::NoTarget;
    for privilege in privileges {
        if *privilege == Privilege::UserOfProcess {
            notes.push(format!("kernel code was not sampled: {refusal}"));
        }
        for event in [SampledEvent::Cycles, SampledEvent::CpuClock] {
            match open_all(event, places, settings, *privilege) {
                Ok(rings) => return Ok((event, rings)),
                Err(error) => refusal = error,
            }
        }
        if !matches!(refusal, ObserveError::Forbidden { .. }) {
            break;
        }
    }
    Err(refusal)
}

fn open_all(
    event: SampledEvent,
    places: &[Place],
    settings: &Settings,
    privilege: Privilege,
) -> Result<Vec<Sampler>, ObserveError> {
    let user_only = privilege == Privilege::UserOfProcess;
    let terms = Terms {
        event: event.name(),
        needs: "a kernel with CONFIG_PERF_EVENTS",
        privilege,
        ring_bytes: settings.ring_bytes,
    };
    let mut rings = Vec::new();
    let mut gone = None;
    for place in places {
        let mut builder = event.builder();
        builder
            .sample_frequency(u64::from(settings.frequency_hz))
            .exclude_kernel(user_only)
            .exclude_callchain_kernel(user_only);
        match open(builder, *place, terms) {
            Ok(ring) => rings.push(ring),
            // A thread may end between being listed and being opened; the process goes on with the others.
            Err(error @ ObserveError::NoProcess { .. }) => gone = Some(error),
            Err(error) => return Err(error),
        }
    }
    match gone {
        Some(error) if rings.is_empty() => Err(error),
        _ => Ok(rings),
    }
}
