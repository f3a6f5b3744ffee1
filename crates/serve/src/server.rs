//! Interface shared by all servers: takes a plan, returns counters at any time and at the end.

use corelane_rss::IndirectionTable;
use corelane_rss::steer::SteerError;
use corelane_worker::crew::CrewError;
use corelane_worker::engine::NoEngine;
use corelane_worker::group::GroupError;
use corelane_worker::rebalancing::Rebalancing;
use corelane_worker::steered::{ChangeError, SteeredGroup};
use corelane_worker::tls::CertificateError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::io;
use thiserror::Error;

/// A running server. Dropping it stops it.
pub trait Server: Sized {
    /// The plan it runs.
    type Plan: Serialize + DeserializeOwned;
    /// Its counters.
    type Served: Serialize + DeserializeOwned + 'static;
    /// The error if it cannot start or continue.
    type Error: Error + Send + Sync + 'static;
    /// Its name in metrics, and between processes.
    const NAME: &'static str;
    /// Whether it starts child processes, which must end with it.
    const STARTS_PROCESSES: bool = false;

    /// Starts the server; returns when it is ready to receive.
    ///
    /// # Errors
    /// If it cannot start; nothing is left running.
    fn start(plan: Self::Plan) -> Result<Self, Self::Error>;

    /// The counters so far.
    fn served(&mut self) -> Self::Served;

    /// As [`served`](Self::served), without the location of memory, which the kernel walks all pages to find out.
    fn counts(&mut self) -> Self::Served {
        self.served()
    }

    /// Performs periodic work; call it a few times per second.
    ///
    /// # Errors
    /// If it cannot continue.
    fn poll(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Whether it has ended by itself: [`stop`](Self::stop) returns the error, if any.
    fn is_finished(&self) -> bool {
        false
    }

    /// The group of its sockets, if steered by a table.
    fn group(&mut self) -> Option<&mut SteeredGroup> {
        None
    }

    /// What rebalances its table, if the plan asks for it.
    fn rebalancing(&mut self) -> Option<&mut Rebalancing> {
        None
    }

    /// Replaces the indirection table; returns the number of entries that moved. No datagram or connection is lost:
    /// queued ones are served where they are, and accepted connections stay with their worker.
    ///
    /// # Errors
    /// If it is not steered by a table, or the table does not fit.
    fn change_table(&mut self, table: IndirectionTable) -> Result<usize, TableError> {
        Ok(self.group().ok_or(TableError::None)?.change(table)?)
    }

    /// Stops the server and returns the final counters.
    ///
    /// # Errors
    /// The error that ended it early.
    fn stop(self) -> Result<Self::Served, Self::Error>;
}

/// Why the table of a server did not change.
#[derive(Debug, Error)]
pub enum TableError {
    /// The server is not steered by a table.
    #[error("there is no indirection table to change: it takes exact steering, and two buckets or more")]
    None,
    /// The table does not fit the server.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// Why a server of datagrams or connections could not start or continue: the causes that they share.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The sockets of the group could not be opened.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The steering program could not be loaded for this table.
    #[error(transparent)]
    Steer(#[from] SteerError),
    /// Fewer CPUs than buckets.
    #[error("the steering document maps {buckets} buckets and names {cpus} CPUs: name one CPU per bucket")]
    Cpus {
        /// Buckets of the table.
        buckets: usize,
        /// CPUs of the document.
        cpus: usize,
    },
    /// A socket was opened but could not be set up.
    #[error("cannot {what}: {error}")]
    Socket {
        /// The operation that failed.
        what: &'static str,
        /// The error of the system.
        error: io::Error,
    },
    /// Nothing to rebalance.
    #[error("there is no table to rebalance: it takes exact steering, and two buckets or more")]
    NoTable,
    /// A thread (`bucket 3`, or `reader`) could not start or continue.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] CertificateError),
    /// The requested engine cannot be used.
    #[error(transparent)]
    Engine(#[from] NoEngine),
}

impl ServeError {
    pub(crate) fn socket(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Socket { what, error }
    }
}
