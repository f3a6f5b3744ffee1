//! The sockets of a model: takes a plan, returns one socket per worker (its own, or a duplicate of the shared one), and
//! counts kernel drops at each.

use super::cause::DropCause;
use super::error::UdpError;
use super::model::{Answers, Mode, Model};
use super::plan::UdpPlan;
use crate::server::ServeError;
use corelane_host::counters::{UdpCounters, UdpStatistics};
use corelane_link::MarkedQueues;
use corelane_measure::counters::Counters;
use corelane_rss::steer;
use corelane_worker::group;
use socket2::SockRef;
use std::net::{SocketAddr, UdpSocket};

/// The sockets of a server.
pub(super) struct Opened {
    /// In the order of the workers.
    pub(super) workers: Vec<UdpSocket>,
    /// The single socket that the workers' sockets are duplicates of, if shared. With a reader, they only answer on
    /// them.
    pub(super) shared: Option<UdpSocket>,
}

impl Opened {
    /// Opens the sockets that the plan's model requires.
    pub(super) fn of(plan: &UdpPlan) -> Result<Self, ServeError> {
        let (workers, settings) = (plan.workers(), plan.socket_settings());
        let group =
            |sockets, program: Option<&_>| group::udp(plan.socket.address, sockets, program, &settings);
        let program = match plan.model {
            Model::Exact => Some(steer::program(&plan.steered.steering, plan.socket.families())?),
            _ => None,
        };
        if !matches!(plan.model, Model::Shared | Model::Farm) {
            let workers = group(workers, program.as_ref())?;
            if plan.model == Model::IncomingCpu {
                set_cpus(&workers, &plan.steered.steering.cpus)?;
            }
            let shared = None;
            return Ok(Self { workers, shared });
        }
        // A group of one is a plain socket.
        let one = group(1, None)?.remove(0);
        Ok(Self {
            workers: (0..workers).map(|_| duplicate(&one)).collect::<Result<_, _>>()?,
            shared: Some(one),
        })
    }

    /// The listen address.
    pub(super) fn address(&self) -> Result<SocketAddr, ServeError> {
        self.workers[0]
            .local_addr()
            .map_err(ServeError::socket("read the port"))
    }

    /// Duplicates of every bucket's socket for a worker, in bucket order, if its answers require them; else nothing.
    pub(super) fn for_answers(&self, plan: &UdpPlan) -> Result<Vec<UdpSocket>, ServeError> {
        match plan.answers {
            Answers::Caller => self.workers.iter().map(duplicate).collect(),
            _ => Ok(Vec::new()),
        }
    }

    /// Makes each bucket's socket name the bucket's transmit queue, if its answers require it; they do as long as the
    /// result exists.
    pub(super) fn mark(&self, plan: &UdpPlan) -> Result<Option<MarkedQueues>, UdpError> {
        if (plan.answers, plan.mode) != (Answers::Received, Mode::Echo) {
            return Ok(None);
        }
        let device = plan.device.as_ref().ok_or(UdpError::NoDevice)?;
        let queues = MarkedQueues::attach(device).map_err(UdpError::Queues)?;
        for (bucket, socket) in self.workers.iter().enumerate() {
            let mark = MarkedQueues::mark(bucket as u16);
            SockRef::from(socket)
                .set_mark(mark)
                .map_err(ServeError::socket("set SO_MARK"))?;
        }
        Ok(Some(queues))
    }

    /// Starts counting kernel drops at these sockets.
    pub(super) fn watch(&self) -> Result<SocketDrops, ServeError> {
        let mut drops = SocketDrops::default();
        match &self.shared {
            Some(socket) => drops.add(None, duplicate(socket)?),
            None => {
                for (worker, socket) in self.workers.iter().enumerate() {
                    drops.add(Some(worker), duplicate(socket)?);
                }
            }
        }
        // What came before the group was complete was not dropped for lack of room.
        drops.look();
        drops.sockets.iter_mut().for_each(|watched| watched.dropped = 0);
        drops.begun = UdpStatistics::read().ok().map(|counted| counted.total());
        Ok(drops)
    }
}

/// A member of the group is selected if its CPU runs the receive path; otherwise the kernel's hash selects. Linux 4.6 to
/// 6.1 ignored this in a group ("soreuseport: Fix socket selection for SO_INCOMING_CPU").
fn set_cpus(sockets: &[UdpSocket], cpus: &[u32]) -> Result<(), ServeError> {
    let mut pairs = sockets.iter().zip(cpus);
    pairs
        .try_for_each(|(socket, cpu)| SockRef::from(socket).set_cpu_affinity(*cpu as usize))
        .map_err(ServeError::socket("set SO_INCOMING_CPU"))
}

fn duplicate(socket: &UdpSocket) -> Result<UdpSocket, ServeError> {
    socket
        .try_clone()
        .map_err(ServeError::socket("duplicate the socket"))
}

/// Kernel drops at each socket before a worker read the datagram.
#[derive(Default)]
pub(super) struct SocketDrops {
    sockets: Vec<Watched>,
    /// What the kernel had counted in this network namespace when all sockets were open; `None` if it does not say, and
    /// no bad checksum is known.
    begun: Option<UdpCounters>,
}

struct Watched {
    /// The owner of the socket; `None` if shared by all workers.
    worker: Option<usize>,
    socket: UdpSocket,
    last: u32,
    dropped: u64,
    /// Those of `dropped` that had a bad checksum.
    bad_checksum: u64,
}

impl SocketDrops {
    /// Adds the socket of a worker, or the shared one.
    pub(super) fn add(&mut self, worker: Option<usize>, socket: UdpSocket) {
        self.sockets.push(Watched {
            worker,
            socket,
            last: 0,
            dropped: 0,
            bad_checksum: 0,
        });
    }

    /// Updates the counts. Sockets that dropped some since the last look share what the namespace counted as bad
    /// checksums.
    pub(super) fn look(&mut self) {
        let mut grown = Vec::new();
        for (index, watched) in self.sockets.iter_mut().enumerate() {
            // If the kernel does not report drops, the count stays the same. The kernel's counter wraps.
            if let Ok(now) = group::dropped(&watched.socket) {
                let more = u64::from(now.wrapping_sub(watched.last));
                (watched.dropped, watched.last) = (watched.dropped + more, now);
                grown.extend((more > 0).then_some((index, more)));
            }
        }
        let Some(begun) = self.begun.filter(|_| !grown.is_empty()) else {
            return;
        };
        let Ok(counted) = UdpStatistics::read() else {
            return;
        };
        let sum = |of: fn(&Watched) -> u64| self.sockets.iter().map(of).sum::<u64>();
        let bad = counted
            .total()
            .since(&begun)
            .bad_checksums(sum(|watched| watched.dropped));
        let mut new = bad.saturating_sub(sum(|watched| watched.bad_checksum));
        for (index, more) in grown {
            let own = more.min(new);
            self.sockets[index].bad_checksum += own;
            new -= own;
        }
    }

    /// Drops at the sockets of a worker, or at the shared one, by cause.
    pub(super) fn of(&self, worker: Option<usize>) -> [(DropCause, u64); 2] {
        let own = || self.sockets.iter().filter(|watched| watched.worker == worker);
        let bad: u64 = own().map(|watched| watched.bad_checksum).sum();
        let all: u64 = own().map(|watched| watched.dropped).sum();
        [(DropCause::BadChecksum, bad), (DropCause::FullBuffers, all - bad)]
    }
}
