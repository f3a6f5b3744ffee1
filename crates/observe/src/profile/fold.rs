//! From samples to tables: equal call chains are counted together, then named and put where they belong.

use std::collections::HashMap;

use perf_event::data::Sample;

use super::Profile;
use super::table::FunctionCounts;
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

impl Folder {
    /// Names the functions and sums them up. `processes` are the server's, and last the
    /// generator's.
    pub(super) fn resolve(self, kernel: &KernelSymbols, processes: &mut [ProcessSymbols]) -> Profile {
        let mut softirq = FunctionCounts::default();
        let mut tasks: [FunctionCounts; 2] = Default::default();
        let (mut idle_samples, mut elsewhere_samples) = (0, 0);
        for (chain, count) in &self.chains {
            let position = processes.iter().position(|named| named.process == chain.process);
            let table = if passes_softirq(&chain.addresses, kernel) {
                &mut softirq
            } else if let Some(position) = position {
                &mut tasks[usize::from(position + 1 == processes.len())]
            } else if chain.process == 0 {
                idle_samples += count;
                continue;
            } else {
                elsewhere_samples += count;
                continue;
            };
            let mut user = position.map(|position| &mut processes[position]);
            let mut name = |frame: Frame| match &mut user {
                _ if frame.in_kernel => kernel.find(frame.address),
                Some(symbols) => symbols.find(frame.address),
                None => Symbol::new("[unknown]", None),
            };
            // The function that ran and the one that called it, where that is known.
            let mut frames = frames(&chain.addresses);
            let function = frames.next().map(&mut name);
            let function = function.unwrap_or_else(|| Symbol::new("[unknown]", None));
            let caller = frames.next().map(&mut name).filter(Symbol::is_resolved);
            table.add(function, caller, *count);
        }
        let [workers, clients] = tasks.map(FunctionCounts::into_table);
        Profile {
            samples: self.chains.values().sum(),
            idle_samples,
            elsewhere_samples,
            workers,
            clients,
            softirq: softirq.into_table(),
            ..Profile::default()
        }
    }
}

fn passes_softirq(chain: &[u64], kernel: &KernelSymbols) -> bool {
    let entry = |frame: Frame| {
        let name = kernel.name(frame.address).filter(|_| frame.in_kernel);
        name.is_some_and(|name| SOFTIRQ_ENTRIES.contains(&name))
    };
    frames(chain).any(entry)
}

#[cfg(test)]
mod tests {
    use super::super::{CallerShare, FunctionShare, FunctionTable};
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

    /// Those of a server of two processes.
    fn processes(server: u32, generator: u32) -> [ProcessSymbols; 3] {
        [server - 1, server, generator].map(ProcessSymbols::unread)
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
