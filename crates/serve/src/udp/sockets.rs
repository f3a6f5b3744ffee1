//! The sockets of a model: a plan in, one socket for each worker out (its own, or a duplicate of the one that all share),
//! and a count of what the kernel dropped at each.

use super::plan::{UdpPlan, UdpServeError};
use crate::udp::{Answers, Model};
use corelane_rss::steer;
use corelane_worker::group;
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// The sockets of a server, in the order of its workers.
pub(super) enum Opened {
    /// Each worker has its own.
    Own(Vec<UdpSocket>),
    /// Each worker has a duplicate of one socket, and takes from it what it can get.
    Shared(Vec<UdpSocket>),
    /// A reader has the socket; workers answer on duplicates of it.
    Farmed {
        /// The reader's.
        reader: UdpSocket,
        /// The workers'.
        answering: Vec<UdpSocket>,
    },
}

impl Opened {
    /// Duplicates of every bucket's socket for each worker, in bucket order, where answers take them; else nothing.
    pub(super) fn for_answers(&self, plan: &UdpPlan) -> Result<Vec<Vec<UdpSocket>>, UdpServeError> {
        let Self::Own(sockets) = self else {
            return Ok(Vec::new());
        };
        if plan.answers != Answers::Caller {
            return Ok(Vec::new());
        }
        let all = || {
            sockets
                .iter()
                .map(UdpSocket::try_clone)
                .collect::<io::Result<_>>()
        };
        let by_worker: io::Result<_> = sockets.iter().map(|_| all()).collect();
        by_worker.map_err(|error| socket_error("duplicate the socket", error))
    }

    /// Opens what the plan's model takes.
    pub(super) fn of(plan: &UdpPlan) -> Result<Self, UdpServeError> {
        let workers = plan.workers();
        let duplicates = |socket: &UdpSocket| -> Result<Vec<UdpSocket>, UdpServeError> {
            let all: io::Result<_> = (0..workers).map(|_| socket.try_clone()).collect();
            all.map_err(|error| socket_error("duplicate the socket", error))
        };
        Ok(match plan.model {
            Model::Exact => {
                let program = steer::program(&plan.steering, plan.families())?;
                Self::Own(group(plan, workers, Some(&program))?)
            }
            Model::Single | Model::Reuseport => Self::Own(group(plan, workers, None)?),
            Model::IncomingCpu => {
                let sockets = group(plan, workers, None)?;
                for (socket, cpu) in sockets.iter().zip(&plan.steering.cpus) {
                    // A member is chosen when its CPU runs the receive path; without one, the kernel's hash chooses.
                    // Linux 4.6 to 6.1 ignored this in a group ("soreuseport: Fix socket selection for SO_INCOMING_CPU").
                    SockRef::from(socket)
                        .set_cpu_affinity(*cpu as usize)
                        .map_err(|error| socket_error("set SO_INCOMING_CPU", error))?;
                }
                Self::Own(sockets)
            }
            Model::Shared => Self::Shared(duplicates(&one(plan)?)?),
            Model::Farm => {
                let reader = one(plan)?;
                let answering = duplicates(&reader)?;
                Self::Farmed { reader, answering }
            }
        })
    }

    /// Where the server listens.
    pub(super) fn address(&self) -> Result<SocketAddr, UdpServeError> {
        let first = match self {
            Self::Own(sockets) | Self::Shared(sockets) => &sockets[0],
            Self::Farmed { reader, .. } => reader,
        };
        first
            .local_addr()
            .map_err(|error| socket_error("read the port", error))
    }

    /// Begins to count what the kernel drops at these sockets.
    pub(super) fn watch(&self) -> Result<SocketDrops, UdpServeError> {
        let watch = |socket: &UdpSocket| {
            Watched::new(socket).map_err(|error| socket_error("duplicate the socket", error))
        };
        Ok(match self {
            Self::Own(sockets) => SocketDrops {
                own: sockets.iter().map(watch).collect::<Result<_, _>>()?,
                connected: Vec::new(),
                shared: None,
            },
            Self::Shared(sockets) => SocketDrops {
                own: Vec::new(),
                connected: Vec::new(),
                shared: Some(watch(&sockets[0])?),
            },
            Self::Farmed { reader, .. } => SocketDrops {
                own: Vec::new(),
                connected: Vec::new(),
                shared: Some(watch(reader)?),
            },
        })
    }
}

fn socket_error(what: &'static str, error: io::Error) -> UdpServeError {
    UdpServeError::Socket { what, error }
}

/// A group of one, which is a plain socket.
fn one(plan: &UdpPlan) -> Result<UdpSocket, UdpServeError> {
    let mut sockets = group(plan, 1, None)?;
    Ok(sockets.pop().expect("a group of one holds one socket"))
}

fn group(
    plan: &UdpPlan,
    sockets: usize,
    program: Option<&steer::Program>,
) -> Result<Vec<UdpSocket>, UdpServeError> {
    Ok(group::udp(
        plan.address,
        sockets,
        program,
        &plan.socket_settings(),
    )?)
}

/// What the kernel dropped at each socket before a worker read it.
pub(super) struct SocketDrops {
    own: Vec<Watched>,
    /// Sockets that workers opened for one flow each, with the worker's number.
    connected: Vec<(usize, Watched)>,
    shared: Option<Watched>,
}

impl SocketDrops {
    /// Takes in what was dropped since the last time.
    pub(super) fn look(&mut self) {
        let connected = self.connected.iter_mut().map(|(_, watched)| watched);
        self.own
            .iter_mut()
            .chain(connected)
            .chain(&mut self.shared)
            .for_each(Watched::look);
    }

    /// Counts a socket that a worker opened for one flow.
    pub(super) fn add(&mut self, worker: usize, socket: UdpSocket) {
        self.connected.push((worker, Watched::of(socket)));
    }

    /// Dropped at the worker's own sockets; 0 where it has none.
    pub(super) fn of_worker(&self, worker: usize) -> u64 {
        let connected = self.connected.iter().filter(|(of, _)| *of == worker);
        let connected: u64 = connected.map(|(_, watched)| watched.dropped).sum();
        self.own.get(worker).map_or(0, |watched| watched.dropped) + connected
    }

    /// Dropped at the socket that all workers share.
    pub(super) fn shared(&self) -> u64 {
        self.shared.as_ref().map_or(0, |watched| watched.dropped)
    }
}

struct Watched {
    socket: UdpSocket,
    last: u32,
    dropped: u64,
}

impl Watched {
    fn new(socket: &UdpSocket) -> io::Result<Self> {
        Ok(Self::of(socket.try_clone()?))
    }

    fn of(socket: UdpSocket) -> Self {
        Self {
            socket,
            last: 0,
            dropped: 0,
        }
    }

    /// Adds what the kernel's count, which wraps, has grown by.
    fn look(&mut self) {
        // A kernel that does not tell leaves the count where it is.
        if let Ok(now) = group::dropped(&self.socket) {
            self.dropped += u64::from(now.wrapping_sub(self.last));
            self.last = now;
        }
    }
}
