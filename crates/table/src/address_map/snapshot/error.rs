//! Why a snapshot was not written or not opened.

use crate::memory::MemoryError;
use std::io;
use thiserror::Error;

/// Raised when the layout of the file, of a table's memory, or a mix changes.
pub(super) const VERSION: u32 = 1;

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
    #[error("this snapshot was cut off: it has {0} bytes of {1}; copy it again")]
    CutOff(u64, u64),
    /// A part contradicts its checksum or another part.
    #[error("this snapshot is damaged ({0}): copy it again, or make it again from the text list")]
    Damaged(String),
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

pub(super) fn damaged(what: &str) -> SnapshotError {
    SnapshotError::Damaged(what.to_owned())
}
