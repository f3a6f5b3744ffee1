//! `response`: the answers of one HTTP/1.1 connection, taken apart as they arrive.
//!
//! In: bytes in any split, and whether the request was a HEAD. Out: [`Item`]s, in order: informational answers, the head,
//! slices of the body, the end; then the next answer. A head that arrives whole is read where it lies; one that arrives in
//! pieces is kept, up to the limit, until it is whole. Between answers nothing is kept.
//!
//! Framing follows RFC 9112 6.3 strictly: lengths that disagree, a length beside a transfer coding, bare line feeds, folded
//! lines and whitespace before colons are refused by name, as another reader could frame them differently.

mod error;
mod head;

pub use error::ResponseError;
pub use head::{Fields, Head, Version};

use super::chunked::{self, BodyReader, Decoder};
use head::Draft;

/// How much of a head is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head, status line and empty line included; 64 KiB by default.
    pub head_bytes: u32,
    /// Field lines of a head; 256 by default.
    pub fields: u16,
    /// Informational answers before the one that counts; 16 by default.
    pub informational: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 65_536,
            fields: 256,
            informational: 16,
        }
    }
}

/// How the end of a body is known (RFC 9112 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    Nothing,
    /// So many bytes, at least one.
    Length(u64),
    /// The chunked coding.
    Chunked,
    /// The connection's end is the body's.
    UntilClose,
}

