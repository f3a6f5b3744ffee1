//! Snapshots: files of an address map, whose sections are the tables' memory.
//!
//! A page of header, then sections at multiples of 64 KiB (the largest base page in use), so that each can be mapped
//! where it lies. Everything is in the byte order of the machine that wrote it; the header says which.

mod error;
mod header;
mod parts;

pub use error::SnapshotError;
pub use parts::SnapshotMemory;

use super::{AddressMap, AddressWriter};
use crate::map::Map;
use header::Header;
use parts::{SectionReader, SectionWriter};
use std::fs::File;

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
