//! Reads lists of addresses: converts text to prefixes with values, and reports invalid lines.
//!
//! `element` reads one address, prefix or range; `plain`, `ipset` and `nftables` find the elements in each format.

mod element;
mod ipset;
mod nftables;
mod plain;

pub use element::IpPrefix;

use crate::memory::MemoryError;
use crate::value::{Value, ValueError};
use element::Element;
use std::str::Utf8Error;
use thiserror::Error;

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
    /// Name of the only set or map to read from a dump; all of them if `None`.
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

/// An invalid line or element.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {text:?}: {reason}")]
pub struct BadLine {
    /// Its number, counting from one.
    pub line: u64,
    /// Its text, shortened.
    pub text: String,
    /// What is wrong.
    pub reason: BadReason,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum BadReason {
    #[error(
        "not an address, a prefix or a range: write 192.0.2.1, 192.0.2.0/24, 192.0.2.1-192.0.2.9 or 2001:db8::/32"
    )]
    NotAnAddress,
    #[error("the prefix is longer than the address: give a length from 0 to {longest}")]
    Length { longest: u8 },
    #[error("the range ends before it begins, or in another family: give the lower address first")]
    Range,
    #[error("{0}")]
    Value(#[from] ValueError),
    #[error("more than an address and a value: begin comments with #")]
    Trailing,
    #[error("more than an address (a port, a protocol, another address): this table holds addresses only")]
    Concatenation,
    #[error("an exception (nomatch): take it out of the list, and the prefix around it apart")]
    Exception,
    #[error("a wildcard: write 0.0.0.0/0 or ::/0")]
    Wildcard,
    #[error("a command without a set and an element: write add SET ADDRESS")]
    Command,
    #[error("the text ends inside this: it was cut off")]
    CutOff,
    #[error("{0}: write the list in ASCII or UTF-8")]
    Encoding(#[from] Utf8Error),
}

/// A list was rejected.
#[derive(Debug, Error)]
pub enum ListError {
    /// A line is wrong.
    #[error("{0}; correct the line, or skip bad lines")]
    Line(#[from] BadLine),
    /// A dump has no set of the requested name.
    #[error("there is no set {name:?} in this dump; it has {}", .found.join(", "))]
    NoSuchSet {
        /// The requested name.
        name: String,
        /// The existing names.
        found: Vec<String>,
    },
    /// Not enough memory for the entries.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Reads a list, and passes each prefix with its value to `take`, in the order of the text. Lines end with a line feed,
/// or with a carriage return and a line feed.
///
/// # Errors
/// The first invalid line, unless they are skipped; an error of `take`.
pub fn read_list(
    text: &[u8],
    options: &ListOptions,
    take: impl FnMut(IpPrefix, Value) -> Result<(), MemoryError>,
) -> Result<ListSummary, ListError> {
    let format = match options.format {
        ListFormat::Detect => detect(text),
        given => given,
    };
    let mut collector = Collector {
        options,
        take,
        summary: ListSummary {
            format,
            ..ListSummary::default()
        },
    };
    match format {
        ListFormat::Ipset => ipset::read(text, &mut collector)?,
        ListFormat::Nftables => nftables::read(text, &mut collector)?,
        ListFormat::Plain | ListFormat::Detect => plain::read(text, &mut collector)?,
    }
    Ok(collector.summary)
}

/// The format by the first word that is no comment.
fn detect(text: &[u8]) -> ListFormat {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines
        .find(|line| !line.is_empty() && !line.starts_with(b"#"))
        .unwrap_or_default();
    let word = first
        .split(|byte| byte.is_ascii_whitespace() || *byte == b'=')
        .next()
        .unwrap_or_default();
    match word {
        b"create" | b"add" => ListFormat::Ipset,
        b"table" | b"set" | b"map" | b"elements" => ListFormat::Nftables,
        _ => ListFormat::Plain,
    }
}

/// Receives each prefix and its value.
trait Take: FnMut(IpPrefix, Value) -> Result<(), MemoryError> {}

impl<F: FnMut(IpPrefix, Value) -> Result<(), MemoryError>> Take for F {}

/// Collects the elements and bad lines that the reader of a format finds.
struct Collector<'a, F> {
    options: &'a ListOptions,
    take: F,
    summary: ListSummary,
}

impl<F: Take> Collector<'_, F> {
    /// Adds an element and its value.
    #[inline]
    fn element(&mut self, element: Element, value: Value) -> Result<(), ListError> {
        self.summary.elements += 1;
        element.for_each_prefix(|prefix| {
            self.summary.prefixes += 1;
            (self.take)(prefix, value)
        })?;
        Ok(())
    }

    /// Adds an element by its text; `value` is its own value, or that of the list.
    fn text(&mut self, line: u64, text: &[u8], value: Result<Value, BadReason>) -> Result<(), ListError> {
        let both = Element::parse(text).and_then(|element| Ok((element, value?)));
        match both {
            Ok((element, value)) => self.element(element, value),
            Err(reason) => self.bad(line, text, reason),
        }
    }

    /// Rejects or counts an invalid line.
    #[cold]
    fn bad(&mut self, line: u64, text: &[u8], reason: BadReason) -> Result<(), ListError> {
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

    /// Whether a set of a dump is selected.
    fn wants(&self, set: &[u8]) -> bool {
        self.options
            .set
            .as_ref()
            .is_none_or(|wanted| wanted.as_bytes() == set)
    }

    /// Rejects a dump without the requested set.
    fn require_set(&self, found: Vec<String>) -> Result<(), ListError> {
        match &self.options.set {
            Some(name) if !found.contains(name) => Err(ListError::NoSuchSet {
                name: name.clone(),
                found,
            }),
            _ => Ok(()),
        }
    }
}

/// The text as a string.
fn utf8(text: &[u8]) -> Result<&str, BadReason> {
    Ok(std::str::from_utf8(text)?)
}
