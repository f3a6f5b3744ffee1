//! From samples to tables: equal call chains are counted together, then named and put where they belong.

use std::collections::HashMap;

use perf_event::data::Sample;

use super::table::FunctionCounts;
use super::{FunctionTable, Processes};
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

/// One of the processes whose functions are named.
#[derive(Debug)]
struct Named {
    id: u32,
    symbols: ProcessSymbols,
}

impl Named {
    /// Reads what the process has mapped now, while it surely runs.
    fn read(process: u32) -> Result<Self, ObserveError> {
        let symbols =
            ProcessSymbols::read(process).map_err(|cause| ObserveError::NoProcess { process, cause })?;
        Ok(Self { id: process, symbols })
    }

    /// Adds what it has mapped since, if it still runs.
    fn read_again(&mut self) {
        if let Ok(later) = ProcessSymbols::read(self.id) {
            self.symbols.extend(later);
        }
    }
}

/// The server's process and the generator's, in this order.
#[derive(Debug)]
pub(super) struct NamedProcesses([Named; 2]);

impl NamedProcesses {
    pub(super) fn read(processes: Processes) -> Result<Self, ObserveError> {
        Ok(Self([
            Named::read(processes.server)?,
            Named::read(processes.generator)?,
        ]))
    }

    pub(super) fn read_again(&mut self) {
        self.0.iter_mut().for_each(Named::read_again);
    }

    fn position(&self, id: u32) -> Option<usize> {
        self.0.iter().position(|process| process.id == id)
    }
}

/// Every sample in one place.
#[derive(Debug)]
pub(super) struct Folded {
    pub samples: u64,
    pub idle_samples: u64,
    pub elsewhere_samples: u64,
    pub workers: FunctionTable,
    pub clients: FunctionTable,
    pub softirq: FunctionTable,
}

impl Folder {
    /// Names the functions and sums them up.
    pub(super) fn resolve(self, kernel: &KernelSymbols, processes: &mut NamedProcesses) -> Folded {
        let mut namer = Namer {
            kernel,
            kernel_names: HashMap::new(),
        };
        let mut softirq = FunctionCounts::default();
        let mut tasks: [FunctionCounts; 2] = Default::default();
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
            let user = position.map(|position| &mut processes.0[position].symbols);
            let (function, caller) = namer.innermost(&chain.addresses, user);
            table.add(function, caller, *count);
        }
        let [workers, clients] = tasks;
        Folded {
            samples: self.chains.values().sum(),
            idle_samples,
            elsewhere_samples,
            workers: workers.into_table(),
            clients: clients.into_table(),
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

#[cfg(test)]
mod tests {
    use super::super::{CallerShare, FunctionShare};
    use super::*;

    const SYMBOLS: &str = "\
0000000000001000 T udp_sendmsg
0000000000002000 T inet_sendmsg
0000000000003000 T __udp4_lib_rcv
0000000000004000 T handle_softirqs
0000000000005000 T default_idle
";

    /// `PERF_CONTEXT_KERNEL`, as the kernel writes it before its addresses.
    const KERNEL: u64 = (-128_i64).cast_unsigned();

    fn processes(server: u32, generator: u32) -> NamedProcesses {
        NamedProcesses([server, generator].map(|id| Named {
            id,
            symbols: ProcessSymbols::default(),
        }))
    }

    #[test]
    fn every_sample_goes_to_one_place() {
        let worker = 7;
        let mut folder = Folder::default();
        let mut count = |process, addresses: &[u64], samples| {
            let addresses = addresses.into();
            folder.chains.insert(Chain { process, addresses }, samples);
        };
        count(worker, &[KERNEL, 0x1010, 0x2010], 5);
        count(worker, &[KERNEL, 0x3010, 0x4010, 0x1010, 0x2010], 4);
        count(0, &[KERNEL, 0x3010, 0x4010, 0x5010], 3);
        count(0, &[KERNEL, 0x5010], 2);
        count(8, &[KERNEL, 0x1010, 0x2010], 1);
        let mut processes = processes(worker, 9);
        let folded = folder.resolve(&KernelSymbols::parse(SYMBOLS), &mut processes);
        assert_eq!(folded.samples, 15);
        assert_eq!((folded.idle_samples, folded.elsewhere_samples), (2, 1));
        let only = |function: &str, caller: &str| {
            vec![FunctionShare {
                samples_percent: 100.0,
                image: "kernel".to_owned(),
                function: function.to_owned(),
                callers: vec![CallerShare {
                    function: caller.to_owned(),
                    samples_percent: 100.0,
                }],
            }]
        };
        assert_eq!(folded.workers.rows, only("udp_sendmsg", "inet_sendmsg"));
        assert_eq!(folded.softirq.rows, only("__udp4_lib_rcv", "handle_softirqs"));
        assert_eq!(folded.clients, FunctionTable::default());
        assert_eq!(folded.softirq.samples, 7);
    }

    #[test]
    fn a_sample_without_a_name_is_counted_and_shown_as_unresolved() {
        let mut folder = Folder::default();
        let addresses = Box::from([KERNEL, 0x10]);
        folder.chains.insert(
            Chain {
                process: 7,
                addresses,
            },
            2,
        );
        let mut processes = processes(7, 9);
        let folded = folder.resolve(&KernelSymbols::parse(SYMBOLS), &mut processes);
        assert_eq!(folded.workers.unresolved_samples, 2);
    }
}
