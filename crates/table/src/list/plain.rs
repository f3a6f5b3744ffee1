//! Plain lists: one element per line, optionally a value, comments anywhere.

use super::collector::{Collector, Take};
use super::element::ipv4_element;
use super::error::{BadReason, ListError, utf8};

/// Passes every line to the collector.
pub(super) fn read<F: Take>(text: &[u8], collector: &mut Collector<'_, F>) -> Result<(), ListError> {
    let value = collector.options.value;
    let (mut rest, mut number) = (text, 0);
    while !rest.is_empty() {
        number += 1;
        // Most lines of a long list are an address and nothing else: no search for the line's end.
        if let Some((element, used)) = ipv4_element(rest)
            && let Some(after) = after_line_end(&rest[used..])
        {
            collector.element(element, value)?;
            rest = after;
            continue;
        }
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        read_line(&rest[..end], number, collector)?;
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    Ok(())
}

/// The text after a line end, if it begins with one.
#[inline]
fn after_line_end(text: &[u8]) -> Option<&[u8]> {
    match text {
        [] => Some(text),
        [b'\n', after @ ..] | [b'\r', b'\n', after @ ..] => Some(after),
        _ => None,
    }
}

fn read_line<F: Take>(line: &[u8], number: u64, collector: &mut Collector<'_, F>) -> Result<(), ListError> {
    let comment = line.iter().position(|byte| matches!(byte, b'#' | b';'));
    let slashes = line.windows(2).position(|pair| pair == b"//");
    let end = [comment, slashes]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(line.len());
    let content = line[..end].trim_ascii();
    let mut words = content
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let Some(element) = words.next() else {
        return Ok(());
    };
    let value = match (words.next(), words.next()) {
        (None, _) => Ok(collector.options.value),
        (Some(value), None) => utf8(value).and_then(|value| Ok(value.parse()?)),
        (Some(_), Some(_)) => return collector.bad(number, content, BadReason::Trailing),
    };
    collector.text(number, element, value)
}
