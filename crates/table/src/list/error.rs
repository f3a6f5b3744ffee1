//! Why a line, or a list, is rejected.

use crate::memory::MemoryError;
use crate::value::ValueError;
use std::str::Utf8Error;
use thiserror::Error;

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
    #[error(
        "its value is a verdict or a name, and a table has numbers: keep the addresses of each verdict in a set of their own"
    )]
    Verdict,
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
    /// The list has no set of the requested name; a plain list and a snapshot have none at all.
    #[error("there is no set {name:?} in this file; it has {}", if .found.is_empty() { "no sets".to_owned() } else { .found.join(", ") })]
    NoSuchSet {
        /// The requested name.
        name: String,
        /// The existing names.
        found: Vec<String>,
    },
    /// A dump has several sets, which one table would mix.
    #[error("there are {} sets in this file, name one of them: {}", .found.len(), .found.join(", "))]
    SeveralSets {
        /// Their names.
        found: Vec<String>,
    },
    /// Not enough memory for the entries.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// The text as a string.
pub(super) fn utf8(text: &[u8]) -> Result<&str, BadReason> {
    Ok(std::str::from_utf8(text)?)
}
