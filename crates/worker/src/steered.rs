//! A group whose table changes while it serves: new tables move entries from bucket to bucket, and subscribers are
//! notified of the moves.
//!
//! Like FreeBSD's RSS when buckets move ("Application awareness of receive side scaling (RSS) on FreeBSD"), for
//! sockets. Datagrams and new connections follow the new table as soon as it is set; datagrams already queued at a
//! socket are served there, and connections stay where they were accepted. Nothing is lost in the exchange: see
//! [`program::attach`](crate::program::attach).

use crate::program::{self, ProgramError};
use corelane_rss::steer::{self, Families, Program, SteerError};
use corelane_rss::{Bucket, IndirectionTable, InputError, Steering};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A group steered by a replaceable table.
pub struct SteeredGroup {
    /// Any member of each group of sockets that the table steers; it represents its group.
    members: Vec<(OwnedFd, Families)>,
    sockets: usize,
    /// By bucket, the index of its socket in the group; `None` if they are equal.
    places: Option<Vec<u16>>,
    steering: Steering,
    callbacks: Vec<Callback>,
}

/// A subscriber to changes.
type Callback = Box<dyn FnMut(&Moved<'_>) + Send>;

/// The changes made by a new table.
#[derive(Clone, Copy, Debug)]
pub struct Moved<'a> {
    /// The new steering; its generation counts the changes.
    pub steering: &'a Steering,
    /// The entries whose bucket changed, ascending.
    pub entries: &'a [MovedEntry],
}

/// An entry whose bucket changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedEntry {
    /// The entry of the table.
    pub entry: usize,
    /// The old bucket.
    pub from: Bucket,
    /// The new bucket.
    pub to: Bucket,
}

/// Why a table was rejected. The group is steered as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The table names sockets that the group does not have.
    #[error("a table of {named} buckets for a group of {sockets} sockets: use only buckets 0 to {}", .sockets - 1)]
    Buckets {
        /// Buckets in the table.
        named: usize,
        /// Sockets of the group.
        sockets: usize,
    },
    /// Tables of different sizes cannot be compared entry by entry.
    #[error("a table of {given} entries cannot replace one of {present}: use {present} entries")]
    Size {
        /// Entries given.
        given: usize,
        /// Entries of the table in force.
        present: usize,
    },
    /// The loads do not fit the table.
    #[error(transparent)]
    Loads(#[from] InputError),
    /// No program can implement it.
    #[error(transparent)]
    Steer(#[from] SteerError),
    /// The kernel rejected the program.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl SteeredGroup {
    /// The group of `member`, with this number of sockets, already steered by `steering`.
    ///
    /// # Errors
    /// If the member's descriptor cannot be duplicated.
    pub fn new(
        member: &impl AsFd,
        sockets: usize,
        families: Families,
        steering: Steering,
    ) -> io::Result<SteeredGroup> {
        Ok(SteeredGroup {
            members: vec![(member.as_fd().try_clone_to_owned()?, families)],
            sockets,
            places: None,
            steering,
            callbacks: Vec::new(),
        })
    }

    /// Steers the group of `member`, too: as many sockets on another address or of another protocol, in the same order and already
    /// steered by the same table.
    ///
    /// # Errors
    /// If the member's descriptor cannot be duplicated.
    pub fn also(&mut self, member: &impl AsFd, families: Families) -> io::Result<()> {
        self.members
            .push((member.as_fd().try_clone_to_owned()?, families));
        Ok(())
    }

    /// The group whose bucket *i* is the socket of index `places[i]`.
    #[must_use]
    pub fn placed(self, places: Vec<u16>) -> SteeredGroup {
        SteeredGroup {
            sockets: places.len(),
            places: Some(places),
            ..self
        }
    }

    /// Number of its sockets that are buckets.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.sockets
    }

    /// The current steering.
    #[must_use]
    pub fn steering(&self) -> &Steering {
        &self.steering
    }

    /// Calls `callback` after every change that moves entries, on the thread that changes the table.
    pub fn on_move(&mut self, callback: impl FnMut(&Moved<'_>) + Send + 'static) {
        self.callbacks.push(Box::new(callback));
    }

    /// Replaces the table and returns the number of moved entries: 0, without a system call, if it is the same.
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
        self.attach(&steering)?;
        self.steering = steering;
        let moved = Moved {
            steering: &self.steering,
            entries: &entries,
        };
        self.callbacks.iter_mut().for_each(|callback| callback(&moved));
        Ok(entries.len())
    }

    /// Attaches the programs of this steering to all groups. If one is rejected, those before get the present one back.
    fn attach(&self, steering: &Steering) -> Result<(), ChangeError> {
        let programs = self.programs(steering)?;
        let failed =
            self.members
                .iter()
                .zip(&programs)
                .enumerate()
                .find_map(|(index, ((member, _), program))| {
                    Some((index, program::attach(member, program).err()?))
                });
        let Some((index, error)) = failed else {
            return Ok(());
        };
        for ((member, _), program) in self.members[..index].iter().zip(&self.programs(&self.steering)?) {
            program::attach(member, program)?;
        }
        Err(error.into())
    }

    /// The program of each group.
    fn programs(&self, steering: &Steering) -> Result<Vec<Program>, ChangeError> {
        let in_group = self
            .places
            .as_deref()
            .map_or(Ok(steering.clone()), |places| at_places(steering, places))?;
        let programs = self
            .members
            .iter()
            .map(|(_, families)| steer::program(&in_group, *families));
        Ok(programs.collect::<Result<_, _>>()?)
    }
}

/// The steering with group indices in place of buckets: a program returns group indices.
///
/// # Errors
/// None: the table keeps its size.
pub fn at_places(steering: &Steering, places: &[u16]) -> Result<Steering, InputError> {
    let entries = steering.table.entries().iter();
    let table = entries
        .map(|bucket| Bucket::new(places[bucket.index()]))
        .collect();
    Ok(Steering {
        table: IndirectionTable::from_entries(table)?,
        ..steering.clone()
    })
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
