//! `response`: parses the responses of one HTTP/1.1 connection as they arrive.
//!
//! In: bytes in any segments, and whether the request was a HEAD. Out: [`Item`]s, in order: informational responses,
//! the head, slices of the body, the end; then the next response. A head that arrives complete is parsed in place; one
//! that arrives in pieces is buffered, up to the limit. Nothing is buffered between responses.
//!
//! Framing follows RFC 9112 6.3 strictly: conflicting lengths, a length together with a transfer coding, bare line
//! feeds, folded lines and whitespace before colons are rejected with named errors, because another reader could frame
//! them differently. A parser that tolerates them takes what other clients take, and names it: see [`Deviation`].

mod error;
mod head;

pub use super::head::{Fields, Version};
pub use super::tolerance::{Deviation, Deviations};
pub use error::ResponseError;
pub use head::Head;

use super::chunked::{self, BodyReader, Decoder};
use head::{Draft, Read};

/// Limits of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a head, including status line and empty line; 64 KiB by default.
    pub head_bytes: u32,
    /// Maximum number of field lines; 256 by default.
    pub fields: u16,
    /// Maximum number of informational responses before the final one; 16 by default.
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

/// Framing of a body (RFC 9112 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// No body.
    Nothing,
    /// Length in bytes, at least 1.
    Length(u64),
    /// Chunked coding.
    Chunked,
    /// Ends when the connection closes.
    UntilClose,
}

