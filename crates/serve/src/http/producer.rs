//! Bodies generated while they are sent: queues the next pieces of a body, at most one window at a time.

use super::files::Found;
use super::output::Output;
use corelane_proto::http::chunked::{CHUNK_END, LAST_CHUNK, size_line};
use corelane_proto::http::pattern;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes of a file that are queued at a time: the kernel reads them from the disk while other connections wait.
pub(super) const PIECE: u64 = 256 << 10;

/// The last bytes of a file, which are copied and then checked: what the kernel sends from the file itself changes with
/// it, even what is already in the send buffer, and what a truncation removes becomes zeros.
const CHECKED: u64 = 128 << 10;

/// The remaining part of a response's body.
#[derive(Debug)]
pub(super) enum Producer {
    /// The pattern from `offset` to `end`.
    Pattern { offset: u64, end: u64 },
    /// Chunks of the pattern.
    Chunks(Chunks),
    /// A part of a file.
    File(FilePart),
}

/// The part of a file that is not queued yet.
#[derive(Debug)]
pub(super) struct FilePart {
    pub(super) found: Arc<Found>,
    pub(super) offset: u64,
    pub(super) left: u64,
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
    /// Queues the next pieces; returns whether the body is complete. `scratch` is memory of arbitrary contents.
    ///
    /// # Errors
    /// If a file can no longer be read, or has changed.
    pub(super) fn produce(&mut self, out: &mut Output<'_>, scratch: &mut Vec<u8>) -> io::Result<bool> {
        let window = match self {
            Self::File(_) => out.window().min(PIECE),
            _ => out.window(),
        };
        let mut room = window.saturating_sub(out.queued());
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
                Self::File(part) => part.produce(out, room, scratch)?,
            };
            if complete {
                return Ok(true);
            }
            room = room.saturating_sub(out.queued().saturating_sub(before).max(1));
        }
        Ok(false)
    }
}

impl FilePart {
    /// Queues up to `most` bytes; returns whether they were the last.
    fn produce(&mut self, out: &mut Output<'_>, most: u64, scratch: &mut Vec<u8>) -> io::Result<bool> {
        let file = &self.found.file;
        let queued = if self.left <= CHECKED {
            let copied = self.left.min(most);
            scratch.resize(copied as usize, 0);
            file.read_exact_at(scratch, self.offset)?;
            self.found.check()?;
            out.write(scratch);
            copied
        } else {
            self.found.check()?;
            out.write_file(file, self.offset, most.min(self.left - CHECKED))?
        };
        self.offset += queued;
        self.left -= queued;
        Ok(self.left == 0)
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
