//! `chunked`: the transfer coding of bodies whose length is not known in advance (RFC 9112 7.1), encoding and decoding.
//!
//! In: the bytes of a coded body, in any segments. Out: slices of the body and its end; trailers are validated and
//! discarded. The decoder buffers nothing: 24 bytes per connection. For encoding, [`size_line`], [`CHUNK_END`] and
//! [`LAST_CHUNK`] frame the data.

use super::field;
use super::tolerance::{Deviation, Deviations, Tolerance};
use thiserror::Error;

/// Follows the data of each chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The end of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Maximum bytes of extensions per chunk: they are unused in practice, and without a limit a body of one-byte chunks
/// could cause any amount of work (CVE-2023-39326).
const EXTENSION_BYTES: u16 = 256;

/// Maximum bytes of all trailers of a body.
const TRAILER_BYTES: u16 = 8_192;

/// The line before a chunk of `length` bytes, in hexadecimal; `length` must not be 0, because an empty chunk ends the
/// body.
#[must_use]
pub fn size_line(length: u64) -> impl AsRef<[u8]> {
    format!("{length:x}\r\n").into_bytes()
}

/// An element of a coded body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// The next bytes of the body, at least one.
    Data(&'a [u8]),
    /// The body is complete.
    End,
}

/// Why a chunked body is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ChunkedError {
    /// A chunk size that is not a hexadecimal number.
    #[error("a chunk's size is not a hexadecimal number")]
    Size,
    /// A chunk size over 64 bits.
    #[error("a chunk's size does not fit 64 bits")]
    SizeTooLarge,
    /// A line that ends with LF only, or a CR without LF.
    #[error("a chunk line does not end with CR LF")]
    LineEnd,
    /// The data of a chunk is longer than its size.
    #[error("a chunk's data is not followed by CR LF")]
    DataEnd,
    /// A chunk extension that does not follow the grammar of RFC 9112 7.1.1, or too many bytes of them.
    #[error(
        "a chunk extension is not ;name, ;name=token or ;name=\"text\", or has over {EXTENSION_BYTES} bytes"
    )]
    Extension,
    /// A trailer that is not a field, or trailers that are too large.
    #[error("a trailer is not a field, or trailers take over {TRAILER_BYTES} bytes")]
    Trailer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first digit of a size.
    SizeStart,
    Size,
    Extension(Extension),
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    LastLineFeed,
    Ended,
}

/// The last element of a chunk extension (RFC 9112 7.1.1); spaces and tabs may surround `;` and `=`, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extension {
    /// Space that only a `;` ends: after the size, or after a value.
    Space,
    Semicolon,
    Name,
    NameSpace,
    Equals,
    Token,
    Quoted,
    /// A backslash in a quoted string.
    Escape,
    QuoteEnd,
}

impl Extension {
    /// The element of the next byte, if the grammar permits it.
    fn next(self, byte: u8) -> Option<Self> {
        let space = matches!(byte, b' ' | b'\t');
        match (self, byte) {
            (Self::Quoted, b'"') => Some(Self::QuoteEnd),
            (Self::Quoted, b'\\') => Some(Self::Escape),
            (Self::Quoted | Self::Escape, _) => field::is_text(&[byte]).then_some(Self::Quoted),
            (Self::Semicolon | Self::Equals, _) if space => Some(self),
            (Self::Semicolon | Self::Name, _) if field::is_token_byte(byte) => Some(Self::Name),
            (Self::Equals, b'"') => Some(Self::Quoted),
            (Self::Equals | Self::Token, _) if field::is_token_byte(byte) => Some(Self::Token),
            (Self::Semicolon | Self::Equals, _) => None,
            (_, b';') => Some(Self::Semicolon),
            (Self::Name | Self::NameSpace, b'=') => Some(Self::Equals),
            (Self::Name | Self::NameSpace, _) if space => Some(Self::NameSpace),
            (Self::Space | Self::Token | Self::QuoteEnd, _) if space => Some(Self::Space),
            _ => None,
        }
    }

