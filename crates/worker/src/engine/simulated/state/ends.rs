//! The ends of a simulated network, and the events that wait at each.

use crate::engine::id::Id;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

/// The bytes of one datagram or segment.
pub(super) type Payload = Arc<[u8]>;

/// The kind of an [`End`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in super::super) enum Kind {
    Datagrams,
    Listener,
    Connection,
}

/// A datagram socket, a listener, or a connection end.
pub(in super::super) struct End {
    pub(in super::super) kind: Kind,
    pub(in super::super) local: SocketAddr,
    pub(in super::super) peer: Option<SocketAddr>,
    /// The number of the connection's other end, once known.
    pub(in super::super) other: Option<usize>,
    /// Not delivered yet.
    pub(in super::super) events: VecDeque<EndEvent>,
    /// Bytes sent that the other end has not read.
    pub(in super::super) outstanding: usize,
    /// The last send found the window full.
    pub(in super::super) blocked: bool,
    /// It has ended its side, or was reset: nothing more can be sent.
    pub(in super::super) ended: bool,
    pub(in super::super) gone: bool,
    /// The seat to notify, and the engine's id for this end.
    pub(in super::super) watcher: Option<(usize, Id)>,
    pub(in super::super) receiving: bool,
    /// Whether it is in the ready list of its watcher's seat.
    pub(in super::super) listed: bool,
}

/// An event at an end.
#[derive(Debug)]
pub(in super::super) enum EndEvent {
    /// A datagram arrived.
    Datagram(InTransit),
    /// No socket was bound at the destination of an earlier datagram.
    PortClosed,
    /// The connection is open.
    Opened,
    /// No listener at the destination.
    Refused,
    /// A connection arrived at a listener: its local end and its source.
    Accepted(usize, SocketAddr),
    Bytes(Payload),
    /// The other end has ended its side.
    Ended,
    Reset,
    /// The window has room again.
    Writable,
}

/// A datagram in transit.
#[derive(Clone, Debug)]
pub(in super::super) struct InTransit {
    pub(in super::super) from: SocketAddr,
    pub(in super::super) to: SocketAddr,
    pub(in super::super) payload: Payload,
}

impl End {
    /// The index of the next event that may be delivered.
    pub(super) fn next_event(&self) -> Option<usize> {
        let held = |event: &EndEvent| {
            !self.receiving
                && matches!(
                    event,
                    EndEvent::Datagram(..) | EndEvent::Bytes(_) | EndEvent::Ended
                )
        };
        self.events.iter().position(|event| !held(event))
    }

    /// Takes the next event; of bytes at most `most_bytes`.
    pub(super) fn take_event(&mut self, most_bytes: usize) -> Option<EndEvent> {
        let event = self.events.remove(self.next_event()?)?;
        Some(match event {
            EndEvent::Bytes(bytes) if bytes.len() > most_bytes => {
                let (first, rest) = bytes.split_at(most_bytes);
                self.events.push_front(EndEvent::Bytes(rest.into()));
                EndEvent::Bytes(first.into())
            }
            event => event,
        })
    }
}
