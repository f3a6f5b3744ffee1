//! The table of `pmcstat -T`: functions by their share of the samples, with the functions that called them.

use std::collections::HashMap;

use corelane_report::table::{Column, Table};
use serde::{Deserialize, Serialize};

use super::SampledEvent;
use crate::symbols::Symbol;

/// The functions of one set of samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionTable {
    /// The samples that the shares are of.
    pub samples: u64,
    /// Samples whose function has no name; they stand in the table under their image.
    pub unresolved_samples: u64,
    /// Every function that was sampled, the most frequent first.
    pub functions: Vec<FunctionShare>,
}

/// One function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionShare {
    /// Samples in the function itself, not in what it calls.
    pub samples: u64,
    /// Those of all samples of the table, in percent.
    pub share_percent: f64,
    /// `kernel`, a kernel module, or the base name of a program or library.
    pub image: String,
    /// The function.
    pub function: String,
    /// Who called it, the most frequent first. Samples whose caller is not known are in none.
    pub callers: Vec<CallerShare>,
}

/// One caller of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallerShare {
    /// Samples in the function when called from here.
    pub samples: u64,
    /// Those of all samples of the table, in percent, so that the callers' shares add up to the function's.
    pub share_percent: f64,
    /// The calling function.
    pub function: String,
}

impl FunctionTable {
    /// The first `rows` functions in the columns of pmcstat: `%SAMP IMAGE FUNCTION CALLERS`. A lone caller stands without
    /// its share, and callers below 0.1 % are left out, as there.
    #[must_use]
    pub fn table(&self, rows: usize) -> Table {
        let mut table = Table::new(vec![
            Column::right("%SAMP"),
            Column::left("IMAGE").may_shrink(),
            Column::left("FUNCTION").may_shrink(),
            Column::left("CALLERS").may_shrink(),
        ]);
        for function in self.functions.iter().take(rows) {
            table.row([
                format!("{:.1}", function.share_percent),
                function.image.clone(),
                function.function.clone(),
                function.callers_text(),
            ]);
        }
        table
    }

    /// The line over pmcstat's table: what was counted, how many samples, and how many of them have no name.
    #[must_use]
    pub fn headline(&self, event: SampledEvent) -> String {
        format!(
            "[{}] Samples: {}, {} unresolved",
            event.name(),
            self.samples,
            self.unresolved_samples
        )
    }

    /// The function of that name, wherever it ranks.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&FunctionShare> {
        self.functions.iter().find(|function| function.function == name)
    }
}

impl FunctionShare {
    fn callers_text(&self) -> String {
        // What pmcstat prints with one decimal would read 0.0 below this.
        const LEAST_SHOWN: f64 = 0.05;
        if let [only] = self.callers.as_slice() {
            return only.function.clone();
        }
        let shown = self
            .callers
            .iter()
            .filter(|caller| caller.share_percent >= LEAST_SHOWN);
        let parts: Vec<String> = shown
            .map(|caller| format!("{}:{:.1}", caller.function, caller.share_percent))
            .collect();
        parts.join(" ")
    }
}

/// Samples by function, then by caller.
#[derive(Debug, Default)]
pub(super) struct FunctionCounts {
    functions: HashMap<Symbol, Callers>,
}

#[derive(Debug, Default)]
struct Callers {
    samples: u64,
    by_function: HashMap<String, u64>,
}

impl FunctionCounts {
    /// Counts `samples` of `function`, called by `caller` where that is known.
    pub(super) fn add(&mut self, function: Symbol, caller: Option<Symbol>, samples: u64) {
        let callers = self.functions.entry(function).or_default();
        callers.samples += samples;
        if let Some(caller) = caller {
            *callers.by_function.entry(caller.function).or_default() += samples;
        }
    }

    /// The shares, in an order that depends on nothing but the counts and names.
    pub(super) fn into_table(self) -> FunctionTable {
        let samples: u64 = self.functions.values().map(|callers| callers.samples).sum();
        let percent = |part: u64| 100.0 * part as f64 / samples as f64;
        let unresolved_samples = self
            .functions
            .iter()
            .filter(|(symbol, _)| !symbol.is_resolved())
            .map(|(_, callers)| callers.samples)
            .sum();
        let mut functions: Vec<FunctionShare> = self
            .functions
            .into_iter()
            .map(|(symbol, counted)| {
                let mut callers: Vec<CallerShare> = counted
                    .by_function
                    .into_iter()
                    .map(|(function, samples)| CallerShare {
                        samples,
                        share_percent: percent(samples),
                        function,
                    })
                    .collect();
                callers.sort_by(|left, right| {
                    let by_name = || left.function.cmp(&right.function);
                    right.samples.cmp(&left.samples).then_with(by_name)
                });
                FunctionShare {
                    samples: counted.samples,
                    share_percent: percent(counted.samples),
                    image: symbol.image,
                    function: symbol.function,
                    callers,
                }
            })
            .collect();
        functions.sort_by(|left, right| {
            let by_name = || (&left.function, &left.image).cmp(&(&right.function, &right.image));
            right.samples.cmp(&left.samples).then_with(by_name)
        });
        FunctionTable {
            samples,
            unresolved_samples,
            functions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(function: &str) -> Symbol {
        Symbol {
            image: "kernel".to_owned(),
            function: function.to_owned(),
        }
    }

    #[test]
    fn the_table_is_that_of_pmcstat() {
        let mut counts = FunctionCounts::default();
        counts.add(kernel("fget_unlocked"), Some(kernel("kern_sendit")), 42);
        counts.add(kernel("fget_unlocked"), Some(kernel("kern_recvit")), 39);
        counts.add(kernel("__mtx_unlock_flags"), Some(kernel("ixgbe_mq_start")), 36);
        counts.add(kernel(Symbol::UNRESOLVED), None, 883);
        let table = counts.into_table();
        assert_eq!((table.samples, table.unresolved_samples), (1_000, 883));
        let expected = "\
%SAMP  IMAGE   FUNCTION            CALLERS
 88.3  kernel  [unresolved]
  8.1  kernel  fget_unlocked       kern_sendit:4.2 kern_recvit:3.9
  3.6  kernel  __mtx_unlock_flags  ixgbe_mq_start
";
        assert_eq!(table.table(10).render(100), expected);
        assert_eq!(
            table.headline(SampledEvent::CpuClock),
            "[cpu-clock] Samples: 1000, 883 unresolved"
        );
        assert_eq!(table.table(1).render(100).lines().count(), 2);
    }

    #[test]
    fn a_table_without_samples_has_no_rows_and_no_shares() {
        let table = FunctionCounts::default().into_table();
        assert_eq!(table, FunctionTable::default());
    }
}
