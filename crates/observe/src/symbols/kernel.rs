//! The kernel's functions, from `/proc/kallsyms`.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;

use super::{Symbol, SymbolTable};

const KALLSYMS: &str = "/proc/kallsyms";

/// The image of what is not in a module.
const KERNEL: &str = "kernel";

/// The functions of the running kernel and its modules.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelSymbols {
    functions: SymbolTable<Function>,
    lock_functions: Vec<Range<u64>>,
    hidden_because: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Function {
    name: String,
    module: Option<String>,
    preference: Preference,
}

/// Which of several names of one address is shown, highest first: a function proper rather than a weak one, one that the
/// whole kernel knows, one with fewer underscores before it, a longer one (the order of `choose_best_symbol` in perf's
/// `tools/perf/util/symbol.c`).
type Preference = (bool, bool, isize, usize);

impl KernelSymbols {
    /// Reads the running kernel's. Where it hides them, [`KernelSymbols::hidden_because`] says so and no address resolves.
    pub(crate) fn read() -> Self {
        match fs::read_to_string(KALLSYMS) {
            Ok(text) => Self::parse(&text),
            Err(cause) => Self {
                hidden_because: Some(format!("kernel functions have no names: {KALLSYMS}: {cause}")),
                ..Self::default()
            },
        }
    }

    /// Reads lines of `ffffffff82203df0 T __pv_queued_spin_lock_slowpath` with `[module]` behind those of modules.
    pub(crate) fn parse(text: &str) -> Self {
        let mut symbols = Self::default();
        let mut bounds: HashMap<&str, u64> = HashMap::new();
        for line in text.lines() {
            let mut columns = line.split_whitespace();
            let (Some(address), Some(kind), Some(name)) = (columns.next(), columns.next(), columns.next())
            else {
                continue;
            };
            let Ok(address @ 1..) = u64::from_str_radix(address, 16) else {
                continue;
            };
            if name.starts_with("__sched_text_") || name.starts_with("__lock_text_") {
                bounds.insert(name, address);
            } else if matches!(kind, "t" | "T" | "w" | "W") && !name.starts_with("__pfx_") {
                let module = columns.next().map(|name| name.trim_matches(['[', ']']));
                let function = Function::new(name, kind, module);
                symbols.functions.add(address, None, function);
            }
        }
        symbols.functions.sort(|function| function.preference);
        let section = |name: &str| {
            let bound = |end| bounds.get(format!("__{name}_text_{end}").as_str()).copied();
            Some(bound("start")?..bound("end")?)
        };
        symbols.lock_functions = ["sched", "lock"].into_iter().filter_map(section).collect();
        if symbols.functions.entries.is_empty() {
            symbols.hidden_because = Some(
                "kernel functions have no names: /proc/kallsyms shows no addresses; run as root, or \
                 `sysctl kernel.kptr_restrict=0` with CAP_SYSLOG"
                    .to_owned(),
            );
        }
        symbols
    }

    /// Why no address resolves, where none does.
    pub(crate) fn hidden_because(&self) -> Option<&str> {
        self.hidden_because.as_deref()
    }

    /// The function at `address`.
    pub(crate) fn find(&self, address: u64) -> Symbol {
        let found = self.functions.find(address);
        let image = found.and_then(|function| function.module.as_deref());
        Symbol::new(image.unwrap_or(KERNEL), self.name(address))
    }

    /// Its name alone.
    pub(crate) fn name(&self, address: u64) -> Option<&str> {
        Some(&self.functions.find(address)?.name)
    }

    /// Whether `address` is in a function that takes or waits for locks.
    ///
    /// The kernel keeps spin locks in the section `.spinlock.text` and everything that sleeps, mutexes and semaphores
    /// among it, in `.sched.text`; perf detects them the same way (`machine__is_lock_function` in
    /// `tools/perf/util/machine.c`).
    pub(crate) fn is_lock_function(&self, address: u64) -> bool {
        // The tracepoint itself stands at the inner end of the chain where the compiler did not inline it.
        let tracepoints = ["__traceiter_contention_begin", "trace_contention_begin"];
        let mut sections = self.lock_functions.iter();
        sections.any(|section| section.contains(&address))
            || self.name(address).is_some_and(|name| tracepoints.contains(&name))
    }
}

impl Function {
    fn new(name: &str, kind: &str, module: Option<&str>) -> Self {
        let underscores = name.len() - name.trim_start_matches('_').len();
        Self {
            name: name.to_owned(),
            module: module.map(str::to_owned),
            preference: (
                !kind.eq_ignore_ascii_case("w"),
                kind == "T",
                -underscores.cast_signed(),
                name.len(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t __udp_helper
ffffffff81000100 W udp_weak_name
ffffffff810001f0 T __pfx_udp_rcv
ffffffff81000200 T udp_rcv
ffffffff82200000 T __sched_text_start
ffffffff82200000 T mutex_lock
ffffffff82201000 T __sched_text_end
ffffffff82202000 T __lock_text_start
ffffffff82202000 T _raw_spin_lock
ffffffff82203000 T __lock_text_end
ffffffff83000000 D some_data
ffffffffc0000000 t ixgbe_poll	[ixgbe]
";

    #[test]
    fn addresses_resolve_to_the_best_name_and_its_image() {
        let symbols = KernelSymbols::parse(TEXT);
        let name = |address| symbols.find(address).function;
        assert_eq!(name(0xffff_ffff_8100_0000), "_stext");
        assert_eq!(name(0xffff_ffff_8100_0150), "__udp_helper");
        assert_eq!(name(0xffff_ffff_8100_0210), "udp_rcv");
        let module = symbols.find(0xffff_ffff_c000_0010);
        assert_eq!(
            (module.image.as_str(), module.function.as_str()),
            ("ixgbe", "ixgbe_poll")
        );
        assert!(!symbols.find(0x1000).is_resolved());
    }

    #[test]
    fn functions_that_take_locks_are_told_by_their_section() {
        let symbols = KernelSymbols::parse(TEXT);
        assert!(symbols.is_lock_function(0xffff_ffff_8220_0010));
        assert!(symbols.is_lock_function(0xffff_ffff_8220_2010));
        assert!(!symbols.is_lock_function(0xffff_ffff_8100_0210));
    }

    #[test]
    fn a_kernel_that_hides_its_addresses_is_said_to() {
        let symbols = KernelSymbols::parse("0000000000000000 T udp_rcv\n");
        assert!(symbols.hidden_because().unwrap().contains("kptr_restrict"));
        assert_eq!(KernelSymbols::parse(TEXT).hidden_because(), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "([0-9a-f]{1,17} [a-zA-Z] [_a-z]{1,9}( \\[[a-z]*\\])?\n?){0,9}", address: u64) {
            KernelSymbols::parse(&text).find(address);
        }
    }
}
