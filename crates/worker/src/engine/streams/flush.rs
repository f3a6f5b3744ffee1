//! Sending what a connection has queued, as far as the kernel takes it. Both engines over the kernel send so.

use super::queue::Front;
use crate::engine::cause::Cause;
use crate::engine::ops::{Backend, Ops};
use crate::system::stream;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;

/// Pieces that one call sends.
const PIECES: usize = 16;

/// How far a flush came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlushedStream {
    /// The queue is empty.
    All,
    /// The connection takes no more for now.
    Blocked,
    /// It never will, for that cause; the queue was dropped.
    Broken(Cause),
}

/// Sends a connection's queue until it is empty or the connection takes no more. What is left of copies moves to memory of
/// the connection's own.
pub(crate) fn flush(ops: &mut Ops, slot: u32) -> FlushedStream {
    flush_with(ops, slot, send_some)
}

/// As [`flush`], with what sends the first pieces of a queue and returns the bytes sent.
pub(crate) fn flush_with(
    ops: &mut Ops,
    slot: u32,
    send_some: impl Fn(&Ops, u32) -> io::Result<usize>,
) -> FlushedStream {
    loop {
        ops.counters.calls.send += 1;
        match send_some(ops, slot) {
            Ok(0) if ops.streams.at(slot).queue.is_empty() => {
                ops.counters.calls.send -= 1;
                return FlushedStream::All;
            }
            // A file that is shorter than was promised: what is left of the promise cannot be kept.
            Ok(0) => return broken(ops, slot, Cause::Truncated),
            Ok(sent) => {
                if taken(ops, slot, sent as u64) {
                    return FlushedStream::All;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return refused(ops, slot, &error),
        }
    }
}

/// The kernel took so many bytes of a queue; says whether that was all.
pub(crate) fn taken(ops: &mut Ops, slot: u32, bytes: u64) -> bool {
    ops.counters.streams.bytes_sent += bytes;
    let stream = ops.streams.at_mut(slot);
    ops.outgoing.advance(&mut stream.queue, bytes);
    stream.queue.is_empty()
}

/// The kernel took no more of a queue.
pub(crate) fn refused(ops: &mut Ops, slot: u32, error: &io::Error) -> FlushedStream {
    if error.kind() != io::ErrorKind::WouldBlock {
        return broken(ops, slot, Cause::from_error(error));
    }
    ops.outgoing.keep(&ops.streams.at(slot).queue);
    FlushedStream::Blocked
}

fn broken(ops: &mut Ops, slot: u32, cause: Cause) -> FlushedStream {
    ops.outgoing.clear(&mut ops.streams.at_mut(slot).queue);
    FlushedStream::Broken(cause)
}

/// Sends the first pieces of a queue in one call; returns the bytes sent.
fn send_some(ops: &Ops, slot: u32) -> io::Result<usize> {
    let stream = ops.streams.at(slot);
    let Some(connection) = stream.descriptor() else {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    };
    // The usual case by far: one request or answer.
    if let Some(bytes) = ops.outgoing.whole(&stream.queue) {
        return stream::send(connection, &[IoSlice::new(bytes.bytes())], false);
    }
    let mut slices = [IoSlice::new(&[]); PIECES];
    match ops.outgoing.front(&stream.queue, &mut slices) {
        Front::Nothing => Ok(0),
        Front::Memory(count, more) => stream::send(connection, &slices[..count], more),
        Front::File { file, offset, left } if ops.backend == Backend::Completion => {
            // sendfile(2) has no flag for non-blocking operation: the socket itself must be non-blocking.
            stream::set_blocking(connection, false)?;
            let sent = stream::send_file(connection, file.as_fd(), offset, left);
            stream::set_blocking(connection, true)?;
            sent
        }
        Front::File { file, offset, left } => stream::send_file(connection, file.as_fd(), offset, left),
    }
}
