//! The sockets of a model: a plan in, one socket for each worker out (its own, or a duplicate of the one that all share),
//! and a count of what the kernel dropped at each.

use super::plan::{UdpPlan, UdpServeError};
use corelane_report::scale::Model;
use corelane_rss::steer;
use corelane_worker::group::{self, GroupSettings};
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
    /// Opens what the plan's model takes.
    pub(super) fn of(plan: &UdpPlan) -> Result<Self, UdpServeError> {
        let workers = plan.workers();
        let duplicates = |socket: &UdpSocket| -> Result<Vec<UdpSocket>, UdpServeError> {
            let all: io::Result<_> = (0..workers).map(|_| socket.try_clone()).collect();
            all.map_err(|error| socket_error("duplicate the socket", error))
        };
        Ok(match plan.model {
            Model::Exact => {
                let families = if plan.address.is_ipv4() {
                    steer::Families::V4
                } else {
                    steer::Families::V6
                };
                let program = steer::program(&plan.steering, families)?;
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
                shared: None,
            },
            Self::Shared(sockets) => SocketDrops {
                own: Vec::new(),
                shared: Some(watch(&sockets[0])?),
            },
            Self::Farmed { reader, .. } => SocketDrops {
                own: Vec::new(),
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
    let settings = GroupSettings {
        receive_buffer: plan.receive_buffer_bytes,
        gro: plan.gro,
        ..GroupSettings::default()
    };
    Ok(group::udp(plan.address, sockets, program, &settings)?)
}

/// What the kernel dropped at each socket before a worker read it.
pub(super) struct SocketDrops {
    own: Vec<Watched>,
    shared: Option<Watched>,
}

impl SocketDrops {
    /// Takes in what was dropped since the last time.
    pub(super) fn look(&mut self) {
        self.own
            .iter_mut()
            .chain(&mut self.shared)
            .for_each(Watched::look);
    }

    /// Dropped at the worker's own socket; 0 where it has none.
    pub(super) fn of_worker(&self, worker: usize) -> u64 {
        self.own.get(worker).map_or(0, |watched| watched.dropped)
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
        Ok(Self {
            socket: socket.try_clone()?,
            last: 0,
            dropped: 0,
        })
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
