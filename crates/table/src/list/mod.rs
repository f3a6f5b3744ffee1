//! Reads lists of addresses: converts text to prefixes with values, and reports invalid lines.
//!
//! `element` reads one address, prefix or range; `plain`, `ipset` and `nftables` find the elements in each format.

mod collector;
mod element;
mod error;
mod ipset;
mod nftables;
mod plain;

pub use collector::{BadLines, ListFormat, ListOptions, ListSummary};
pub use element::IpPrefix;
pub use error::{BadLine, BadReason, ListError};

use crate::memory::MemoryError;
use crate::value::Value;
use collector::Collector;

/// Reads a list, and passes each prefix with its value to `take`, in the order of the text. Lines end with a line feed,
/// or with a carriage return and a line feed.
///
/// # Errors
/// The first invalid line, unless they are skipped; an error of `take`; a dump of several sets, none of which is selected.
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
        sets: Vec::new(),
    };
    match format {
        ListFormat::Ipset => ipset::read(text, &mut collector)?,
        ListFormat::Nftables => nftables::read(text, &mut collector)?,
        ListFormat::Plain | ListFormat::Detect => plain::read(text, &mut collector)?,
    }
    collector.require_one_set()?;
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
