//! Functions by their share of the samples, with the functions that called them, as `pmcstat -T` counts them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::symbols::{Symbol, most_first};

/// The functions of one set of samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionTable {
    /// All samples; the shares refer to them.
    pub samples: u64,
    /// Samples whose function has no name; the rows show them under their image.
    pub unresolved_samples: u64,
    /// Functions that were sampled. A caller may keep only the first rows.
    pub functions: usize,
    /// The most frequent function first.
    pub rows: Vec<FunctionShare>,
}

/// One function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionShare {
    /// Samples in the function itself, not in what it calls, in percent of the table's.
    pub samples_percent: f64,
    /// `kernel`, a kernel module, or the base name of a program or library.
    pub image: String,
    /// The function.
    pub function: String,
    /// Its callers, the most frequent first. Samples with an unknown caller are in none.
    pub callers: Vec<CallerShare>,
}

/// One caller of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallerShare {
    /// The calling function.
    pub function: String,
    /// Samples in the function when called from here, in percent of the table's: the callers' shares add up to the
    /// function's.
    pub samples_percent: f64,
}

/// Samples by function, in total and by caller.
#[derive(Debug, Default)]
pub(super) struct FunctionCounts(HashMap<Symbol, (u64, HashMap<String, u64>)>);

impl FunctionCounts {
    /// Counts `samples` of `function`, called by `caller` if known.
    pub(super) fn add(&mut self, function: Symbol, caller: Option<Symbol>, samples: u64) {
        let (total, callers) = self.0.entry(function).or_default();
        *total += samples;
        if let Some(caller) = caller {
            *callers.entry(caller.function).or_default() += samples;
        }
    }

    /// The shares; ties are sorted by name.
    pub(super) fn into_table(self) -> FunctionTable {
        let samples: u64 = self.0.values().map(|(total, _)| total).sum();
        let percent = |part: u64| 100.0 * part as f64 / samples as f64;
        let unresolved = self.0.iter().filter(|(symbol, _)| !symbol.is_resolved());
        let unresolved_samples = unresolved.map(|(_, (total, _))| total).sum();
        let functions = most_first(self.0, |(total, _)| *total);
        let rows = functions.into_iter().map(|(symbol, (total, callers))| {
            let callers = most_first(callers, |samples| *samples);
            let callers = callers.into_iter().map(|(function, samples)| CallerShare {
                function,
                samples_percent: percent(samples),
            });
            FunctionShare {
                samples_percent: percent(total),
                image: symbol.image,
                function: symbol.function,
                callers: callers.collect(),
            }
        });
        let rows: Vec<FunctionShare> = rows.collect();
        FunctionTable {
            samples,
            unresolved_samples,
            functions: rows.len(),
            rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(function: &str) -> Symbol {
        Symbol::new("kernel", Some(function))
    }

    #[test]
    fn functions_and_callers_are_ranked_by_their_shares_of_all_samples() {
        let mut counts = FunctionCounts::default();
        counts.add(kernel("fget_unlocked"), Some(kernel("kern_sendit")), 42);
        counts.add(kernel("fget_unlocked"), Some(kernel("kern_recvit")), 39);
        counts.add(kernel("__mtx_unlock_flags"), Some(kernel("ixgbe_mq_start")), 36);
        counts.add(kernel(Symbol::UNRESOLVED), None, 883);
        let table = counts.into_table();
        assert_eq!((table.samples, table.unresolved_samples), (1_000, 883));
        let row = |samples_percent, function: &str, callers: &[(&str, f64)]| FunctionShare {
            samples_percent,
            image: "kernel".to_owned(),
            function: function.to_owned(),
            callers: callers
                .iter()
                .map(|(function, samples_percent)| CallerShare {
                    function: (*function).to_owned(),
                    samples_percent: *samples_percent,
                })
                .collect(),
        };
        let expected = [
            row(88.3, "[unresolved]", &[]),
            row(
                8.1,
                "fget_unlocked",
                &[("kern_sendit", 4.2), ("kern_recvit", 3.9)],
            ),
            row(3.6, "__mtx_unlock_flags", &[("ixgbe_mq_start", 3.6)]),
        ];
        assert_eq!(table.rows, expected);
        assert_eq!(table.functions, 3);
    }

    #[test]
    fn a_table_without_samples_has_no_rows_and_no_shares() {
        let table = FunctionCounts::default().into_table();
        assert_eq!(table, FunctionTable::default());
    }
}
