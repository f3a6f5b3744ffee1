//! Sends a socket's queue by `sendmmsg`, or by one `sendto` per datagram (one with a source takes control messages, and therefore `sendmmsg`). Both engines over the kernel use it.
//!
//! Sends through the ring are slower. Measured on loopback with 510 bytes, in datagrams per second of the server's CPU
//! time relative to a loop of `recvfrom` and `sendto`: linked sends, which keep order, 0.81 (with deferred completions
//! each link needs its own pass); independent sends, which may overtake one that has to wait, 0.95; one `sendmmsg`,
//! which keeps order and needs no completions, 1.06.

use super::ops::Ops;
use super::settings::EngineSettings;
use crate::system::message::{SendBatch, send_one};
use std::io;

pub(crate) struct Flusher {
    batch: SendBatch,
    one_at_a_time: bool,
}

/// The result of a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flushed {
    /// The queue is empty.
    All,
    /// The socket accepts no more for now.
    Blocked,
}

impl Flusher {
    pub(crate) fn new(settings: &EngineSettings) -> Self {
        Self {
            batch: SendBatch::new(settings.datagram_batch),
            one_at_a_time: settings.datagram_batch == 1,
        }
    }

    /// Sends a socket's queue until it is empty or the socket accepts no more.
    pub(crate) fn flush(&mut self, ops: &mut Ops, slot: u32) -> Flushed {
        while ops.sockets.at(slot).queue.runs > 0 {
            ops.counters.calls.send += 1;
            match self.send_some(ops, slot) {
                Ok(sent) => (0..sent).for_each(|_| ops.sent_first(slot)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flushed::Blocked,
                Err(error) => ops.refused_first(slot, error.raw_os_error().unwrap_or(libc::EIO)),
            }
        }
        Flushed::All
    }

    /// Sends the first runs of a queue in one call; returns how many were sent.
    fn send_some(&mut self, ops: &Ops, slot: u32) -> io::Result<usize> {
        let entry = ops.sockets.at(slot);
        let Some(socket) = entry.descriptor() else {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        };
        let memory = ops.sends.arena.memory();
        let mut runs = ops.sends.iter(&entry.queue).peekable();
        if let Some(run) = runs.peek()
            && run.segment().is_none()
            && run.ends.source.is_none()
            && (self.one_at_a_time || entry.queue.runs == 1)
        {
            return send_one(socket, run.ends.peer, memory.bytes(run.range())).map(|()| 1);
        }
        self.batch.clear();
        for run in runs {
            if self.batch.is_full() {
                break;
            }
            self.batch.push(run, memory);
        }
        self.batch.send(socket)
    }
}
