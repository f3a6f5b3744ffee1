//! On which socket an answer leaves: the socket that a datagram came on and its sender in, a socket and perhaps a peer out.
//!
//! The four ways to answer differ here, and in who chooses the transmit queue (see [`Answers`]).

use super::current::Current;
use super::plan::UdpPlan;
use crate::udp::Answers;
use corelane_rss::Tuple;
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
pub(super) enum Answering {
    /// Where it came, to whom it came from.
    Same,
    /// On the socket of the bucket that the flow's hash names.
    Caller(Calling),
    /// On the flow's own socket.
    Connected(Connecting),
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
    /// The way of the plan for worker `worker`; what it opens is told to `opened`.
    pub(super) fn new(
        plan: &Arc<UdpPlan>,
        address: SocketAddr,
        steerer: &Arc<Current>,
        worker: usize,
        opened: mpsc::Sender<Connected>,
    ) -> Self {
        match plan.answers {
            Answers::PerSend | Answers::Received => Self::Same,
            Answers::Caller => Self::Caller(Calling {
                address,
                steerer: Arc::clone(steerer),
                sockets: Vec::new(),
            }),
            Answers::Connected => Self::Connected(Connecting {
                plan: Arc::clone(plan),
                address,
                worker,
                opened,
                own: None,
                by_peer: HashMap::new(),
            }),
        }
    }

    /// Takes the sockets that there are once the engine has them: the worker's own, and one of each bucket, in order, where
    /// the way asks for them.
    pub(super) fn begin(&mut self, own: Id, by_bucket: Vec<Id>) {
        match self {
            Self::Same => {}
            Self::Caller(calling) => calling.sockets = by_bucket,
            Self::Connected(connecting) => connecting.own = Some(own),
        }
    }

    /// How to answer what came on `socket` from `peer`.
    pub(super) fn way(&mut self, ops: &mut Ops, socket: Id, peer: SocketAddr) -> Way {
        let same = Way {
            socket,
            peer: Some(peer),
            unconnected: false,
        };
        match self {
            Self::Same => same,
            Self::Caller(calling) => Way {
                socket: calling.socket(peer).unwrap_or(socket),
                ..same
            },
            Self::Connected(connecting) if connecting.own != Some(socket) => Way { peer: None, ..same },
            Self::Connected(connecting) => match connecting.socket(ops, peer) {
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

    /// Forgets a socket that was closed.
    pub(super) fn closed(&mut self, socket: Id) {
        if let Self::Connected(connecting) = self {
            connecting.by_peer.retain(|_, id| *id != socket);
        }
    }
}

/// Answering by a hash of the application's own.
pub(super) struct Calling {
    address: SocketAddr,
    steerer: Arc<Current>,
    /// One a bucket, in order.
    sockets: Vec<Id>,
}

impl Calling {
    fn socket(&self, peer: SocketAddr) -> Option<Id> {
        let tuple = Tuple::new(peer, self.address).ok()?;
        self.sockets.get(self.steerer.bucket_of(&tuple).index()).copied()
    }
}

/// Answering on a connected socket a flow.
pub(super) struct Connecting {
    plan: Arc<UdpPlan>,
    address: SocketAddr,
    worker: usize,
    opened: mpsc::Sender<Connected>,
    /// The bucket's socket, on which flows appear first.
    own: Option<Id>,
    by_peer: HashMap<SocketAddr, Id>,
}

impl Connecting {
    fn socket(&mut self, ops: &mut Ops, peer: SocketAddr) -> Option<Id> {
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
}
