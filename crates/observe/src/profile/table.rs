//! Functions by their share of the samples, with the functions that called them, as `pmcstat -T` counts them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::symbols::{Symbol, most_first};

/// The functions of one set of samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FunctionTable {
    /// The samples that the shares are of.
    pub samples: u64,
    /// Samples whose function has no name; they stand in the rows under their image.
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
    /// Who called it, the most frequent first. Samples whose caller is not known are in none.
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
        let unresolved = self.functions.iter().filter(|(symbol, _)| !symbol.is_resolved());
        let unresolved_samples = unresolved.map(|(_, callers)| callers.samples).sum();
        let functions = most_first(self.functions, |callers| callers.samples);
        let rows = functions.into_iter().map(|(symbol, counted)| {
            let callers = most_first(counted.by_function, |samples| *samples);
            let callers = callers.into_iter().map(|(function, samples)| CallerShare {
                function,
                samples_percent: percent(samples),
            });
            FunctionShare {
                samples_percent: percent(counted.samples),
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
