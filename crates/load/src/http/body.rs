//! Bodies: request bodies, kept in memory shared by all workers, and the checks on response bodies.

use super::error::HttpError;
use super::plan::{PlannedBody, Promise};
use corelane_proto::http::chunked::{CHUNK_END, LAST_CHUNK, size_line};
use corelane_proto::http::pattern;
use corelane_worker::engine::Output;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes kept of a generated body; longer bodies repeat them. A multiple of the pattern's period.
const BLOCK: usize = pattern::PERIOD * 17_000;

/// The body of a request.
#[derive(Debug, Clone)]
pub(super) struct Body {
    /// The content, repeated up to the length of the body.
    block: Arc<[u8]>,
    length: u64,
    chunked: bool,
}

impl Body {
    /// Reads or generates the planned body; `None` for no body.
    pub(super) fn load(planned: &PlannedBody, chunked: bool) -> Result<Option<Self>, HttpError> {
        let block: Arc<[u8]> = match planned {
            PlannedBody::Nothing => return Ok(None),
            PlannedBody::Text(text) => text.as_bytes().into(),
            PlannedBody::File { path, bytes } => read_file(path, *bytes)
                .map_err(|error| HttpError::body(path, error))?
                .into(),
            PlannedBody::Generated { bytes } => {
                let kept = usize::try_from(*bytes).map_or(BLOCK, |bytes| bytes.min(BLOCK));
                (0..kept as u64).map(pattern::byte).collect()
            }
        };
        Ok(Some(Self {
            block,
            length: planned.bytes().unwrap_or_default(),
            chunked,
        }))
    }

    /// Body bytes without transfer coding.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Queues up to `most` bytes from `offset` on; returns the number queued.
    pub(super) fn write(&self, offset: u64, most: usize, out: &mut impl Output) -> io::Result<usize> {
        let range = self.range(offset, most);
        let length = range.len();
        if self.chunked {
            out.write(size_line(length as u64).as_ref())?;
        }
        out.write_shared(&self.block, range)?;
        if self.chunked {
            out.write(CHUNK_END)?;
        }
        Ok(length)
    }

    /// Queues the terminator after the last piece.
    pub(super) fn end(&self, out: &mut impl Output) -> io::Result<()> {
        if self.chunked {
            out.write(LAST_CHUNK)
        } else {
            Ok(())
        }
    }

    /// The range in the block that holds up to `most` bytes from `offset` on.
    fn range(&self, offset: u64, most: usize) -> Range<usize> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let start = (offset % self.block.len().max(1) as u64) as usize;
        start..start + (self.block.len() - start).min(left).min(most)
    }

    /// Whether bytes at an offset match this body.
    fn matches(&self, mut offset: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let own = &self.block[self.range(offset, bytes.len())];
            if own.is_empty() || own != &bytes[..own.len()] {
                return false;
            }
            offset += own.len() as u64;
            bytes = &bytes[own.len()..];
        }
        true
    }
}

/// The content of a file of the planned length.
fn read_file(path: &Path, planned: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // No more than one byte over the planned length: devices have no end.
    let file = File::open(path)?;
    file.take(planned.saturating_add(1)).read_to_end(&mut content)?;
    match content.len() as u64 == planned {
        true => Ok(content),
        // Content-Length would be wrong.
        false => Err(io::Error::other(
            "its length has changed since the run was planned",
        )),
    }
}

impl Promise {
    /// Whether bytes at an offset of a response body are as expected.
    pub(super) fn holds(self, offset: u64, bytes: &[u8], asked: Option<&Body>) -> bool {
        match self {
            Self::Anything => true,
            Self::Pattern { bytes: length } => {
                offset + bytes.len() as u64 <= length && pattern::matches(offset, bytes)
            }
            Self::Echo => asked.is_some_and(|body| body.matches(offset, bytes)),
        }
    }

    /// Whether a response body of that length is complete. A response to HEAD has no body.
    pub(super) fn is_whole(self, length: u64, asked: Option<&Body>) -> bool {
        match self {
            Self::Anything => true,
            Self::Pattern { bytes } => length == bytes,
            Self::Echo => length == asked.map_or(0, Body::length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_body_is_the_pattern_whatever_its_length() {
        for bytes in [0, 1, 61, BLOCK as u64 - 1, BLOCK as u64, BLOCK as u64 * 2 + 7] {
            let body = Body::load(&PlannedBody::Generated { bytes }, false)
                .unwrap()
                .unwrap();
            let mut offset = 0;
            while offset < bytes {
                let part = &body.block[body.range(offset, usize::MAX)];
                assert!(pattern::matches(offset, part), "{bytes} at {offset}");
                assert!(body.matches(offset, part));
                offset += part.len() as u64;
            }
            assert_eq!((offset, body.length()), (bytes, bytes));
            assert!(!body.matches(bytes, b"0"), "nothing follows the end");
        }
    }

    #[test]
    fn an_answer_is_held_to_its_promise() {
        let promise = Promise::Pattern { bytes: 3 };
        assert!(promise.holds(0, b"012", None) && promise.is_whole(3, None));
        assert!(!promise.holds(0, b"0123", None), "too long");
        assert!(!promise.holds(0, b"013", None), "another byte");
        assert!(!promise.is_whole(2, None), "too short");
        let sent = Body::load(&PlannedBody::Text("hello".to_owned()), false).unwrap();
        assert!(Promise::Echo.holds(3, b"lo", sent.as_ref()));
        assert!(!Promise::Echo.holds(3, b"lol", sent.as_ref()));
        assert!(Promise::Echo.is_whole(5, sent.as_ref()) && !Promise::Echo.is_whole(4, sent.as_ref()));
    }
}
