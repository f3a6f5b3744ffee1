//! The tokens of a line: what is between its spaces.

use memchr::memchr;

/// The most tokens of a line that count.
const MOST: usize = 23;

/// The first tokens of a line.
pub struct Tokens<'a> {
    tokens: [&'a [u8]; MOST],
    count: usize,
}

impl<'a> Tokens<'a> {
    pub fn new(line: &'a [u8]) -> Self {
        let mut tokens: [&[u8]; MOST] = [&[]; MOST];
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
        self.all().last() == Some(&&b"noreply"[..])
    }
}

/// All tokens of a line.
pub fn split(line: &[u8]) -> Split<'_> {
    Split { rest: line }
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
