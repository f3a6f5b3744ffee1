//! Paragraphs for terminals: at most 100 columns, hanging labels, quoted command lines.

use crate::table::wrap;
use corelane_measure::quantity;
use std::fmt::Write as _;

/// Columns of a terminal of the usual size, and of paragraphs at most.
pub const WIDTH: usize = 100;

/// A terminal narrower than this is not supported.
const NARROWEST: usize = 60;

/// How wide text may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width {
    /// Columns of paragraphs.
    pub words: usize,
    /// Columns of tables.
    pub tables: usize,
    /// Columns of the verdict, the last line of a report.
    pub verdict: usize,
}

impl Width {
    /// The usual size; the verdict is one line.
    pub const USUAL: Self = Self {
        words: WIDTH,
        tables: WIDTH,
        verdict: usize::MAX,
    };

    /// A file or a pipe: no cell is cut, and the verdict is one line.
    pub const UNBOUNDED: Self = Self {
        tables: usize::MAX,
        ..Self::USUAL
    };

    /// A terminal of so many columns.
    #[must_use]
    pub fn of_terminal(columns: usize) -> Self {
        let columns = columns.max(NARROWEST);
        Self {
            words: columns.min(WIDTH),
            tables: columns,
            verdict: columns,
        }
    }
}

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

/// Words that start with a capital letter, as a title on a line of its own does.
#[must_use]
pub fn sentence_case(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// Appends a paragraph of this width with a hanging label.
pub fn wrapped(text: &mut String, label: &str, words: &str, width: usize) {
    let indent = label.chars().count();
    for (index, line) in wrap(words, width.saturating_sub(indent)).iter().enumerate() {
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
    fn a_terminal_bounds_every_line_and_a_pipe_none_but_paragraphs() {
        let narrow = Width::of_terminal(72);
        assert_eq!((narrow.words, narrow.tables, narrow.verdict), (72, 72, 72));
        assert_eq!(Width::of_terminal(20).tables, NARROWEST);
        assert_eq!(
            (Width::of_terminal(200).words, Width::of_terminal(200).tables),
            (WIDTH, 200)
        );
        assert_eq!(Width::UNBOUNDED.tables, usize::MAX);
    }

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        assert_eq!(quote("--json"), "--json");
        assert_eq!(quote("my file"), "'my file'");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote(""), "''");
    }
}
