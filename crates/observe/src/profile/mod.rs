//! Which functions the CPUs ran: the table that the posts took from `pmcstat -T`, for the worker processes and for softirq.
//!
//! Input: CPUs, and the processes of an experiment, from [`Profiler::start`] to [`Profiler::finish`]. Output: a
//! [`Profile`].
//!
//! The CPUs are sampled at a fixed rate by the best available clock: cycles counted by hardware, otherwise the kernel's
//! `cpu-clock`, a timer. A timer cannot interrupt code that runs with interrupts off: the time of such code appears at the
//! instruction that enables them again. Kernel callers are exact (ORC or frame pointers); callers in user code are found
//! by frame pointers and are missing if a program was built without.

mod fold;
mod table;

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Sampler};
use serde::{Deserialize, Serialize};

use crate::ObserveError;
use crate::perf::{Event, Privilege, Recorder, lost_note, open, record};
use crate::symbols::{KernelSymbols, ProcessSymbols};

use fold::Folder;

pub use table::{CallerShare, FunctionShare, FunctionTable};

/// Samples per second per CPU: a prime, so that nothing periodic stays in step with them. Less than 1 % of a CPU in a
/// virtual machine.
const FREQUENCY_HZ: u32 = 997;

/// The memory each CPU's samples wait in: what `kernel.perf_event_mlock_kb` (516) lets everybody map, and a quarter of a second
/// of the deepest call chains.
const RING_BYTES: usize = 256 << 10;

/// The processes whose functions are named. All must exist when an observation starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processes {
    /// The server's; a server may have several.
    pub server: Vec<u32>,
    /// The generator's.
    pub generator: u32,
}

/// Running sampling. If dropped, it stops shortly afterwards and its data is lost.
pub struct Profiler {
    recorder: Recorder<Folder>,
    /// The server's, and last the generator's.
    processes: Vec<ProcessSymbols>,
    event: SampledEvent,
}

/// What made the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampledEvent {
    /// Cycles counted by the CPU: its interrupt cannot be held off.
    Cycles,
    /// The kernel's timer.
    #[default]
    CpuClock,
}

/// Where the time went. Every sample is in exactly one of: workers, clients, softirq, elsewhere, idle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// What made the samples.
    pub event: SampledEvent,
    /// Requested samples per second per CPU.
    pub frequency_hz: u32,
    /// From the first sample to the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples lost because a ring was full; in none of the tables.
    pub lost_samples: u64,
    /// Samples of the idle task.
    pub idle_samples: u64,
    /// Samples of other processes and of kernel threads, outside softirq.
    pub elsewhere_samples: u64,
    /// The server's threads, outside softirq.
    pub workers: FunctionTable,
    /// The generator's threads, outside softirq.
    pub clients: FunctionTable,
    /// Softirqs, whatever they interrupted: the receive path, and threads that run in its place (`ksoftirqd`, threaded
    /// NAPI).
    pub softirq: FunctionTable,
    /// Notes for the reader: hidden names, lost samples.
    #[serde(default)]
    pub notes: Vec<String>,
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
    /// Starts sampling everything that runs on these CPUs, softirq and the idle task included.
    ///
    /// # Errors
    ///
    /// [`ObserveError::Forbidden`] with the sysctl that would permit it, [`ObserveError::Refused`] without a CPU, without
    /// memory for samples, or for a process that ended.
    pub fn start(cpus: &[u32], processes: &Processes) -> Result<Self, ObserveError> {
        let read = |process: &u32| {
            ProcessSymbols::read(*process).map_err(|cause| {
                ObserveError::Refused(format!(
                    "process {process} cannot be observed: {cause}; it must run for as long as it is observed"
                ))
            })
        };
        let all = processes.server.iter().chain([&processes.generator]);
        let processes = all.map(read).collect::<Result<_, _>>()?;
        if cpus.is_empty() {
            return Err(ObserveError::no_cpu());
        }
        // The first event that works.
        let (event, rings) = match open_all(SampledEvent::Cycles, cpus) {
            Ok(rings) => (SampledEvent::Cycles, rings),
            Err(_) => (SampledEvent::CpuClock, open_all(SampledEvent::CpuClock, cpus)?),
        };
        Ok(Self {
            recorder: record(rings, cpus, Folder::default())?,
            processes,
            event,
        })
    }

    /// Stops sampling and resolves the functions. The processes may have ended; functions of files that they mapped
    /// meanwhile are then unresolved.
    ///
    /// # Errors
    ///
    /// [`ObserveError::Refused`] if the collecting thread failed.
    pub fn finish(self) -> Result<Profile, ObserveError> {
        let recorded = self.recorder.finish()?;
        let kernel = KernelSymbols::read();
        let hidden = kernel.hidden_because().map(str::to_owned);
        let mut processes = self.processes;
        for process in &mut processes {
            // Its later mappings, if it still runs.
            let _ = process.read_again();
        }
        Ok(Profile {
            event: self.event,
            frequency_hz: FREQUENCY_HZ,
            elapsed_ns: recorded.elapsed_ns,
            lost_samples: recorded.lost,
            notes: hidden
                .into_iter()
                .chain(lost_note(recorded.lost, "samples"))
                .collect(),
            ..recorded.sink.resolve(&kernel, &mut processes)
        })
    }
}

fn open_all(event: SampledEvent, cpus: &[u32]) -> Result<Vec<Sampler>, ObserveError> {
    let described = Event {
        name: event.name(),
        needs: "a kernel with CONFIG_PERF_EVENTS",
        privilege: Privilege::WholeCpu,
    };
    cpus.iter()
        .map(|cpu| {
            let mut builder = event.builder();
            builder
                .sample_frequency(u64::from(FREQUENCY_HZ))
                .exclude_kernel(false)
                .exclude_callchain_kernel(false);
            open(builder, *cpu, described, RING_BYTES)
        })
        .collect()
}
