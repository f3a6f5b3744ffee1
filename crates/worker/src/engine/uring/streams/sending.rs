//! Sends through the ring: a queue of one piece goes to the kernel with the turn's regular submission. The kernel
//! accepts as much as it has room for during the submission, and posts no completion if that was everything.
//!
//! Memory is therefore lent only until the next submission. A connection has at most one send in the ring, because a
//! second one could find the room that the first did not, which would reorder bytes.

use super::super::Completions;
use super::{SEND, user_data};
use crate::engine::id::Id;
use crate::engine::ops::Ops;
use crate::engine::streams::{FlushedStream, flushed, refused, taken};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;

/// The maximum size of such a send: beyond it copying outweighs a system call, and the kernel would accept only a part.
const MOST_BYTES: usize = 65_536;

const INTERRUPTED: i32 = -libc::EINTR;

/// The sends in the ring.
#[derive(Debug, Default)]
pub(super) struct Sending {
    /// The sends queued in the ring, in order.
    queued: Vec<Queued>,
    /// The results of partial and failed sends, by user data.
    pub(super) refused: HashMap<u64, i32>,
    /// Whether an action waits for the end of one of them. A successful send posts no completion, so the engine must
    /// not wait then.
    pub(super) awaited: bool,
}

#[derive(Debug)]
struct Queued {
    id: Id,
    bytes: u32,
}

impl Completions {
    /// Puts a connection's queue into the ring if it is one piece of stable memory and small enough; returns whether it
    /// did.
    pub(super) fn send_whole(&mut self, ops: &mut Ops, slot: u32) -> bool {
        let id = ops.streams.id(slot);
        let stream = ops.streams.at(slot);
        let whole = ops.outgoing.whole(&stream.queue);
        let fits = whole.filter(|whole| self.ring.sends && whole.bytes().len() <= MOST_BYTES);
        let (Some(bytes), Some(connection)) = (fits, stream.descriptor()) else {
            return false;
        };
        self.ring
            .send(connection.as_raw_fd(), &bytes, user_data(SEND, id));
        let bytes = bytes.bytes().len() as u32;
        let (stream, sending) = (ops.streams.at_mut(slot), &mut self.connections.sending);
        stream.queue.lent = bytes;
        if stream.closing || stream.ending || stream.notify_drained {
            sending.awaited = true;
        }
        ops.outgoing.hold();
        sending.queued.push(Queued { id, bytes });
        true
    }

    /// Accounts for the sends, once the kernel has all queued operations.
    pub(in crate::engine::uring) fn settle(&mut self, ops: &mut Ops) {
        if self.connections.sending.queued.is_empty() || !self.ring.is_submitted() {
            return;
        }
        self.connections.sending.awaited = false;
        let mut queued = std::mem::take(&mut self.connections.sending.queued);
        for sent in queued.drain(..) {
            ops.outgoing.leave();
            self.settle_one(ops, &sent);
        }
        // Nothing is sent meanwhile, so the list is still empty: its allocation is reused.
        self.connections.sending.queued = queued;
        self.connections.sending.refused.clear();
    }

    fn settle_one(&mut self, ops: &mut Ops, sent: &Queued) {
        let slot = sent.id.slot() as u32;
        let refusals = &mut self.connections.sending.refused;
        let result = match refusals.is_empty() {
            true => None,
            false => refusals.remove(&user_data(SEND, sent.id)),
        };
        let bytes = result.map_or(u64::from(sent.bytes), |result| result.max(0) as u64);
        ops.counters.streams.bytes_sent += bytes;
        if !ops.streams.is_current(sent.id) {
            return;
        }
        let queue = &mut ops.streams.at_mut(slot).queue;
        if std::mem::take(&mut queue.lent) == 0 {
            // It ends, and its queue is dropped: what was sent of it is no longer unsent.
            queue.bytes -= bytes.min(queue.bytes);
            return;
        }
        taken(ops, slot, bytes);
        let whole = cut(ops, slot, u64::from(sent.bytes) - bytes);
        let outcome = match result {
            _ if whole => FlushedStream::All,
            // More was queued after it, or it is retried.
            None | Some(INTERRUPTED) => return ops.streams.note_waiting(slot),
            Some(result) if result >= 0 => refused(ops, slot, &io::ErrorKind::WouldBlock.into()),
            Some(result) => refused(ops, slot, &io::Error::from_raw_os_error(-result)),
        };
        flushed(self, ops, slot, outcome);
    }
}

/// A send is over: drops the rest that the kernel did not take, if its owner has dropped it. Returns whether the queue
/// is empty.
fn cut(ops: &mut Ops, slot: u32, rest: u64) -> bool {
    let stream = ops.streams.at_mut(slot);
    if std::mem::take(&mut stream.cut) {
        match stream.queue.bytes == rest {
            true => ops.outgoing.abandon(&mut stream.queue),
            false => ops.outgoing.advance(&mut stream.queue, rest),
        }
    }
    stream.queue.is_empty()
}
