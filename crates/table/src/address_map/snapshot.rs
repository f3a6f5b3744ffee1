//! The file of an address map: tables enter, a file leaves whose sections are the tables' memory, and the other way round.
//!
//! A page of header, then sections at multiples of 64 KiB (the largest base page in use), so that each can be mapped
//! where it lies. Everything is in the byte order of the machine that wrote it; the header says which.

mod header;
mod parts;

use super::AddressWriter;
use crate::memory::{MemoryError, Placement};
use header::Header;
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
    /// In memory of their own: huge pages and the node of one's choice, for the time of a copy.
    Copied(Placement),
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
    /// Made on a machine whose integers are the other way round.
    #[error(
        "this snapshot was made on a machine of the other byte order: make it again here from the text list"
    )]
    ByteOrder,
    /// Made by another version.
    #[error(
        "this snapshot has version {found}, and version {} is read here: make it again from the text list",
        header::VERSION
    )]
    Version {
        /// The file's.
        found: u32,
    },
    /// Shorter than it says.
    #[error("this snapshot was cut off: it has {found} bytes of {expected}; copy it again")]
    CutOff {
        /// Bytes by its header.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// A checksum is wrong, or parts do not fit each other.
    #[error("this snapshot is damaged ({what}): copy it again, or make it again from the text list")]
    Damaged {
        /// What is wrong with it.
        what: &'static str,
    },
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Writes all tables to an empty file.
pub(super) fn save(writer: &AddressWriter, file: &File) -> Result<(), SnapshotError> {
    let mut sections = SectionWriter::new(file)?;
    sections.write_family(&writer.v4)?;
    sections.write_family(&writer.v6)?;
    sections.finish()
}

/// The writer of the tables in a file.
pub(super) fn open(file: &File, memory: SnapshotMemory) -> Result<AddressWriter, SnapshotError> {
    let header = Header::read(file)?;
    let placement = match memory {
        SnapshotMemory::Mapped => Placement::default(),
        SnapshotMemory::Copied(placement) => placement,
    };
    let sections = SectionReader {
        file,
        memory,
        header: &header,
    };
    let mut writer = AddressWriter::new(header.seed, placement);
    sections.read_family(&mut writer.v4, placement)?;
    sections.read_family(&mut writer.v6, placement)?;
    writer.collect();
    Ok(writer)
}