    /// Whether the line may end here.
    fn is_complete(self, tolerance: &mut Tolerance) -> bool {
        match self {
            Self::Name | Self::Token | Self::QuoteEnd => true,
            Self::Space | Self::NameSpace => tolerance.takes(Deviation::ChunkBlank),
            _ => false,
        }
    }
}

/// Decoder of the chunked coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoder {
    /// While reading a size, the size so far; then, the remaining data bytes.
    left: u64,
    /// Bytes of the extension or of all trailers so far.
    extra: u16,
    state: State,
    tolerance: Tolerance,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder before the first chunk.
    #[must_use]
    pub const fn new() -> Self {
        Self::with(Tolerance::STRICT)
    }

    pub(super) const fn with(tolerance: Tolerance) -> Self {
        Self {
            left: 0,
            extra: 0,
            state: State::SizeStart,
            tolerance,
        }
    }

    /// Decodes bytes: returns the number used, and the resulting item. With `None`, all were used and more are needed;
    /// after [`Item::End`] no more are used.
    ///
    /// # Errors
    /// If the body is invalid; do not feed the decoder after that.
    pub fn feed<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Option<Item<'a>>), ChunkedError> {
        let mut used = 0;
        while let Some(byte) = input.get(used).copied() {
            match self.state {
                State::Data => {
                    let data = &input[used..];
                    let length = usize::try_from(self.left).map_or(data.len(), |left| left.min(data.len()));
                    self.left -= length as u64;
                    if self.left == 0 {
                        self.state = State::DataReturn;
                    }
                    return Ok((used + length, Some(Item::Data(&data[..length]))));
                }
                State::Ended => return Ok((used, Some(Item::End))),
                _ => self.state = self.step(byte)?,
            }
            used += 1;
        }
        let item = (self.state == State::Ended).then_some(Item::End);
        Ok((used, item))
    }

    /// Processes one byte outside the data.
    fn step(&mut self, byte: u8) -> Result<State, ChunkedError> {
        if byte == b'\n' && !self.has_return() && self.tolerance.tolerant {
            self.tolerance.takes(Deviation::BareLineFeed);
            self.state = self.step(b'\r')?;
        }
        match (self.state, byte) {
            (State::SizeStart, _) => {
                self.left = u64::from(digit(byte).ok_or(ChunkedError::Size)?);
                Ok(State::Size)
            }
            (State::Size, _) => self.size(byte),
            (State::Extension(extension), b'\r') if extension.is_complete(&mut self.tolerance) => {
                Ok(State::SizeLineFeed)
            }
            (State::Extension(extension), _) => self.extension(extension, byte),
            (State::SizeLineFeed, b'\n') if self.left == 0 => {
                self.extra = 0;
                Ok(State::TrailerStart)
            }
            (State::SizeLineFeed, b'\n') => Ok(State::Data),
            (State::DataReturn, b'\r') => Ok(State::DataLineFeed),
            (State::DataLineFeed, b'\n') => Ok(State::SizeStart),
            (State::DataReturn | State::DataLineFeed, _) => Err(ChunkedError::DataEnd),
            (State::TrailerStart, b'\r') => Ok(State::LastLineFeed),
            (State::TrailerStart | State::TrailerName | State::TrailerValue, _) => self.trailer(byte),
            (State::TrailerLineFeed, b'\n') => Ok(State::TrailerStart),
            (State::LastLineFeed, b'\n') => Ok(State::Ended),
            (State::SizeLineFeed | State::TrailerLineFeed | State::LastLineFeed, _) => {
                Err(ChunkedError::LineEnd)
            }
            (State::Data | State::Ended, _) => Ok(self.state),
        }
    }

    /// Whether the CR of a line end has been read, and the LF is due.
    fn has_return(&self) -> bool {
        use State::{DataLineFeed, LastLineFeed, SizeLineFeed, TrailerLineFeed};
        matches!(
            self.state,
            SizeLineFeed | DataLineFeed | TrailerLineFeed | LastLineFeed
        )
    }

    fn size(&mut self, byte: u8) -> Result<State, ChunkedError> {
        if let Some(digit) = digit(byte) {
            if self.left >> 60 != 0 {
                return Err(ChunkedError::SizeTooLarge);
            }
            self.left = self.left << 4 | u64::from(digit);
            return Ok(State::Size);
        }
        match byte {
            b'\r' => Ok(State::SizeLineFeed),
            b'\n' => Err(ChunkedError::LineEnd),
            b';' | b' ' | b'\t' => {
                self.extra = 0;
                self.extension(Extension::Space, byte)
            }
            _ => Err(ChunkedError::Size),
        }
    }

    fn extension(&mut self, extension: Extension, byte: u8) -> Result<State, ChunkedError> {
        self.extra += 1;
        if byte == b'\n' {
            return Err(ChunkedError::LineEnd);
        }
        let next = extension.next(byte).filter(|_| self.extra <= EXTENSION_BYTES);
        next.map(State::Extension).ok_or(ChunkedError::Extension)
    }

    fn trailer(&mut self, byte: u8) -> Result<State, ChunkedError> {
        self.extra += 1;
        if self.extra > TRAILER_BYTES {
            return Err(ChunkedError::Trailer);
        }
        match (self.state, byte) {
            (_, b'\n') => Err(ChunkedError::LineEnd),
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerStart | State::TrailerName, byte) if field::is_token_byte(byte) => {
                Ok(State::TrailerName)
            }
            (State::TrailerValue, b'\r') => Ok(State::TrailerLineFeed),
            (State::TrailerValue, byte) if field::is_text(&[byte]) => Ok(State::TrailerValue),
            _ => Err(ChunkedError::Trailer),
        }
    }
}

