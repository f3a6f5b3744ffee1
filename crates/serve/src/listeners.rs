//! The listeners of a server of connections: where and how steered in, one listener a bucket out, and the group that they
//! are, whose table may change.

use crate::server::TableError;
use crate::service::{self, Service};
use corelane_rss::Steering;
use corelane_rss::steer::{self, Families, SteerError};
use corelane_worker::WorkerSettings;
use corelane_worker::crew::{Crew, CrewError};
use corelane_worker::engine::{EngineKind, EngineSettings, Ops};
use corelane_worker::group::{self, GroupError, GroupSettings};
use corelane_worker::steered::SteeredGroup;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use thiserror::Error;

/// Where connections come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listening<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) steering: &'a Steering,
    /// Connections that may wait at each listener.
    pub(crate) backlog: u16,
    /// Allows an address that no device has.
    pub(crate) free_bind: bool,
    /// Leaves the choice among the listeners to the kernel's own hash.
    pub(crate) kernel_hash: bool,
}

/// Why there are no listeners.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The listeners of the group could not be had.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// No steering program for this table.
    #[error(transparent)]
    Steer(#[from] SteerError),
    /// The table could not be changed later.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Buckets without a CPU each.
    #[error("the steering document maps {buckets} buckets and names {cpus} CPUs: name one CPU a bucket")]
    Cpus {
        /// Buckets of the table.
        buckets: usize,
        /// CPUs of the document.
        cpus: usize,
    },
}

/// Opens them, in bucket order; and the address that they share.
pub(crate) fn open(listening: Listening<'_>) -> Result<(Vec<TcpListener>, SocketAddr), ListenError> {
    let buckets = listening.steering.table.buckets();
    let cpus = listening.steering.cpus.len();
    if cpus != buckets {
        return Err(ListenError::Cpus { buckets, cpus });
    }
    let program = match listening.kernel_hash {
        true => None,
        false => Some(steer::program(listening.steering, families(listening.address))?),
    };
    let settings = GroupSettings {
        free_bind: listening.free_bind,
        ..GroupSettings::default()
    };
    let (address, backlog) = (listening.address, listening.backlog);
    let listeners = group::tcp(address, buckets, program.as_ref(), backlog, &settings)?;
    let address = listeners[0].local_addr().unwrap_or(address);
    Ok((listeners, address))
}

fn families(address: SocketAddr) -> Families {
    match address {
        SocketAddr::V4(_) => Families::V4,
        SocketAddr::V6(_) => Families::V6,
    }
}

/// Starts one thread a listener, on the CPUs of the document, and returns when every one of them serves.
pub(crate) fn serve<S: Service + Send + 'static>(
    steering: &Steering,
    own_descriptors: bool,
    engine: &(EngineKind, EngineSettings),
    listeners: Vec<TcpListener>,
    service: impl Fn(usize) -> S,
) -> Result<Crew<()>, CrewError> {
    let mut crew = Crew::new();
    for (bucket, listener) in listeners.into_iter().enumerate() {
        let thread = WorkerSettings {
            own_descriptors,
            ..WorkerSettings::new(format!("bucket {bucket}"), steering.cpus[bucket])
        };
        let sockets = vec![OwnedFd::from(listener)];
        service::start(&mut crew, thread, engine.clone(), sockets, service(bucket))?;
    }
    crew.begin_when_ready()?;
    Ok(crew)
}

/// Registers the listeners that were handed over.
pub(crate) fn register(ops: &mut Ops, sockets: Vec<OwnedFd>) -> io::Result<()> {
    let mut listeners = sockets.into_iter().map(TcpListener::from);
    listeners.try_for_each(|listener| ops.listen(listener).map(drop))
}

/// The group that these listeners are, where a program chooses among several.
pub(crate) fn steered(
    listening: Listening<'_>,
    listeners: &[TcpListener],
) -> Result<Option<SteeredGroup>, ListenError> {
    if listening.kernel_hash || listeners.len() < 2 {
        return Ok(None);
    }
    let (families, steering) = (families(listening.address), listening.steering.clone());
    let group = SteeredGroup::new(&listeners[0], listeners.len(), families, steering);
    Ok(group.map(Some).map_err(TableError::Duplicate)?)
}
