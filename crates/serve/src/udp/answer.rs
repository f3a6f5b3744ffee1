//! On which socket an answer leaves: the socket that a datagram came on and its sender in, a socket and perhaps a peer out.
//!
//! The four ways to answer differ here, and in who chooses the transmit queue (see [`Answers`]).

use super::plan::UdpPlan;
use crate::udp::Answers;
use arc_swap::ArcSwap;
use corelane_rss::{Steerer, Tuple};
use corelane_worker::engine::{DatagramOptions, Id, Ops};
use corelane_worker::group;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, mpsc};

/// Flows of a worker that get a socket of their own; two descriptors each, of the 20,000 that a process may often have at
/// most. More are answered on the bucket's socket, and counted.
const MOST_CONNECTED: usize = 1_024;

/// A socket that a worker opened for one flow, and the worker's number.
pub(super) type Connected = (usize, UdpSocket);

/// How a worker answers.
pub(super) struct Answering {
    pub(super) plan: Arc<UdpPlan>,
    pub(super) address: SocketAddr,
    pub(super) steerer: Arc<ArcSwap<Steerer>>,
    pub(super) worker: usize,
    /// Gets the sockets that are opened for one flow each.
    pub(super) opened: mpsc::Sender<Connected>,
    /// The worker's own socket, on which flows appear first; none before the engine has it.
    pub(super) own: Option<Id>,
    /// One socket per bucket, in order, where the worker's own hash chooses among them.
    pub(super) by_bucket: Vec<Id>,
    /// The sockets of flows that have one of their own.
    pub(super) by_peer: HashMap<SocketAddr, Id>,
}

/// An answer's way out.
pub(super) struct Way {
    pub(super) socket: Id,
    /// None where the socket knows it.
    pub(super) peer: Option<SocketAddr>,
    /// Whether the flow should have had a socket of its own, and could not.
    pub(super) unconnected: bool,
}

impl Answering {
    /// How to answer what came on `socket` from `peer`.
    pub(super) fn way(&mut self, ops: &mut Ops, socket: Id, peer: SocketAddr) -> Way {
        let same = Way {
            socket,
            peer: Some(peer),
            unconnected: false,
        };
        match self.plan.answers {
            Answers::PerSend | Answers::Received => same,
            Answers::Caller => Way {
                socket: self.of_bucket(peer).unwrap_or(socket),
                ..same
            },
            Answers::Connected if self.own != Some(socket) => Way { peer: None, ..same },
            Answers::Connected => match self.of_flow(ops, peer) {
                Some(socket) => Way {
                    socket,
                    peer: None,
                    unconnected: false,
                },
                None => Way {
                    unconnected: true,
                    ..same
                },
            },
        }
    }

    /// The socket of the bucket that the flow's hash names.
    fn of_bucket(&self, peer: SocketAddr) -> Option<Id> {
        let tuple = Tuple::new(peer, self.address).ok()?;
        let bucket = self.steerer.load().bucket_of(&tuple);
        self.by_bucket.get(bucket.index()).copied()
    }

    /// The flow's own socket.
    fn of_flow(&mut self, ops: &mut Ops, peer: SocketAddr) -> Option<Id> {
        if let Some(id) = self.by_peer.get(&peer) {
            return Some(*id);
        }
        if self.by_peer.len() >= MOST_CONNECTED {
            return None;
        }
        let id = self.open(ops, peer).ok()?;
        self.by_peer.insert(peer, id);
        Some(id)
    }

    fn open(&self, ops: &mut Ops, peer: SocketAddr) -> io::Result<Id> {
        let socket = group::connected(self.address, peer, &self.plan.socket_settings());
        let socket = socket.map_err(io::Error::other)?;
        let counted = socket.try_clone()?;
        let id = ops.datagrams(socket, DatagramOptions::default())?;
        // A server that is being stopped counts no more.
        let _ = self.opened.send((self.worker, counted));
        Ok(id)
    }

    /// Forgets a socket that was closed.
    pub(super) fn closed(&mut self, socket: Id) {
        self.by_peer.retain(|_, id| *id != socket);
    }
}