/// Reads the body of one request or response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyReader {
    /// Remaining bytes.
    Length(u64),
    /// Chunked coding.
    Chunked(Decoder),
}

impl BodyReader {
    /// The deviations met in the framing of a chunked body.
    pub(super) fn met(&self) -> Deviations {
        match self {
            Self::Chunked(decoder) => decoder.tolerance.met,
            Self::Length(_) => Deviations::default(),
        }
    }

    /// Reads bytes: returns the number used, and the resulting item, like [`Decoder::feed`].
    ///
    /// # Errors
    /// If a chunked body is invalid.
    pub fn feed<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Option<Item<'a>>), ChunkedError> {
        match self {
            Self::Chunked(decoder) => decoder.feed(input),
            Self::Length(0) => Ok((0, Some(Item::End))),
            Self::Length(_) if input.is_empty() => Ok((0, None)),
            Self::Length(left) => {
                let taken = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= taken as u64;
                Ok((taken, Some(Item::Data(&input[..taken]))))
            }
        }
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The body in `input`, fed in pieces that end at `cuts`, and the bytes left over.
    fn decode(input: &[u8], cuts: &[usize]) -> Result<(Vec<u8>, usize, bool), ChunkedError> {
        let (mut decoder, mut body, mut used, mut ended) = (Decoder::new(), Vec::new(), 0, false);
        for end in cuts.iter().copied().chain([input.len()]) {
            while !ended {
                let (taken, item) = decoder.feed(&input[used..end])?;
                used += taken;
                match item {
                    Some(Item::Data(data)) => body.extend_from_slice(data),
                    Some(Item::End) => ended = true,
                    None => break,
                }
            }
        }
        Ok((body, input.len() - used, ended))
    }

