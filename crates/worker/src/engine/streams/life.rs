//! What happens in the life of every stream, whichever engine moves it: it begins, opens, settles and ends.

use super::{Handle, Phase, Request, StreamNotice};
use crate::engine::cause::Cause;
use crate::engine::id::Id;
use crate::engine::ops::Ops;
use crate::engine::{Event, Handler};
use crate::system::stream;
use crate::time::Time;
use std::io;
use std::net::SocketAddr;

impl Ops {
    /// Begins an attempt to connect over the kernel.
    pub(crate) fn begin_connect(&mut self, slot: u32) -> io::Result<()> {
        let Some(request) = self.streams.at(slot).request.as_ref() else {
            return Ok(());
        };
        let (to, binding, timeout) = (request.to, request.binding, request.timeout);
        self.streams.at_mut(slot).handle = Handle::Kernel(stream::connect(to, binding)?);
        if let Some(timeout) = timeout {
            self.limit_connect(slot, Time::now() + timeout);
        }
        Ok(())
    }

    /// Sets when an attempt to connect ends.
    pub(crate) fn limit_connect(&mut self, slot: u32, deadline: Time) {
        let timer = self.streams.deadlines.insert(deadline, self.streams.id(slot));
        if let Some(request) = self.streams.at_mut(slot).request.as_mut() {
            request.timer = Some(timer);
        }
    }

    /// Takes what a connection needed to be opened, and its deadline out of the wheel.
    pub(crate) fn connect_done(&mut self, slot: u32) -> Option<Box<Request>> {
        let request = self.streams.at_mut(slot).request.take()?;
        if let Some(timer) = request.timer {
            self.streams.deadlines.cancel(timer);
        }
        Some(request)
    }

    /// An attempt to connect has succeeded.
    pub(crate) fn connected(&mut self, slot: u32, now: Time, on: &mut impl Handler) {
        let Some(request) = self.connect_done(slot) else {
            return;
        };
        self.streams.at_mut(slot).phase = Phase::Open;
        self.counters.streams.opened += 1;
        self.streams.note_waiting(slot);
        self.streams.note_change(slot);
        let id = self.streams.id(slot);
        if self.streams.is_open(id) {
            let (listener, peer) = (None, request.to);
            on.event(self, now, id, Event::Opened { listener, peer });
        }
    }

    /// A connection came to a listener; it was registered already.
    pub(crate) fn accepted(
        &mut self,
        listener: Id,
        id: Id,
        peer: SocketAddr,
        now: Time,
        on: &mut impl Handler,
    ) {
        self.counters.streams.accepted += 1;
        let listener = Some(listener);
        on.event(self, now, id, Event::Opened { listener, peer });
    }

    /// With nothing queued any more: tells so where that was asked, and ends this side where that was asked; says whether
    /// it did, for a network that is not the kernel's.
    pub(crate) fn settle(&mut self, slot: u32) -> bool {
        let stream = self.streams.at_mut(slot);
        if stream.phase != Phase::Open || !stream.queue.is_empty() {
            return false;
        }
        let ends = stream.ending && !stream.ended;
        if ends {
            stream.ended = true;
            if let Some(connection) = stream.descriptor() {
                // Fails when the peer has reset the connection, which the next receive tells.
                let _ = stream::shutdown(connection);
            }
        }
        if std::mem::take(&mut self.streams.at_mut(slot).tell_drained) {
            let id = self.streams.id(slot);
            self.streams.notices.push((id, StreamNotice::Drained));
        }
        ends
    }

    /// A connection could not be opened, or a stream not be registered.
    pub(crate) fn stream_failed(&mut self, slot: u32, cause: Cause) {
        if self.streams.at(slot).phase == Phase::Connecting {
            self.counters.streams.open_failed.add(cause, 1);
        }
        self.stream_closed(slot, cause);
    }

    /// The kernel is done with a stream, or it with us: tells why. The slot is free once that was told, so that who keeps
    /// something by slot never hears of the next connection before the end of this one.
    pub(crate) fn stream_closed(&mut self, slot: u32, cause: Cause) {
        self.connect_done(slot);
        let id = self.streams.id(slot);
        if self.streams.at(slot).phase == Phase::Open {
            self.counters.streams.count_end(cause);
        }
        self.streams.retire(slot);
        self.streams.notices.push((id, StreamNotice::Closed(cause)));
    }

    /// There is no descriptor, or no memory, for a connection: it waits in the backlog, and the listener tries again at
    /// `again`. Told at the first time in a row, which `starved` is not.
    pub(crate) fn starve(&mut self, slot: u32, cause: Cause, again: Time, starved: bool) {
        let id = self.streams.id(slot);
        self.counters.streams.accept_failed.add(cause, 1);
        self.streams.deadlines.insert(again, id);
        if !starved {
            self.streams.notices.push((id, StreamNotice::Failed(cause)));
        }
    }
}
