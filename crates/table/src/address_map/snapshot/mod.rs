//! Snapshots: files of an address map, whose sections are the tables' memory.
//!
//! A page of header, then sections at multiples of 64 KiB (the largest base page in use), so that each can be mapped
//! where it lies. Everything is in the byte order of the machine that wrote it; the header says which.

mod header;
mod parts;

use super::{AddressMap, AddressWriter};
use crate::map::Map;
use crate::memory::{MemoryError, Placement};
use header::{Header, VERSION};
use parts::{SectionReader, SectionWriter};
use std::fs::File;
use std::io;
use thiserror::Error;

/// Where the tables of an opened snapshot live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotMemory {
    /// In the page cache, in base pages, until they are changed: nothing is copied.
    #[default]
    Mapped,
    /// In separate memory, with huge pages and a chosen node; opening copies the tables.
    Copied(Placement),
}

impl SnapshotMemory {
    /// Where tables that the map makes later live.
    pub(super) fn placement(self) -> Placement {
        match self {
            SnapshotMemory::Mapped => Placement::default(),
            SnapshotMemory::Copied(placement) => placement,
        }
    }
}

/// A snapshot was not written or not opened.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// The file could not be read or written.
    #[error("cannot read or write the snapshot: {0}")]
    File(#[from] io::Error),
    /// Another kind of file.
    #[error("this file is no table snapshot: make one from the text list")]
    NotASnapshot,
    /// Of another byte order.
    #[error(
        "this snapshot was made on a machine of the other byte order: make it again here from the text list"
    )]
    ByteOrder,
    /// Of another version.
    #[error(
        "this snapshot has version {0}, and version {VERSION} is read here: make it again from the text list"
    )]
    Version(u32),
    /// Shorter than its header says.
    #[error("this snapshot was cut off: it has {found} bytes of {expected}; copy it again")]
    CutOff {
        /// Its bytes.
        found: u64,
        /// As its header says.
        expected: u64,
    },
    /// A part contradicts its checksum or another part.
    #[error("this snapshot is damaged ({0}): copy it again, or make it again from the text list")]
    Damaged(String),
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

fn damaged(what: &str) -> SnapshotError {
    SnapshotError::Damaged(what.to_owned())
}

impl AddressMap {
    /// Writes the map to an empty file, in this machine's byte order, for [`AddressMap::open`]. Do not overwrite a file
    /// that may be open elsewhere: write a new one and rename it.
    ///
    /// # Errors
    /// What writing the file fails with.
    pub fn save(&self, file: &File) -> Result<(), SnapshotError> {
        let writer = &self.writer;
        let mut sections = SectionWriter::new(file, writer.v4.seed)?;
        sections.write_family(&writer.v4)?;
        sections.write_family(&writer.v6)?;
        sections.finish()
    }

    /// The map of a file that [`AddressMap::save`] wrote. Its checksums are checked, and that no part points outside.
    ///
    /// The entries of a mapped file are the page cache's until they are changed: a file that is cut short while it is
    /// mapped ends the process (`SIGBUS`), one that is overwritten gives wrong answers.
    ///
    /// # Errors
    /// When it is no snapshot, one of another version or byte order, or damaged; no memory.
    pub fn open(file: &File, memory: SnapshotMemory) -> Result<AddressMap, SnapshotError> {
        let header = Header::read(file)?;
        let mut writer = AddressWriter::new(header.seed, memory.placement());
        let sections = SectionReader { file, memory, header };
        sections.read_family(&mut writer.v4)?;
        sections.read_family(&mut writer.v6)?;
        writer.collect();
        Ok(Map::of_writer(writer))
    }
}
