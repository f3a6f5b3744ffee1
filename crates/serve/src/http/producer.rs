//! Bodies generated while they are sent: queues the next pieces of a body, at most one window at a time.

use super::output::Output;
use corelane_proto::http::chunked::{CHUNK_END, LAST_CHUNK, size_line};
use corelane_proto::http::pattern;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// The remaining part of a response's body.
#[derive(Debug)]
pub(super) enum Producer {
    /// The pattern from `offset` to `end`.
    Pattern { offset: u64, end: u64 },
    /// Chunks of the pattern.
    Chunks(Chunks),
    /// A part of a file.
    File { file: Arc<File>, offset: u64, left: u64 },
}

/// Chunks; the pattern continues from one to the next.
#[derive(Debug)]
pub(super) struct Chunks {
    /// Bytes per chunk, and the number of chunks not begun.
    pub(super) size: u64,
    pub(super) left: u32,
    /// Offset in the body, and the end of the current chunk.
    pub(super) offset: u64,
    pub(super) end: u64,
}

impl Producer {
    /// Queues the next pieces; returns whether the body is complete.
    ///
    /// # Errors
    /// If a file can no longer be read.
    pub(super) fn produce(&mut self, out: &mut Output<'_>) -> io::Result<bool> {
        let mut room = out.window().saturating_sub(out.queued());
        while room > 0 {
            let before = out.queued();
            let complete = match self {
                Self::Pattern { offset, end } => {
                    let piece = pattern::piece(*offset, *end - *offset);
                    out.write_static(piece);
                    *offset += piece.len() as u64;
                    offset == end
                }
                Self::Chunks(chunks) => chunks.produce(out),
                Self::File { file, offset, left } => {
                    let queued = out.write_file(file, *offset, *left)?;
                    *offset += queued;
                    *left -= queued;
                    *left == 0
                }
            };
            if complete {
                return Ok(true);
            }
            room = room.saturating_sub(out.queued().saturating_sub(before).max(1));
        }
        Ok(false)
    }
}

impl Chunks {
    /// Queues a piece; returns whether it was the last.
    fn produce(&mut self, out: &mut Output<'_>) -> bool {
        if self.offset == self.end {
            // An empty chunk ends the body.
            if self.left == 0 || self.size == 0 {
                out.write(LAST_CHUNK);
                return true;
            }
            self.left -= 1;
            self.end += self.size;
            out.write(size_line(self.size).as_ref());
        }
        let piece = pattern::piece(self.offset, self.end - self.offset);
        // A small chunk is copied, so that it forms one piece with its framing.
        if piece.len() < 1_024 {
            out.write(piece);
        } else {
            out.write_static(piece);
        }
        self.offset += piece.len() as u64;
        if self.offset == self.end {
            out.write(CHUNK_END);
        }
        false
    }
}
