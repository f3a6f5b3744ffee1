//! A group whose table changes while it serves: a member and a steering enter; new tables move entries from bucket to bucket,
//! and who keeps something by bucket is told which.
//!
//! It is what FreeBSD's RSS lets an application do when buckets move ("Application awareness of receive side scaling (RSS) on
//! FreeBSD"), for sockets. Datagrams and new connections follow the new table from the moment that it is set; what waits at
//! a socket is served where it waits, and connections stay where they were accepted. Nothing is lost in the exchange: see
//! [`program::attach`](crate::program::attach).

use crate::program::{self, ProgramError};
use corelane_rss::steer::{self, Families, SteerError};
use corelane_rss::{Bucket, IndirectionTable, Steering};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A group that is steered by a table, and can be steered by another.
pub struct SteeredGroup {
    /// Any member: it stands for all.
    member: OwnedFd,
    families: Families,
    sockets: usize,
    steering: Steering,
    told: Vec<Told>,
}

/// Who is told of changes.
type Told = Box<dyn FnMut(&Moved<'_>) + Send>;

/// What a change of the table moved.
#[derive(Clone, Copy, Debug)]
pub struct Moved<'a> {
    /// The steering from now on; its generation counts the changes.
    pub steering: &'a Steering,
    /// The entries that changed their bucket, ascending.
    pub entries: &'a [MovedEntry],
}

/// An entry that changed its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedEntry {
    /// The entry of the table.
    pub entry: usize,
    /// The bucket whose socket took its flows.
    pub from: Bucket,
    /// The bucket whose socket takes them from now on.
    pub to: Bucket,
}

/// Why a table was not taken. The group is steered as before then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The table names sockets that the group does not have.
    #[error("a table of {named} buckets for a group of {sockets} sockets: give one that names buckets 0 to {}", .sockets - 1)]
    Buckets {
        /// Buckets that the table names.
        named: usize,
        /// Sockets of the group.
        sockets: usize,
    },
    /// Tables of another size do not compare entry by entry.
    #[error("a table of {given} entries in place of one of {present}: give as many")]
    Size {
        /// Entries given.
        given: usize,
        /// Entries of the table in force.
        present: usize,
    },
    /// There is no program for it.
    #[error(transparent)]
    Steer(#[from] SteerError),
    /// The kernel did not take the program.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl SteeredGroup {
    /// The group of a member, of so many sockets, that is steered by `steering` already.
    ///
    /// # Errors
    /// When the member's descriptor cannot be duplicated.
    pub fn new(
        member: &impl AsFd,
        sockets: usize,
        families: Families,
        steering: Steering,
    ) -> io::Result<SteeredGroup> {
        Ok(SteeredGroup {
            member: member.as_fd().try_clone_to_owned()?,
            families,
            sockets,
            steering,
            told: Vec::new(),
        })
    }

    /// The steering in force.
    #[must_use]
    pub fn steering(&self) -> &Steering {
        &self.steering
    }

    /// Has `told` called after every change that moves entries, on the thread that changes the table.
    pub fn on_move(&mut self, told: impl FnMut(&Moved<'_>) + Send + 'static) {
        self.told.push(Box::new(told));
    }

    /// Steers by another table from now on, and tells how many entries that moved; none, and the kernel is not asked, when it
    /// is the same.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn change(&mut self, table: IndirectionTable) -> Result<usize, ChangeError> {
        let (named, sockets) = (table.buckets(), self.sockets);
        if named > sockets {
            return Err(ChangeError::Buckets { named, sockets });
        }
        let (given, present) = (table.size(), self.steering.table.size());
        if given != present {
            return Err(ChangeError::Size { given, present });
        }
        let pairs = self
            .steering
            .table
            .entries()
            .iter()
            .zip(table.entries())
            .enumerate();
        let entries: Vec<MovedEntry> = pairs
            .filter(|(_, (from, to))| from != to)
            .map(|(entry, (from, to))| MovedEntry {
                entry,
                from: *from,
                to: *to,
            })
            .collect();
        if entries.is_empty() {
            return Ok(0);
        }
        let steering = Steering {
            table,
            generation: self.steering.generation + 1,
            ..self.steering.clone()
        };
        program::attach(&self.member, &steer::program(&steering, self.families)?)?;
        self.steering = steering;
        let moved = Moved {
            steering: &self.steering,
            entries: &entries,
        };
        self.told.iter_mut().for_each(|told| told(&moved));
        Ok(entries.len())
    }
}

impl fmt::Debug for SteeredGroup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("SteeredGroup");
        debug
            .field("sockets", &self.sockets)
            .field("steering", &self.steering);
        debug.finish_non_exhaustive()
    }
}
