//! The socket on which an answer is sent: takes the receiving socket and the sender's address, returns a socket and, if
//! required, a peer.
//!
//! The four ways to answer differ in this choice, and in how the transmit queue is selected (see [`Answers`]).

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

/// Maximum number of flows per worker with their own socket; each uses two descriptors, of an assumed limit of 20,000
/// per process. Further flows are answered on the bucket's socket, and counted.
const MOST_CONNECTED: usize = 1_024;

/// A socket opened by a worker for one flow, and the worker's index.
pub(super) type Connected = (usize, UdpSocket);

/// How a worker answers.
pub(super) struct Answering {
    pub(super) plan: Arc<UdpPlan>,
    pub(super) address: SocketAddr,
    pub(super) steerer: Arc<ArcSwap<Steerer>>,
    pub(super) worker: usize,
    /// Receives the sockets opened for single flows.
    pub(super) opened: mpsc::Sender<Connected>,
    /// The worker's own socket, on which new flows arrive; `None` before it is registered.
    pub(super) own: Option<Id>,
    /// One socket per bucket, in order, if the worker selects by its own hash.
    pub(super) by_bucket: Vec<Id>,
    /// Flows with their own socket.
    pub(super) by_peer: HashMap<SocketAddr, Id>,
}

/// The route of an answer.
pub(super) struct Way {
    pub(super) socket: Id,
    /// `None` for a connected socket.
    pub(super) peer: Option<SocketAddr>,
    /// Whether the flow should have its own socket, but does not.
    pub(super) unconnected: bool,
}

impl Answering {
    /// The route for an answer to `peer`, whose datagram arrived on `socket`.
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

    /// The socket of the bucket selected by the flow's hash.
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
        // Fails when the server is being stopped, and counts no longer matter.
        let _ = self.opened.send((self.worker, counted));
        Ok(id)
    }

    /// Removes a closed socket.
    pub(super) fn closed(&mut self, socket: Id) {
        self.by_peer.retain(|_, id| *id != socket);
    }
}
