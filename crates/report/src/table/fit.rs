//! Text that fits: on one line, truncated or wrapped.

/// Marks truncated text.
const CUT: char = '\u{2026}';

/// Text on one line without control characters.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// Truncates text to `width` characters; truncated text ends in `…`.
#[must_use]
pub fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept.truncate(kept.trim_end().len());
    kept.push(CUT);
    kept
}

/// Wraps words into lines of at most `width` characters; a longer word gets its own line.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in clean(text).split_whitespace() {
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Columns of a text.
pub(super) fn length(text: &str) -> usize {
    text.chars().count()
}
