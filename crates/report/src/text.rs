//! Paragraphs for terminals: 100 columns, hanging labels, quoted command lines.

use crate::table::wrap;
use corelane_measure::quantity;
use std::fmt::Write as _;

/// Columns of a terminal of the usual size.
pub const WIDTH: usize = 100;

/// Joins words into a shell command line.
pub fn command(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    words.join(" ")
}

/// Non-zero counts by name: `dropped 3, delayed 1,200`; `none` if all are zero.
#[must_use]
pub fn counted<'a>(counts: impl IntoIterator<Item = (&'a String, &'a u64)>) -> String {
    let occurred = counts.into_iter().filter(|(_, count)| **count > 0);
    let named: Vec<String> = occurred
        .map(|(name, count)| format!("{name} {}", quantity::count(*count)))
        .collect();
    if named.is_empty() {
        "none".to_owned()
    } else {
        named.join(", ")
    }
}

/// Appends a paragraph with a hanging label.
pub fn paragraph(text: &mut String, label: &str, words: &str) {
    let indent = label.chars().count();
    for (index, line) in wrap(words, WIDTH - indent).iter().enumerate() {
        let start = if index == 0 { label } else { &" ".repeat(indent) };
        let _ = writeln!(text, "{start}{line}");
    }
}

/// Quotes a word for a POSIX shell if needed.
fn quote(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+[]".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        assert_eq!(quote("--json"), "--json");
        assert_eq!(quote("my file"), "'my file'");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote(""), "''");
    }
}
