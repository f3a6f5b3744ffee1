//! The first page of a snapshot: what it is, and where its sections are.
//!
//! Words of eight bytes: the magic; the byte order mark and the version (four bytes each); the length of the file; the
//! seed of new tables; the number of sections; then eight words per section (kind and family, offset, bytes, checksum,
//! two numbers of its own, two spare); the last word is the checksum of those before.

use super::error::{SnapshotError, VERSION, damaged};
use crate::memory::bytes_of;
use crate::mix::Seed;
use std::array;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

/// Bytes of the header.
const BYTES: usize = 4096;
const WORDS: usize = BYTES / 8;
const MAGIC: u64 = u64::from_le_bytes(*b"corelane");
const BYTE_ORDER: u32 = 0x0102_0304;
const FIRST_SECTION_WORD: usize = 5;
const WORDS_OF_A_SECTION: usize = 8;
/// More sections than a map has: six for each family.
const MOST_SECTIONS: usize = 16;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// Lines of the exact table; the numbers are its seed and its entries.
    HostLines = 1,
    /// How many entries of each line are with their partners.
    HostOverflowed = 2,
    /// The root of the prefix table.
    PrefixRoot = 3,
    /// Its nodes.
    PrefixNodes = 4,
    /// How many prefixes go on in each node, a word each.
    PrefixPassing = 5,
    /// The prefixes, three words each.
    PrefixList = 6,
}

/// Where a section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// What it holds.
    pub(super) kind: u32,
    /// Bits of its family's addresses: 32 or 128.
    pub(super) family: u32,
    /// Its first byte in the file.
    pub(super) offset: u64,
    /// Its bytes.
    pub(super) bytes: u64,
    /// The CRC-32 of them, filled up to whole words.
    pub(super) checksum: u32,
    /// What its kind says.
    pub(super) numbers: [u64; 2],
}

/// A header.
#[derive(Debug)]
pub(super) struct Header {
    /// Bytes of the file.
    pub(super) file_bytes: u64,
    /// The seed of tables that the map makes later.
    pub(super) seed: Seed,
    /// All sections.
    pub(super) sections: Vec<Section>,
}

impl Header {
    /// Writes it to the beginning of the file.
    pub(super) fn write(&self, mut file: &File) -> Result<(), SnapshotError> {
        let mut words = [0; WORDS];
        words[0] = MAGIC;
        words[1] = u64::from(BYTE_ORDER) | u64::from(VERSION) << 32;
        words[2] = self.file_bytes;
        words[3] = self.seed.0;
        words[4] = self.sections.len() as u64;
        let rows = words[FIRST_SECTION_WORD..].chunks_mut(WORDS_OF_A_SECTION);
        for (row, section) in rows.zip(&self.sections) {
            row[0] = u64::from(section.kind) | u64::from(section.family) << 32;
            row[1] = section.offset;
            row[2] = section.bytes;
            row[3] = u64::from(section.checksum);
            row[4..6].copy_from_slice(&section.numbers);
        }
        words[WORDS - 1] = checksum(&words);
        file.seek(SeekFrom::Start(0))?;
        file.write_all(bytes_of(&words))?;
        Ok(())
    }

    /// Reads and checks it.
    pub(super) fn read(mut file: &File) -> Result<Header, SnapshotError> {
        let found = file.metadata()?.len();
        if found < BYTES as u64 {
            return Err(SnapshotError::NotASnapshot);
        }
        let mut bytes = [0; BYTES];
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut bytes)?;
        let (words, _) = bytes.as_chunks();
        let words: [u64; WORDS] = array::from_fn(|word| u64::from_ne_bytes(words[word]));
        let version = (words[1] >> 32) as u32;
        match (words[0], words[1] as u32) {
            (MAGIC, BYTE_ORDER) => {}
            (magic, _) if magic.swap_bytes() == MAGIC => {
                return Err(SnapshotError::ByteOrder);
            }
            _ => return Err(SnapshotError::NotASnapshot),
        }
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        if words[WORDS - 1] != checksum(&words) {
            return Err(damaged("the header's checksum is wrong"));
        }
        if found < words[2] {
            let expected = words[2];
            return Err(SnapshotError::CutOff(found, expected));
        }
        let count = usize::try_from(words[4]).unwrap_or(usize::MAX);
        if count > MOST_SECTIONS {
            return Err(damaged("it has too many sections"));
        }
        let rows = words[FIRST_SECTION_WORD..].chunks(WORDS_OF_A_SECTION);
        let sections = rows.take(count).map(|row| Section {
            kind: row[0] as u32,
            family: (row[0] >> 32) as u32,
            offset: row[1],
            bytes: row[2],
            checksum: row[3] as u32,
            numbers: [row[4], row[5]],
        });
        Ok(Header {
            file_bytes: words[2],
            seed: Seed(words[3]),
            sections: sections.collect(),
        })
    }

    /// The section of this kind and family.
    pub(super) fn section(&self, kind: Kind, family: u8) -> Option<&Section> {
        let is_it = |section: &&Section| section.kind == kind as u32 && section.family == u32::from(family);
        self.sections.iter().find(is_it)
    }
}

/// The checksum of a header without its last word.
fn checksum(words: &[u64; WORDS]) -> u64 {
    u64::from(crc32fast::hash(bytes_of(&words[..WORDS - 1])))
}
