//! Sends a connection's queue as far as the kernel accepts it. Both engines over the kernel use it.

use super::queue::Front;
use crate::engine::cause::Cause;
use crate::engine::ops::{Backend, Ops};
use crate::system::stream;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;

/// Pieces sent per call.
const PIECES: usize = 16;

/// The result of a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FlushedStream {
    /// The queue is empty.
    All,
    /// The connection accepts no more for now.
    Blocked,
    /// The connection failed with this cause; the queue was dropped.
    Broken(Cause),
}

/// Sends a connection's queue until it is empty or the connection accepts no more. The rest of the copies then moves to
/// memory owned by the connection.
pub(crate) fn flush(ops: &mut Ops, slot: u32) -> FlushedStream {
    flush_with(ops, slot, send_some)
}

/// Like [`flush`], with a function that sends the first pieces of a queue and returns the bytes sent.
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
            // The file is shorter than the queued length: the rest cannot be sent.
            Ok(0) => return broken(ops, slot, Cause::Truncated),
            Ok(sent) => {
                ops.counters.streams.bytes_sent += sent as u64;
                if taken(ops, slot, sent as u64) {
                    return FlushedStream::All;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return refused(ops, slot, &error),
        }
    }
}

/// Removes the bytes that the kernel accepted from a queue; returns whether it is now empty.
pub(crate) fn taken(ops: &mut Ops, slot: u32, bytes: u64) -> bool {
    let stream = ops.streams.at_mut(slot);
    ops.outgoing.advance(&mut stream.queue, bytes);
    stream.queue.is_empty()
}

/// Handles a failed send: a full send buffer blocks the queue, any other error drops it.
pub(crate) fn refused(ops: &mut Ops, slot: u32, error: &io::Error) -> FlushedStream {
    if error.kind() != io::ErrorKind::WouldBlock {
        return broken(ops, slot, Cause::from_error(error));
    }
    ops.outgoing.keep(&ops.streams.at(slot).queue);
    FlushedStream::Blocked
}

fn broken(ops: &mut Ops, slot: u32, cause: Cause) -> FlushedStream {
    ops.outgoing.abandon(&mut ops.streams.at_mut(slot).queue);
    FlushedStream::Broken(cause)
}

/// Sends the first pieces of a queue in one call; returns the bytes sent.
fn send_some(ops: &Ops, slot: u32) -> io::Result<usize> {
    let stream = ops.streams.at(slot);
    let Some(connection) = stream.descriptor() else {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    };
    // The most common case: one request or response.
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
