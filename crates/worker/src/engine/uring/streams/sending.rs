//! Sending through the ring: what a connection has queued, in one piece, goes to the kernel with the submission that the turn
//! makes anyhow. It takes what it has room for there and then, and says nothing when that was all.
//!
//! So memory is lent for no longer than to the next submission, and of two sends of one connection never more than one is
//! under way, as the second could find the room that the first did not.

use super::super::Completions;
use super::super::ring::Completion;
use super::{SEND, user_data};
use crate::engine::id::Id;
use crate::engine::ops::Ops;
use crate::engine::streams::{FlushedStream, flushed, refused, taken};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;

/// The most bytes sent so: of more the copying outweighs a system call, and the kernel would take only a part.
const MOST_BYTES: usize = 65_536;

const INTERRUPTED: i32 = -libc::EINTR;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Sending {
    /// What went into the ring, in order.
    queued: Vec<Queued>,
    /// What the kernel said to those that it did not take whole, by user data.
    refused: HashMap<u64, i32>,
    /// Whether something is to follow the end of one of them.
    awaited: bool,
}

#[derive(Debug)]
struct Queued {
    id: Id,
    bytes: u32,
}

impl Sending {
    /// Whether an action waits for the end of a send; a successful send posts no completion.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited
    }

    pub(super) fn await_end(&mut self) {
        self.awaited = true;
    }

    /// Notes a send that was not taken whole.
    pub(super) fn refused(&mut self, completion: Completion) {
        self.refused.insert(completion.user_data, completion.result);
    }
}

impl Completions {
    /// Puts what a connection has queued into the ring, where it can go so; says whether it could.
    pub(super) fn send_whole(&mut self, ops: &mut Ops, slot: u32) -> bool {
        let id = ops.streams.id(slot);
        let stream = ops.streams.at(slot);
        let whole = ops.outgoing.whole(&stream.queue);
        let fits = whole.filter(|whole| self.ring.can_send() && whole.bytes().len() <= MOST_BYTES);
        let (Some(bytes), Some(connection)) = (fits, stream.descriptor()) else {
            return false;
        };
        self.ring
            .send(connection.as_raw_fd(), &bytes, user_data(SEND, id));
        let bytes = bytes.bytes().len() as u32;
        let sending = &mut self.connections.sending;
        if stream.closing || stream.ending || stream.notify_drained {
            sending.await_end();
        }
        ops.outgoing.hold();
        sending.queued.push(Queued { id, bytes });
        self.connections.states.at(slot).sending = true;
        true
    }

    /// Accounts for what was sent, once the kernel has all that was queued.
    pub(in crate::engine::uring) fn settle(&mut self, ops: &mut Ops) {
        if self.connections.sending.queued.is_empty() || !self.ring.is_submitted() {
            return;
        }
        self.connections.sending.awaited = false;
        let mut queued = std::mem::take(&mut self.connections.sending.queued);
        for sent in queued.drain(..) {
            ops.outgoing.release();
            if ops.streams.is_current(sent.id) {
                self.settle_one(ops, &sent);
            }
        }
        // Nothing is sent while this settles: the list's memory is kept for the next time.
        self.connections.sending.queued = queued;
        self.connections.sending.refused.clear();
    }

    fn settle_one(&mut self, ops: &mut Ops, sent: &Queued) {
        let slot = sent.id.slot() as u32;
        self.connections.states.at(slot).sending = false;
        let refusals = &mut self.connections.sending.refused;
        let result = match refusals.is_empty() {
            true => None,
            false => refusals.remove(&user_data(SEND, sent.id)),
        };
        // Aborted meanwhile, it has nothing queued any more.
        let queued = ops.streams.at(slot).queue.bytes;
        let bytes = result
            .map_or(u64::from(sent.bytes), |result| result.max(0) as u64)
            .min(queued);
        let whole = taken(ops, slot, bytes);
        let outcome = match result {
            _ if whole => FlushedStream::All,
            // More was queued behind it, or it is tried again.
            None | Some(INTERRUPTED) => return ops.streams.note_waiting(slot),
            Some(result) if result >= 0 => refused(ops, slot, &io::ErrorKind::WouldBlock.into()),
            Some(result) => refused(ops, slot, &io::Error::from_raw_os_error(-result)),
        };
        flushed(self, ops, slot, outcome);
    }
}
