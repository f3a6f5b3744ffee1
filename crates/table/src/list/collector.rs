//! What to read of a list, and what was read.

use super::element::{Element, IpPrefix};
use super::error::{BadLine, BadReason, ListError};
use crate::memory::MemoryError;
use crate::value::Value;

/// The format of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListFormat {
    /// By the first word: `create` or `add` begin what `ipset save` writes, `table`, `set`, `map` or `elements` what `nft
    /// list` writes; anything else is plain.
    #[default]
    Detect,
    /// One address, prefix or range (`192.0.2.1-192.0.2.9`) per line, optionally followed by a value. `#`, `;` and `//`
    /// begin comments.
    Plain,
    /// What `ipset save` writes and `ipset restore` reads: `add SET ELEMENT …`.
    Ipset,
    /// What `nft list set`, `nft list map` and `nft list ruleset` write: `elements = { … }`.
    Nftables,
}

/// How to handle an invalid line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadLines {
    /// Reject the list, and report the line.
    #[default]
    Refuse,
    /// Skip the line, and count it.
    Skip,
}

/// How to read a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Its format.
    pub format: ListFormat,
    /// The value of entries that have none of their own.
    pub value: Value,
    /// Name of the set or map to read from a dump; `None` if the dump has one only. `FAMILY TABLE NAME` selects between tables of
    /// nftables.
    pub set: Option<String>,
    /// How to handle invalid lines.
    pub bad_lines: BadLines,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListSummary {
    /// The format: never [`ListFormat::Detect`].
    pub format: ListFormat,
    /// Elements: addresses, prefixes and ranges.
    pub elements: u64,
    /// Prefixes after expansion: a range may need several.
    pub prefixes: u64,
    /// Invalid lines or elements that were skipped.
    pub skipped: u64,
    /// The first of them.
    pub first_skipped: Option<BadLine>,
}

/// Receives each prefix and its value.
pub(super) trait Take: FnMut(IpPrefix, Value) -> Result<(), MemoryError> {}

impl<F: FnMut(IpPrefix, Value) -> Result<(), MemoryError>> Take for F {}

/// Collects the elements and bad lines that the reader of a format finds.
pub(super) struct Collector<'a, F> {
    pub(super) options: &'a ListOptions,
    pub(super) take: F,
    pub(super) summary: ListSummary,
    /// The sets of a dump, each by the words that name it: in nftables family, table and name.
    pub(super) sets: Vec<String>,
}

impl<F: Take> Collector<'_, F> {
    /// Adds an element and its value.
    #[inline]
    pub(super) fn element(&mut self, element: Element, value: Value) -> Result<(), ListError> {
        self.summary.elements += 1;
        element.for_each_prefix(|prefix| {
            self.summary.prefixes += 1;
            (self.take)(prefix, value)
        })?;
        Ok(())
    }

    /// Adds an element by its text; `value` is its own value, or that of the list.
    pub(super) fn text(
        &mut self,
        line: u64,
        text: &[u8],
        value: Result<Value, BadReason>,
    ) -> Result<(), ListError> {
        let both = Element::parse(text).and_then(|element| Ok((element, value?)));
        match both {
            Ok((element, value)) => self.element(element, value),
            Err(reason) => self.bad(line, text, reason),
        }
    }

    /// Rejects or counts an invalid line.
    #[cold]
    pub(super) fn bad(&mut self, line: u64, text: &[u8], reason: BadReason) -> Result<(), ListError> {
        /// Longest part of a line in a message, in bytes.
        const SHOWN: usize = 80;
        let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]);
        let bad = BadLine {
            line,
            text: shown.into_owned(),
            reason,
        };
        if self.options.bad_lines == BadLines::Refuse {
            return Err(ListError::Line(bad));
        }
        self.summary.skipped += 1;
        self.summary.first_skipped.get_or_insert(bad);
        Ok(())
    }

    /// Notes a set of a dump by the words that name it; whether its elements are to be read.
    pub(super) fn begin_set(&mut self, words: &[&[u8]]) -> bool {
        let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let name = words.join(" ");
        let is_wanted = self.is_wanted(&name);
        if !self.sets.contains(&name) {
            self.sets.push(name);
        }
        is_wanted
    }

    /// Whether a set is selected, by all of its words or by the last.
    fn is_wanted(&self, set: &str) -> bool {
        let wanted = self.options.set.as_ref();
        wanted.is_none_or(|wanted| set == wanted || set.rsplit(' ').next() == Some(wanted))
    }

    /// Rejects a list in which not one set is selected, but none or several. Without sets, as a plain list, it has one.
    pub(super) fn require_one_set(&mut self) -> Result<(), ListError> {
        let sets = std::mem::take(&mut self.sets);
        let selected: Vec<String> = sets.iter().filter(|set| self.is_wanted(set)).cloned().collect();
        match (&self.options.set, selected.len()) {
            (Some(name), 0) => Err(ListError::NoSuchSet {
                name: name.clone(),
                found: sets,
            }),
            (_, 0 | 1) => Ok(()),
            (_, _) => Err(ListError::SeveralSets { found: selected }),
        }
    }
}
