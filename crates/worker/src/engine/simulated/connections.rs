//! Connections of the simulated engine: what is queued goes to the network, what the network has for them is told.

use super::network::Seat;
use super::state::StreamEvent;
use crate::engine::cause::Cause;
use crate::engine::ops::Ops;
use crate::engine::streams::{FlushedStream, Front, Handle, Phase, flush_with};
use crate::engine::{Event, Handler, TURN_DATAGRAMS};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

/// Bytes of a file read at once.
const FILE_PIECE: usize = 65_536;

/// Carries out what changed and sends what is queued.
pub(super) fn perform(ops: &mut Ops, seat: &Seat) {
    while let Some(slot) = ops.streams.changes.pop() {
        apply_change(ops, seat, slot);
    }
    for slot in std::mem::take(&mut ops.streams.waiting) {
        ops.streams.at_mut(slot).waiting = false;
        flush_one(ops, seat, slot);
    }
    // What was sent may have been all that an end waited for.
    while let Some(slot) = ops.streams.changes.pop() {
        apply_change(ops, seat, slot);
    }
    let now = seat.now();
    while let Some(id) = ops.streams.deadlines.expired(now) {
        let slot = id.slot() as u32;
        if ops.streams.is_current(id) && ops.streams.at(slot).phase == Phase::Connecting {
            release(ops, seat, slot);
            ops.stream_failed(slot, Cause::TimedOut);
        }
    }
}

/// The number of what stands behind a slot in the network.
fn end_of(ops: &Ops, slot: u32) -> Option<usize> {
    match &ops.streams.at(slot).handle {
        Handle::Simulated(end) => Some(end.end),
        Handle::SimulatedListener(listener) => Some(listener.end()),
        _ => None,
    }
}

fn apply_change(ops: &mut Ops, seat: &Seat, slot: u32) {
    let id = ops.streams.id(slot);
    let stream = ops.streams.at_mut(slot);
    stream.changed = false;
    if !ops.streams.is_current(id) {
        return;
    }
    let stream = ops.streams.at(slot);
    if stream.closing && (stream.queue.is_empty() || stream.broken.is_some()) {
        let cause = stream.broken.unwrap_or(Cause::Asked);
        return finish(ops, seat, slot, cause);
    }
    if stream.phase == Phase::Connecting && end_of(ops, slot).is_none() {
        return connect(ops, seat, slot);
    }
    let wanted = stream.receiving && !stream.closing;
    if let Some(end) = end_of(ops, slot) {
        seat.watch_end(end, id, wanted);
        if ops.settle(slot) {
            seat.end_stream(end);
        }
    }
}

fn connect(ops: &mut Ops, seat: &Seat, slot: u32) {
    let id = ops.streams.id(slot);
    let Some(request) = ops.streams.at(slot).request.as_ref() else {
        return;
    };
    let (to, local, timeout) = (request.to, request.binding.local, request.timeout);
    match seat.connect(to, local) {
        Ok(end) => {
            seat.watch_end(end.end, id, true);
            ops.streams.at_mut(slot).handle = Handle::Simulated(Box::new(end));
            if let Some(timeout) = timeout {
                ops.limit_connect(slot, seat.now() + timeout);
            }
        }
        Err(errno) => ops.stream_failed(slot, Cause::from_errno(errno)),
    }
}

fn flush_one(ops: &mut Ops, seat: &Seat, slot: u32) {
    let stream = ops.streams.at(slot);
    if stream.phase != Phase::Open {
        let (stream, outgoing) = ops.streams.parts(slot);
        outgoing.keep(&stream.queue);
        return;
    }
    let Some(end) = end_of(ops, slot) else { return };
    let flushed = flush_with(ops, slot, |ops, slot| send_some(ops, seat, end, slot));
    match flushed {
        FlushedStream::All => {
            let stream = ops.streams.at(slot);
            if stream.closing || stream.ending || stream.tell_drained {
                ops.streams.note_change(slot);
            }
        }
        // The network tells when there is room.
        FlushedStream::Blocked => {}
        FlushedStream::Broken(cause) => {
            let stream = ops.streams.at_mut(slot);
            stream.broken = Some(cause);
            // What was received before a reset is lent still, if the owner receives: the reset is told behind it.
            if !(stream.receiving && !stream.closing && cause == Cause::Reset) {
                finish(ops, seat, slot, cause);
            }
        }
    }
}

