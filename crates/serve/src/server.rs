//! What all servers have in common: a plan in; counts at any time, and at the end, out.

use crate::http::{AccessLogError, TlsError};
use crate::udp::{Answers, FlowCounts, Model};
use corelane_rss::IndirectionTable;
use corelane_rss::steer::SteerError;
use corelane_worker::crew::CrewError;
use corelane_worker::group::GroupError;
use corelane_worker::steered::{ChangeError, SteeredGroup};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// A server that is running. Dropping it stops it.
pub trait Server: Sized {
    /// What it is started with.
    type Plan: Serialize + DeserializeOwned;
    /// Its counts.
    type Served: Serialize + DeserializeOwned;
    /// Why it could not start or go on.
    type Error: Error + Send + Sync + 'static;
    /// The name of this kind of server between processes.
    const KIND: &'static str;
    /// Whether it starts processes, which must end with it.
    const STARTS_PROCESSES: bool = false;

    /// Starts serving; returns when it is ready to receive.
    ///
    /// # Errors
    /// Why it cannot; nothing is left running then.
    fn start(plan: Self::Plan) -> Result<Self, Self::Error>;

    /// The counts so far.
    fn served(&mut self) -> Self::Served;

    /// Does what is due now and then; to be called a few times a second.
    ///
    /// # Errors
    /// Why it cannot go on.
    fn poll(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Whether it has ended by itself: [`stop`](Self::stop) says why, if that was a failure.
    fn is_finished(&self) -> bool {
        false
    }

    /// The group of its sockets, where a table steers it.
    fn group(&mut self) -> Option<&mut SteeredGroup> {
        None
    }

    /// Steers by another table from now on, and returns how many entries moved. Datagrams are served and connections accepted
    /// where they wait, and connections stay where they were accepted: none is lost.
    ///
    /// # Errors
    /// When no table steers it, or the table does not fit.
    fn change_table(&mut self, table: IndirectionTable) -> Result<usize, TableError> {
        Ok(self.group().ok_or(TableError::None)?.change(table)?)
    }

    /// The packets so far by flow, where it counts them.
    fn flows(&mut self) -> Option<FlowCounts> {
        None
    }

    /// Stops it and returns the final counts.
    ///
    /// # Errors
    /// What ended it early.
    fn stop(self) -> Result<Self::Served, Self::Error>;
}

/// Why the table of a server did not change.
#[derive(Debug, Error)]
pub enum TableError {
    /// Nothing that a table steers.
    #[error("there is no indirection table to change: it takes exact steering, and two buckets or more")]
    None,
    /// A table that does not fit the server.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// Why a server of datagrams or connections could not start or go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The sockets of the group could not be had.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// No steering program for this table.
    #[error(transparent)]
    Steer(#[from] SteerError),
    /// Buckets without a CPU each.
    #[error("the steering document maps {buckets} buckets and names {cpus} CPUs: name one CPU a bucket")]
    Cpus {
        /// Buckets of the table.
        buckets: usize,
        /// CPUs of the document.
        cpus: usize,
    },
    /// A socket that was opened would not be used as it has to be.
    #[error("cannot {what}: {error}")]
    Socket {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// A thread (`bucket 3`, or `reader`) could not start or go on.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is no access log.
    #[error(transparent)]
    AccessLog(#[from] AccessLogError),
    /// A way to answer that takes a socket of the bucket's own.
    #[error(
        "answers by {answers} take exact steering, not the model {model}: give another way to answer, or --model exact"
    )]
    Answers {
        /// The way asked for.
        answers: Answers,
        /// The model asked for.
        model: Model,
    },
    /// A socket on all addresses does not know which of them a datagram was for.
    #[error(
        "the hash of a datagram takes the address that it was sent to: listen on one address, not on {address}"
    )]
    NoTuple {
        /// The address asked for.
        address: SocketAddr,
    },
}
