//! Dumps of nftables: the elements between `elements = {` and `}` of sets and maps.
//!
//! An element is a key, then options (`timeout 1h`, `counter packets 1 bytes 2`, `comment "…"`), then, in a map, a colon
//! and a value, which has to be an integer.

use super::collector::{Collector, Take};
use super::error::{BadReason, ListError, utf8};
use crate::value::{Value, ValueError};

/// Passes every element of the selected sets and maps to the collector.
pub(super) fn read<F: Take>(text: &[u8], collector: &mut Collector<'_, F>) -> Result<(), ListError> {
    let mut tokens = Tokens { rest: text, line: 1 };
    let mut is_wanted = collector.options.set.is_none();
    // The family and the name of the table, and the words before the token, the last one last.
    let mut table: [&[u8]; 2] = [b""; 2];
    let mut before = [Token::Word(b""); 3];
    while let Some((_, token)) = tokens.next() {
        match (before, token) {
            ([Token::Word(b"table"), Token::Word(family), Token::Word(name)], Token::Mark(b'{')) => {
                table = [family, name];
            }
            ([_, Token::Word(b"table"), Token::Word(name)], Token::Mark(b'{')) => table = [b"ip", name],
            ([_, Token::Word(b"set" | b"map"), Token::Word(name)], Token::Mark(b'{')) => {
                is_wanted = match table {
                    [b"", _] => collector.begin_set(&[name]),
                    [family, table] => collector.begin_set(&[family, table, name]),
                };
            }
            ([.., Token::Word(b"elements")], Token::Mark(b'=')) => {
                read_elements(&mut tokens, is_wanted, collector)?;
            }
            _ => {}
        }
        before = [before[1], before[2], token];
    }
    Ok(())
}

/// Reads from the opening to the closing brace.
fn read_elements<F: Take>(
    tokens: &mut Tokens<'_>,
    is_wanted: bool,
    collector: &mut Collector<'_, F>,
) -> Result<(), ListError> {
    let mut words: Vec<(u64, &[u8])> = Vec::new();
    for (line, token) in tokens.by_ref() {
        match token {
            Token::Mark(b',' | b'}') => {
                if is_wanted {
                    give(&words, collector)?;
                }
                words.clear();
                if token == Token::Mark(b'}') {
                    return Ok(());
                }
            }
            // A quoted value, such as a device; other texts are comments.
            Token::Text if words.last().is_some_and(|(_, word)| *word == b":") => words.push((line, b"\"")),
            Token::Mark(_) | Token::Text => {}
            Token::Word(word) => words.push((line, word)),
        }
    }
    collector.bad(tokens.line, b"elements = {", BadReason::CutOff)
}

/// Passes the element of these words, each with its line, to the collector, unless there are none.
fn give<F: Take>(words: &[(u64, &[u8])], collector: &mut Collector<'_, F>) -> Result<(), ListError> {
    let Some(&(line, key)) = words.first() else {
        return Ok(());
    };
    if words.iter().any(|(_, word)| *word == b".") {
        return collector.bad(line, key, BadReason::Concatenation);
    }
    if key == b"*" {
        return collector.bad(line, key, BadReason::Wildcard);
    }
    let mut behind_colon = words.iter().skip_while(|(_, word)| *word != b":").skip(1);
    let value = match behind_colon.next() {
        Some((_, value)) if value[0].is_ascii_digit() => utf8(value).and_then(|value| Ok(integer(value)?)),
        Some(_) => Err(BadReason::Verdict),
        None => Ok(collector.options.value),
    };
    collector.text(line, key, value)
}

/// A value in decimal, or in hexadecimal as nft writes marks: `0x0000001f`.
fn integer(text: &str) -> Result<Value, ValueError> {
    match text.strip_prefix("0x") {
        Some(digits) => Value::of_integer(text, u64::from_str_radix(digits, 16)),
        None => text.parse(),
    }
}

/// A word, a quoted text, or one of the marks that separate them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a [u8]),
    Text,
    Mark(u8),
}

/// The rest of the text, and the number of its first line.
struct Tokens<'a> {
    rest: &'a [u8],
    line: u64,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (u64, Token<'a>);

    /// The next token and its line.
    fn next(&mut self) -> Option<(u64, Token<'a>)> {
        loop {
            let (first, after) = self.rest.split_first()?;
            match first {
                b'\n' => {
                    self.line += 1;
                    self.rest = after;
                }
                b'#' => {
                    let end = after
                        .iter()
                        .position(|byte| *byte == b'\n')
                        .unwrap_or(after.len());
                    self.rest = &after[end..];
                }
                b'"' => {
                    let end = after.iter().position(|byte| *byte == b'"').unwrap_or(after.len());
                    let (line, text) = (self.line, &after[..end]);
                    self.line += text.iter().filter(|byte| **byte == b'\n').count() as u64;
                    self.rest = after.get(end + 1..).unwrap_or_default();
                    return Some((line, Token::Text));
                }
                byte if byte.is_ascii_whitespace() => self.rest = after,
                byte if separates(*byte) => {
                    self.rest = after;
                    return Some((self.line, Token::Mark(*byte)));
                }
                _ => {
                    let ends = |byte: &u8| byte.is_ascii_whitespace() || separates(*byte) || *byte == b'"';
                    let end = self.rest.iter().position(ends).unwrap_or(self.rest.len());
                    let (word, rest) = self.rest.split_at(end);
                    self.rest = rest;
                    return Some((self.line, Token::Word(word)));
                }
            }
        }
    }
}

/// Colons are not among them: IPv6 addresses have them. The one before a value stands alone.
fn separates(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b'=' | b',' | b';')
}