    #[test]
    fn extensions_and_trailers_are_passed_over() {
        let coded = b"5;name=\"value\"\r\nhello\r\n00000001 ;x\r\n!\r\n0\r\nChecked: yes\r\n\r\nnext";
        assert_eq!(decode(coded, &[]), Ok((b"hello!".to_vec(), 4, true)));
        for line in [
            " ; a",
            "\t;a;b",
            ";a = b",
            ";a=b ;c=\"\"",
            ";a=\"q\\\"\u{e4};,[\" ; b",
        ] {
            let coded = format!("1{line}\r\n!\r\n0{line}\r\n\r\n");
            assert_eq!(
                decode(coded.as_bytes(), &[]),
                Ok((b"!".to_vec(), 0, true)),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_no_extension_is_refused() {
        for line in [
            " 5",
            "\tx",
            " ",
            ";",
            "; ",
            ";;",
            ";a;",
            ";bad[=x",
            ";a b",
            ";a=",
            ";a= ",
            ";a=b c",
            ";a==b",
            ";=b",
            ";a=b ",
            ";a=\"",
            ";a=\"b",
            ";a=\"b\\\"",
            ";a=\"b\"c",
            ";a=\"b\x01\"",
            ";a=b\"c\"",
            ";a=\"\\\x01\"",
            " =a",
            ";a,b",
        ] {
            for size in ["1", "0"] {
                let coded = format!("{size}{line}\r\n!\r\n0\r\n\r\n");
                assert_eq!(
                    decode(coded.as_bytes(), &[]),
                    Err(ChunkedError::Extension),
                    "{line:?}"
                );
            }
        }
    }

    #[test]
    fn what_two_readers_could_frame_differently_is_refused() {
        let cases: [(&[u8], ChunkedError); 15] = [
            (b"\r\n", ChunkedError::Size),
            (b"g\r\n", ChunkedError::Size),
            (b"0x5\r\nhello\r\n", ChunkedError::Size),
            (b"-1\r\n", ChunkedError::Size),
            (b" 5\r\nhello\r\n", ChunkedError::Size),
            (b"5\nhello\r\n", ChunkedError::LineEnd),
            (b"5\rhello\r\n", ChunkedError::LineEnd),
            (b"5;a\nhello", ChunkedError::LineEnd),
            (b"5;a\x00\r\nhello", ChunkedError::Extension),
            (b"5\r\nhello\n0\r\n\r\n", ChunkedError::DataEnd),
            (b"5\r\nhello!\r\n", ChunkedError::DataEnd),
            (b"10000000000000000\r\n", ChunkedError::SizeTooLarge),
            (b"0\r\n\n", ChunkedError::LineEnd),
            (b"0\r\nspaced : 1\r\n\r\n", ChunkedError::Trailer),
            (b"0\r\nTrailer: 1\n\r\n", ChunkedError::LineEnd),
        ];
        for (coded, error) in cases {
            assert_eq!(
                decode(coded, &[]),
                Err(error),
                "{:?}",
                String::from_utf8_lossy(coded)
            );
        }
    }

    #[test]
    fn endless_extensions_and_trailers_are_cut_off() {
        let extension = [b"5;".as_slice(), &[b'a'; 300], b"\r\nhello\r\n0\r\n\r\n"].concat();
        assert_eq!(decode(&extension, &[]), Err(ChunkedError::Extension));
        let trailers = [b"0\r\n".as_slice(), &b"A: b\r\n".repeat(3_000), b"\r\n"].concat();
        assert_eq!(decode(&trailers, &[]), Err(ChunkedError::Trailer));
    }

    proptest! {
        #[test]
        fn every_split_of_a_coded_body_gives_the_body(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            first in 0usize..400, second in 0usize..400,
        ) {
            let mut coded = Vec::new();
            for chunk in &chunks {
                coded.extend_from_slice(size_line(chunk.len() as u64).as_ref());
                coded.extend_from_slice(chunk);
                coded.extend_from_slice(CHUNK_END);
            }
            coded.extend_from_slice(LAST_CHUNK);
            let (first, second) = (first.min(coded.len()), second.min(coded.len()));
            let cuts = [first.min(second), first.max(second)];
            prop_assert_eq!(decode(&coded, &cuts), Ok((chunks.concat(), 0, true)));
        }

        #[test]
        fn any_split_of_any_bytes_gives_the_same(bytes in "[0-3a;\r\n: x]{0,40}", cut in 0usize..40) {
            let cut = cut.min(bytes.len());
            prop_assert_eq!(decode(bytes.as_bytes(), &[cut]), decode(bytes.as_bytes(), &[]));
        }

        #[test]
        fn sizes_are_read_as_httparse_reads_them(line in "[0-9a-fA-F]{1,15}(;[a-z]{1,5})?\r\n") {
            let mut decoder = Decoder::new();
            let ours = decoder.feed(line.as_bytes()).map(|_| decoder.left);
            let theirs = httparse::parse_chunk_size(line.as_bytes());
            prop_assert_eq!(ours, theirs.map(|status| status.unwrap().1).map_err(|_| ChunkedError::Size));
        }
    }
}