/// Sends the first piece of a queue; returns the bytes sent.
fn send_some(ops: &Ops, seat: &Seat, end: usize, slot: u32) -> io::Result<usize> {
    let mut slices = [IoSlice::new(&[])];
    match ops
        .streams
        .outgoing
        .front(&ops.streams.at(slot).queue, &mut slices)
    {
        Front::Nothing => Ok(0),
        Front::Memory(..) => seat.send_stream(end, &slices[0]),
        Front::File { file, offset, left } => {
            let mut piece = vec![0; FILE_PIECE.min(usize::try_from(left).unwrap_or(FILE_PIECE))];
            match file.read_at(&mut piece, offset)? {
                0 => Ok(0),
                read => seat.send_stream(end, &piece[..read]),
            }
        }
    }
}

/// Tells what the network has for this engine's streams.
pub(super) fn serve(ops: &mut Ops, seat: &Seat, most_bytes: usize, on: &mut impl Handler) {
    let mut visits = 0;
    while visits < TURN_DATAGRAMS
        && let Some((id, news)) = seat.next_stream_event(most_bytes)
    {
        visits += 1;
        if ops.streams.is_current(id) {
            let slot = id.slot() as u32;
            tell(ops, seat, slot, news, on);
            if let Some(end) = end_of(ops, slot)
                && ops.streams.is_current(id)
                && !ops.streams.at(slot).receiving
            {
                // At once: the next news of this turn may be more bytes.
                seat.watch_end(end, id, false);
            }
        } else if let StreamEvent::Accepted(end, _) = news {
            seat.close_stream(end, true);
        }
    }
}

fn tell(ops: &mut Ops, seat: &Seat, slot: u32, news: StreamEvent, on: &mut impl Handler) {
    let (id, now) = (ops.streams.id(slot), seat.now());
    let open = ops.streams.is_open(id);
    match news {
        StreamEvent::Opened => ops.connected(slot, now, on),
        StreamEvent::Refused => {
            release(ops, seat, slot);
            ops.stream_failed(slot, Cause::Refused);
        }
        StreamEvent::Accepted(end, peer) => {
            let handle = Handle::Simulated(Box::new(seat.end(end)));
            let accepted = ops.streams.insert(handle, Phase::Open, true);
            seat.watch_end(end, accepted, true);
            ops.accepted(id, accepted, peer, now, on);
        }
        StreamEvent::Bytes(bytes) if open => {
            ops.counters.streams.bytes_received += bytes.len() as u64;
            on.event(ops, now, id, Event::Bytes(&bytes));
        }
        StreamEvent::Ended => match ops.streams.at(slot).broken {
            Some(cause) => finish(ops, seat, slot, cause),
            None if open => on.event(ops, now, id, Event::PeerClosed),
            None => {}
        },
        StreamEvent::Reset => finish(ops, seat, slot, Cause::Reset),
        StreamEvent::Room => ops.streams.note_waiting(slot),
        StreamEvent::Bytes(_) => {}
    }
}

fn finish(ops: &mut Ops, seat: &Seat, slot: u32, cause: Cause) {
    release(ops, seat, slot);
    ops.stream_closed(slot, cause);
}

/// Gives an end back to the network.
fn release(ops: &mut Ops, seat: &Seat, slot: u32) {
    if let Some(end) = end_of(ops, slot) {
        let reset = ops.streams.at(slot).broken == Some(Cause::Asked);
        seat.close_stream(end, reset);
    }
}
