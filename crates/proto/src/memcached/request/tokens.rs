//! The tokens of a line: what is between its spaces.

use memchr::memchr;

/// The last token of a line that says that no answer is wanted.
pub const NO_REPLY: &[u8] = b"noreply";

/// The most tokens of a line that count.
pub const MOST_TOKENS: usize = 23;

/// The first tokens of a line.
pub struct Tokens<'a> {
    tokens: [&'a [u8]; MOST_TOKENS],
    count: usize,
}

impl<'a> Tokens<'a> {
    pub fn new(line: &'a [u8]) -> Self {
        let mut tokens: [&[u8]; MOST_TOKENS] = [&[]; MOST_TOKENS];
        let mut count = 0;
        for (slot, token) in tokens.iter_mut().zip(split(line)) {
            *slot = token;
            count += 1;
        }
        Self { tokens, count }
    }

    pub fn all(&self) -> &[&'a [u8]] {
        &self.tokens[..self.count]
    }

    /// Whether the last one says that no answer is wanted.
    pub fn are_quiet(&self) -> bool {
        self.all().last() == Some(&NO_REPLY)
    }
}

/// All tokens of a line.
pub fn split(line: &[u8]) -> Split<'_> {
    Split { rest: line }
}

/// All tokens of a text in which they are short, such as flags.
pub fn split_short(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b' ').filter(|token| !token.is_empty())
}

/// The tokens that are left of a line.
pub struct Split<'a> {
    /// What is behind the last token.
    pub rest: &'a [u8],
}

impl<'a> Iterator for Split<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|byte| *byte != b' ')?;
        let token = &self.rest[start..];
        let length = memchr(b' ', token).unwrap_or(token.len());
        self.rest = &token[length..];
        Some(&token[..length])
    }
}
