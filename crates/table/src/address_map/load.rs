//! An address map from a file of either kind: a snapshot, or else a list.

use super::{AddressMap, SnapshotError, SnapshotMemory};
use crate::list::{ListError, ListOptions, ListSummary};
use crate::mix::Seed;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use thiserror::Error;

/// The kind of file that a map was loaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// A snapshot.
    Snapshot,
    /// A list, with what was read of it.
    List(ListSummary),
}

/// A file could not be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// It could not be read.
    #[error("cannot read the list: {0}")]
    File(#[from] io::Error),
    /// It is a list, and a line is wrong, or there is no memory for it.
    #[error(transparent)]
    List(#[from] ListError),
    /// It is a snapshot that cannot be used.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// Opens the file of a list or snapshot, without waiting for the writer of a pipe.
///
/// # Errors
/// If it cannot be opened, or is a pipe, in which the reader cannot go back.
pub fn open_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::other(
            "a pipe, in which the reader cannot go back: save it to a file first",
        ));
    }
    Ok(file)
}

impl AddressMap {
    /// The map of a file that can be read from any place: of a snapshot as [`AddressMap::open`] gives it, of anything else
    /// as the list that it is (see [`AddressMap::from_list`]), in the memory that a copied snapshot would have.
    ///
    /// # Errors
    /// When it can neither be opened nor read as a list.
    pub fn load(
        mut file: &File,
        options: &ListOptions,
        seed: Seed,
        memory: SnapshotMemory,
    ) -> Result<(AddressMap, Loaded), LoadError> {
        match AddressMap::open(file, memory) {
            Ok(map) => {
                return match options.set.clone() {
                    None => Ok((map, Loaded::Snapshot)),
                    Some(name) => Err(ListError::NoSuchSet {
                        name,
                        found: Vec::new(),
                    }
                    .into()),
                };
            }
            Err(SnapshotError::NotASnapshot) => {}
            Err(error) => return Err(error.into()),
        }
        let mut text = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut text)?;
        let (map, summary) = AddressMap::from_list(&text, options, seed, memory.placement())?;
        Ok((map, Loaded::List(summary)))
    }
}
