//! From samples to tables: equal call chains are counted together, then named and put where they belong.

use std::collections::HashMap;
use std::fs;

use perf_event::data::Sample;

use super::table::FunctionCounts;
use super::{FunctionTable, ProcessProfile};
use crate::ObserveError;
use crate::perf::{Frame, Sink, frames};
use crate::symbols::{KernelSymbols, ProcessSymbols, Symbol};

/// Functions through which every softirq runs, by kernel version (`kernel/softirq.c`: `__do_softirq` until 6.9,
/// `handle_softirqs` since), and those that run the receive path in a thread instead (`net/core/dev.c`).
const SOFTIRQ_ENTRIES: &[&str] = &[
    "__do_softirq",
    "handle_softirqs",
    "net_rx_action",
    "process_backlog",
    "napi_threaded_poll",
    "napi_threaded_poll_loop",
];

/// Counts equal call chains.
#[derive(Debug, Default)]
pub(super) struct Folder {
    chains: HashMap<Chain, u64>,
}

/// Who ran, and the kernel's call chain: marks and addresses, the innermost first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Chain {
    process: u32,
    addresses: Box<[u64]>,
}

impl Sink for Folder {
    fn sample(&mut self, _source: usize, sample: &Sample<'_>) {
        let chain = Chain {
            // The idle task has process 0; so do interrupts that the kernel cannot ascribe.
            process: sample.pid().unwrap_or(0),
            addresses: sample.callchain().unwrap_or_default().into(),
        };
        *self.chains.entry(chain).or_default() += 1;
    }
}

/// The processes whose functions are named.
#[derive(Debug)]
pub(super) struct Processes {
    entries: Vec<Process>,
}

#[derive(Debug)]
struct Process {
    id: u32,
    command: String,
    symbols: ProcessSymbols,
}

impl Processes {
    /// Reads what the processes have mapped now, while they surely run.
    pub(super) fn read(ids: &[u32]) -> Result<Self, ObserveError> {
        let entries = ids
            .iter()
            .map(|id| {
                let gone = |cause| ObserveError::NoProcess { process: *id, cause };
                let command = fs::read_to_string(format!("/proc/{id}/comm")).map_err(gone)?;
                Ok(Process {
                    id: *id,
                    command: command.trim_end().to_owned(),
                    symbols: ProcessSymbols::read(*id).map_err(gone)?,
                })
            })
            .collect::<Result<_, ObserveError>>()?;
        Ok(Self { entries })
    }

    /// Adds what those that still run have mapped since.
    pub(super) fn read_again(&mut self) {
        for process in &mut self.entries {
            if let Ok(later) = ProcessSymbols::read(process.id) {
                process.symbols.extend(later);
            }
        }
    }

    fn position(&self, id: u32) -> Option<usize> {
        self.entries.iter().position(|process| process.id == id)
    }
}

/// Every sample in one place.
#[derive(Debug)]
pub(super) struct Folded {
    pub samples: u64,
    pub idle_samples: u64,
    pub elsewhere_samples: u64,
    pub processes: Vec<ProcessProfile>,
    pub softirq: FunctionTable,
}

impl Folder {
    /// Names the functions and sums them up.
    pub(super) fn resolve(self, kernel: &KernelSymbols, processes: &mut Processes) -> Folded {
        let mut namer = Namer {
            kernel,
            kernel_names: HashMap::new(),
        };
        let mut softirq = FunctionCounts::default();
        let mut tasks: Vec<FunctionCounts> = Vec::new();
        tasks.resize_with(processes.entries.len(), FunctionCounts::default);
        let (mut idle_samples, mut elsewhere_samples) = (0, 0);
        for (chain, count) in &self.chains {
            let position = processes.position(chain.process);
            let table = if namer.passes_softirq(&chain.addresses) {
                &mut softirq
            } else if let Some(position) = position {
                &mut tasks[position]
            } else if chain.process == 0 {
                idle_samples += count;
                continue;
            } else {
                elsewhere_samples += count;
                continue;
            };
            let user = position.map(|position| &mut processes.entries[position].symbols);
            let (function, caller) = namer.innermost(&chain.addresses, user);
            table.add(function, caller, *count);
        }
        Folded {
            samples: self.chains.values().sum(),
            idle_samples,
            elsewhere_samples,
            processes: processes
                .entries
                .iter()
                .zip(tasks)
                .map(|(process, counts)| ProcessProfile {
                    process: process.id,
                    command: process.command.clone(),
                    functions: counts.into_table(),
                })
                .collect(),
            softirq: softirq.into_table(),
        }
    }
}

/// Names addresses, the kernel's once each.
struct Namer<'a> {
    kernel: &'a KernelSymbols,
    kernel_names: HashMap<u64, Symbol>,
}

impl Namer<'_> {
    fn passes_softirq(&mut self, chain: &[u64]) -> bool {
        frames(chain).any(|frame| {
            frame.in_kernel && SOFTIRQ_ENTRIES.contains(&self.kernel_name(frame.address).function.as_str())
        })
    }

    /// The function that ran and the one that called it, where that is known.
    fn innermost(
        &mut self,
        chain: &[u64],
        mut user: Option<&mut ProcessSymbols>,
    ) -> (Symbol, Option<Symbol>) {
        let mut name = |frame: Frame| {
            if frame.in_kernel {
                return self.kernel_name(frame.address).clone();
            }
            match &mut user {
                Some(symbols) => symbols.find(frame.address),
                None => unknown(),
            }
        };
        let mut frames = frames(chain);
        let function = frames.next().map_or_else(unknown, &mut name);
        let caller = frames.next().map(&mut name).filter(Symbol::is_resolved);
        (function, caller)
    }

    fn kernel_name(&mut self, address: u64) -> &Symbol {
        self.kernel_names
            .entry(address)
            .or_insert_with(|| self.kernel.find(address))
    }
}

fn unknown() -> Symbol {
    Symbol {
        image: "[unknown]".to_owned(),
        function: Symbol::UNRESOLVED.to_owned(),
    }
}