/// The next part of what a server sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'a> {
    /// An answer before the answer, such as 100 Continue: its status.
    Informational(u16),
    /// The head of an answer.
    Head(Head<'a>),
    /// The next bytes of the body, at least one.
    Body(&'a [u8]),
    /// The answer is complete.
    End,
}

#[derive(Debug, Clone)]
enum State {
    Head(Draft),
    Body(BodyReader),
    UntilClose,
    Ended,
    Failed(ResponseError),
}

/// Takes the answers of one connection apart.
#[derive(Debug, Clone)]
pub struct Parser {
    state: State,
    /// What has arrived of a head that is not whole yet, or of the head just told.
    tail: Vec<u8>,
    limits: Limits,
    informational: u16,
    to_head: bool,
}

/// The last head that arrived whole, with what it said. Servers send one head many times over: as long as the same bytes come
/// again, they need not be read again. Parsers with equal limits may share it.
#[derive(Debug, Clone, Default)]
pub struct LastHead {
    bytes: Vec<u8>,
    draft: Draft,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Parser {
    /// A parser before the first answer.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            state: State::Head(Draft::default()),
            tail: Vec::new(),
            limits,
            informational: 0,
            to_head: false,
        }
    }

    /// Says whether the answer that comes next is to a HEAD request, and so has no body. It holds for that answer alone.
    pub fn expect_no_body(&mut self, to_head: bool) {
        self.to_head = to_head;
    }

    /// Whether nothing of the next answer has arrived: the connection may close here without an answer cut short.
    #[must_use]
    pub fn is_between_answers(&self) -> bool {
        matches!(&self.state, State::Head(draft) if draft.is_empty())
            && self.tail.is_empty()
            && self.informational == 0
    }

    /// Takes in bytes: how many were used, and what they amount to. With `None` all were used and more are needed. An
    /// end may come without using a byte: feed, empty input too, until `None`.
    ///
    /// # Errors
    /// When the bytes are no answer, see [`ResponseError`]; the same error from then on.
    pub fn feed<'a>(&'a mut self, input: &'a [u8]) -> Result<(usize, Option<Item<'a>>), ResponseError> {
        match &mut self.state {
            State::Head(_) => self.feed_head(input, None),
            State::Ended => {
                self.state = State::Head(Draft::default());
                self.tail = Vec::new();
                self.informational = 0;
                self.to_head = false;
                Ok((0, Some(Item::End)))
            }
            State::Failed(error) => Err(*error),
            State::UntilClose if input.is_empty() => Ok((0, None)),
            State::UntilClose => Ok((input.len(), Some(Item::Body(input)))),
            State::Body(reader) => match reader.feed(input) {
                Ok((used, Some(chunked::Item::Data(data)))) => {
                    // With its last byte a body of known length is complete.
                    if *reader == BodyReader::Length(0) {
                        self.state = State::Ended;
                    }
                    Ok((used, Some(Item::Body(data))))
                }
                Ok((used, None)) => Ok((used, None)),
                Ok((used, Some(chunked::Item::End))) => {
                    self.state = State::Ended;
                    self.feed(&[]).map(|(_, item)| (used, item))
                }
                Err(error) => Err(self.fail(error.into())),
            },
        }
    }

    /// As [`feed`](Self::feed), and remembers the last head.
    ///
    /// # Errors
    /// As [`feed`](Self::feed).
    pub fn feed_after<'a>(
        &'a mut self,
        input: &'a [u8],
        last: &mut LastHead,
    ) -> Result<(usize, Option<Item<'a>>), ResponseError> {
        let begins = matches!(&self.state, State::Head(draft) if draft.is_empty()) && self.tail.is_empty();
        if !begins {
            return self.feed(input);
        }
        let length = last.bytes.len();
        if length > 0 && input.starts_with(&last.bytes) {
            return self
                .told(&last.draft, input, length, false)
                .map(|item| (length, Some(item)));
        }
        self.feed_head(input, Some(last))
    }

    /// The connection has ended: says whether that ends an answer, too.
    ///
    /// # Errors
    /// When it cuts an answer short.
    pub fn finish(&mut self) -> Result<Option<Item<'static>>, ResponseError> {
        match &self.state {
            State::Failed(error) => Err(*error),
            State::UntilClose | State::Ended => {
                *self = Self::new(self.limits);
                Ok(Some(Item::End))
            }
            State::Head(_) if self.is_between_answers() => Ok(None),
            State::Head(_) => Err(self.fail(ResponseError::ClosedInHead)),
            State::Body(_) => Err(self.fail(ResponseError::ClosedInBody)),
        }
    }

    fn fail(&mut self, error: ResponseError) -> ResponseError {
        self.state = State::Failed(error);
        self.tail = Vec::new();
        error
    }

    fn feed_head<'a>(
        &'a mut self,
        input: &'a [u8],
        last: Option<&mut LastHead>,
    ) -> Result<(usize, Option<Item<'a>>), ResponseError> {
        let State::Head(draft) = &mut self.state else {
            return Ok((0, None));
        };
        let limit = self.limits.head_bytes as usize;
        let before = self.tail.len();
        // A head of which nothing is kept is read where it lies.
        let kept = before > 0;
        if kept {
            let room = limit.saturating_sub(before).max(1);
            self.tail.extend_from_slice(&input[..room.min(input.len())]);
        }
        let bytes = if kept { self.tail.as_slice() } else { input };
        match draft.read(bytes, before, self.limits) {
            Ok(false) if kept => Ok((self.tail.len() - before, None)),
            Ok(false) => {
                self.tail.extend_from_slice(input);
                Ok((input.len(), None))
            }
            Ok(true) => {
                let length = draft.length();
                self.tail.truncate(length);
                let draft = *draft;
                if let Some(last) = last {
                    last.bytes.clear();
                    last.bytes.extend_from_slice(&input[..length]);
                    last.draft = draft;
                }
                self.told(&draft, input, length, kept)
                    .map(|item| (length - before, Some(item)))
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// What a whole head says.
    fn told<'a>(
        &'a mut self,
        draft: &Draft,
        input: &'a [u8],
        length: usize,
        kept: bool,
    ) -> Result<Item<'a>, ResponseError> {
        let status = draft.status();
        if (100..200).contains(&status) {
            if status == 101 {
                return Err(self.fail(ResponseError::Upgrade));
            }
            self.informational += 1;
            if self.informational > self.limits.informational {
                return Err(self.fail(ResponseError::TooManyInformational));
            }
            self.state = State::Head(Draft::default());
            self.tail = Vec::new();
            return Ok(Item::Informational(status));
        }
        let framing = match draft.framing(self.to_head) {
            Ok(framing) => framing,
            Err(error) => return Err(self.fail(error)),
        };
        self.state = match framing {
            Framing::Nothing => State::Ended,
            Framing::Length(length) => State::Body(BodyReader::Length(length)),
            Framing::Chunked => State::Body(BodyReader::Chunked(Decoder::new())),
            Framing::UntilClose => State::UntilClose,
        };
        let bytes = if kept {
            self.tail.as_slice()
        } else {
            &input[..length]
        };
        Ok(Item::Head(draft.head(bytes, framing)))
    }
}