/// The next element of the server's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'a> {
    /// An informational response, such as 100 Continue: its status.
    Informational(u16),
    /// The head of a final response.
    Head(Head<'a>),
    /// The next bytes of the body, at least one.
    Body(&'a [u8]),
    /// The response is complete.
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

/// Parser of the responses of one connection.
#[derive(Debug, Clone)]
pub struct Parser {
    state: State,
    /// An incomplete head received so far, or the head returned last.
    tail: Vec<u8>,
    limits: Limits,
    informational: u16,
    to_head: bool,
    tolerant: bool,
    /// Deviations of the response whose item was returned last.
    met: Deviations,
}

/// The last head that arrived complete, with its parse result. Servers often repeat a head: if the same bytes arrive
/// again, parsing is skipped. Parsers with equal limits and tolerance may share it.
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
    /// A parser before the first response.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            state: State::Head(Draft::default()),
            tail: Vec::new(),
            limits,
            informational: 0,
            to_head: false,
            tolerant: false,
            met: Deviations::default(),
        }
    }

    /// Sets whether the responses that follow may have [`Deviation`]s; call it between two. Strict by default.
    pub fn tolerate(&mut self, tolerant: bool) {
        self.tolerant = tolerant;
        if self.is_between_answers() {
            self.state = State::Head(Draft::new(tolerant));
        }
    }

    /// The deviations of the response that the last [`Item`] is from, as far as it was read; none if it is strict.
    #[must_use]
    pub fn deviations(&self) -> Deviations {
        self.met
    }

    /// Before the next response.
    fn restart(&mut self) {
        self.state = State::Head(Draft::new(self.tolerant));
        (self.tail, self.informational, self.to_head) = (Vec::new(), 0, false);
    }

    /// Sets whether the next response answers a HEAD request, and so has no body. Applies to that response only.
    pub fn expect_no_body(&mut self, to_head: bool) {
        self.to_head = to_head;
    }

    /// Whether no byte of the next response has arrived: the connection may close here without truncating a response.
    #[must_use]
    pub fn is_between_answers(&self) -> bool {
        matches!(&self.state, State::Head(draft) if draft.is_empty())
            && self.tail.is_empty()
            && self.informational == 0
    }

    /// Parses bytes: returns the number used, and the resulting item. With `None`, all were used and more are needed.
    /// An end may use no bytes: call until `None`, with empty input too.
    ///
    /// # Errors
    /// If the response is invalid, see [`ResponseError`]; later calls return the same error.
    pub fn feed<'a>(&'a mut self, input: &'a [u8]) -> Result<(usize, Option<Item<'a>>), ResponseError> {
        match &mut self.state {
            State::Head(_) => self.feed_head(input, None),
            State::Ended => {
                self.restart();
                Ok((0, Some(Item::End)))
            }
            State::Failed(error) => Err(*error),
            State::UntilClose if input.is_empty() => Ok((0, None)),
            State::UntilClose => Ok((input.len(), Some(Item::Body(input)))),
            State::Body(reader) => match reader.feed(input) {
                Ok((used, Some(chunked::Item::Data(data)))) => {
                    // A body with a length is complete with its last byte.
                    if *reader == BodyReader::Length(0) {
                        self.state = State::Ended;
                    }
                    Ok((used, Some(Item::Body(data))))
                }
                Ok((used, None)) => Ok((used, None)),
                Ok((used, Some(chunked::Item::End))) => {
                    self.met.add(reader.met());
                    self.state = State::Ended;
                    self.feed(&[]).map(|(_, item)| (used, item))
                }
                Err(error) => Err(self.fail(error.into())),
            },
        }
    }

    /// Like [`feed`](Self::feed), and caches the last head.
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
                .item(&last.draft, input, length, false)
                .map(|item| (length, Some(item)));
        }
        self.feed_head(input, Some(last))
    }

    /// The connection has closed: returns whether that completes a response.
    ///
    /// # Errors
    /// If it truncates a response.
    pub fn finish(&mut self) -> Result<Option<Item<'static>>, ResponseError> {
        match &self.state {
            State::Failed(error) => Err(*error),
            State::UntilClose | State::Ended => {
                self.restart();
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
        // A head without buffered bytes is parsed in place.
        let kept = before > 0;
        if kept {
            let room = limit.saturating_sub(before).max(1);
            self.tail.extend_from_slice(&input[..room.min(input.len())]);
        }
        let bytes = if kept { self.tail.as_slice() } else { input };
        let mut read = draft.read(bytes, before, self.limits);
        if !kept && matches!(read, Ok(Read::Fold(_))) {
            self.tail.extend_from_slice(&input[..limit.min(input.len())]);
        }
        let kept = !self.tail.is_empty();
        while let Ok(Read::Fold(end)) = read {
            draft.unfold(&mut self.tail, end);
            read = draft.read(&self.tail, end + 1, self.limits);
        }
        match read {
            Ok(Read::Part | Read::Fold(_)) if kept => Ok((self.tail.len() - before, None)),
            Ok(Read::Part | Read::Fold(_)) => {
                self.tail.extend_from_slice(input);
                Ok((input.len(), None))
            }
            Ok(Read::Whole) => {
                let length = draft.length();
                self.tail.truncate(length);
                let draft = *draft;
                if let Some(last) = last.filter(|_| !kept) {
                    last.bytes.clear();
                    last.bytes.extend_from_slice(&input[..length]);
                    last.draft = draft;
                }
                self.item(&draft, input, length, kept)
                    .map(|item| (length - before, Some(item)))
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Returns the item of a complete head.
    fn item<'a>(
        &'a mut self,
        draft: &Draft,
        input: &'a [u8],
        length: usize,
        kept: bool,
    ) -> Result<Item<'a>, ResponseError> {
        let (status, tolerance) = (draft.status(), draft.tolerance());
        if self.informational == 0 {
            self.met = Deviations::default();
        }
        self.met.add(tolerance.met);
        if (100..200).contains(&status) {
            if status == 101 {
                return Err(self.fail(ResponseError::Upgrade));
            }
            self.informational += 1;
            if self.informational > self.limits.informational {
                return Err(self.fail(ResponseError::TooManyInformational));
            }
            self.state = State::Head(Draft::new(self.tolerant));
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
            Framing::Chunked => State::Body(BodyReader::Chunked(Decoder::with(tolerance))),
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
