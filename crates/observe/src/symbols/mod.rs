//! From addresses to names: the kernel's functions and those of the processes that ran.
//!
//! Input: `/proc/kallsyms`, `/proc/PID/maps` and the files mapped there. Output: one [`Symbol`] per address.

mod image;
mod kernel;
mod process;

use std::collections::HashMap;

pub(crate) use kernel::KernelSymbols;
pub(crate) use process::ProcessSymbols;

/// A function and the image that holds it, in the order of names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Symbol {
    /// The function, demangled.
    pub function: String,
    /// `kernel`, a kernel module, or the base name of a program or library.
    pub image: String,
}

impl Symbol {
    /// The name of a function without a name.
    pub(crate) const UNRESOLVED: &str = "[unresolved]";

    pub(crate) fn new(image: &str, function: Option<&str>) -> Self {
        Self {
            function: function.unwrap_or(Self::UNRESOLVED).to_owned(),
            image: image.to_owned(),
        }
    }

    pub(crate) fn is_resolved(&self) -> bool {
        self.function != Self::UNRESOLVED
    }
}

/// The counted items, the most frequent first; ties are sorted by name.
pub(crate) fn most_first<Name: Ord, T>(
    counted: HashMap<Name, T>,
    count: impl Fn(&T) -> u64,
) -> Vec<(Name, T)> {
    let mut counted: Vec<(Name, T)> = counted.into_iter().collect();
    counted.sort_by(|(left, of_left), (right, of_right)| {
        let most = count(of_right).cmp(&count(of_left));
        most.then_with(|| left.cmp(right))
    });
    counted
}

/// Functions of one address space by start address.
#[derive(Clone, Debug, Default)]
pub(crate) struct SymbolTable<Name> {
    entries: Vec<Entry<Name>>,
}

#[derive(Clone, Debug)]
struct Entry<Name> {
    start: u64,
    /// `None` if the source does not report it: the function extends to the next one.
    size: Option<u64>,
    name: Name,
}

impl<Name> SymbolTable<Name> {
    /// Adds a function of `size` bytes, if known.
    fn add(&mut self, start: u64, size: Option<u64>, name: Name) {
        self.entries.push(Entry { start, size, name });
    }

    /// Prepares the table for look-ups. Of several names for one address the one with the highest `preference` is kept.
    fn sort<Rank: Ord>(&mut self, preference: impl Fn(&Name) -> Rank) {
        self.entries.sort_by(|left, right| {
            let by_rank = || preference(&right.name).cmp(&preference(&left.name));
            left.start.cmp(&right.start).then_with(by_rank)
        });
        self.entries.dedup_by_key(|entry| entry.start);
    }

    /// The function that holds `address`.
    fn find(&self, address: u64) -> Option<&Name> {
        let after = self.entries.partition_point(|entry| entry.start <= address);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        let inside = entry.size.is_none_or(|size| address - entry.start < size);
        inside.then_some(&entry.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_that_holds_it() {
        let mut table = SymbolTable::default();
        table.add(0x30, None, "c");
        table.add(0x10, Some(8), "a");
        table.add(0x10, Some(8), "z");
        table.sort(|name| *name);
        assert_eq!(table.find(0xf), None);
        assert_eq!(table.find(0x10), Some(&"z"));
        assert_eq!(table.find(0x17), Some(&"z"));
        assert_eq!(table.find(0x18), None);
        assert_eq!(table.find(0x1000), Some(&"c"));
    }
}
