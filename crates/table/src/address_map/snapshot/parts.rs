//! The sections of a snapshot: writes and reads the parts of each table, with checksums.

use super::error::{SnapshotError, damaged};
use super::header::{Header, Kind, Section};
use crate::address::Address;
use crate::address_map::family::FamilyWriter;
use crate::cuckoo::FEWEST_LINES;
use crate::exact::{ExactTable, ExactWriter};
use crate::memory::{Cell, Line, Placement, Region, Word, bytes_of};
use crate::mix::Seed;
use crate::prefix::{NODE_BITS, Nodes, PrefixSet, PrefixTable, PrefixWriter, cells_of_a_node};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    pub(in crate::address_map) fn placement(self) -> Placement {
        match self {
            SnapshotMemory::Mapped => Placement::default(),
            SnapshotMemory::Copied(placement) => placement,
        }
    }
}

/// What sections begin at multiples of: the largest base page of the machines that Linux runs on.
const ALIGNMENT: u64 = 64 << 10;
/// Words that are copied and summed at a time: a page, well inside the first-level cache.
const WORDS_AT_ONCE: usize = 512;

/// Writes sections one after the other.
pub(super) struct SectionWriter<'a> {
    file: &'a File,
    header: Header,
}

impl<'a> SectionWriter<'a> {
    /// The writer of an empty snapshot.
    pub(super) fn new(file: &'a File, seed: Seed) -> Result<SectionWriter<'a>, SnapshotError> {
        file.set_len(0)?;
        let header = Header {
            file_bytes: ALIGNMENT,
            seed,
            sections: Vec::new(),
        };
        Ok(SectionWriter { file, header })
    }

    /// Writes the tables of one family.
    pub(super) fn write_family<A: Address>(&mut self, family: &FamilyWriter<A>) -> Result<(), SnapshotError> {
        if let Some(hosts) = &family.hosts {
            let numbers = [hosts.table.seed.0, hosts.len as u64];
            self.write::<A>(Kind::HostLines, hosts.table.lines.words(), numbers)?;
            self.write::<A>(Kind::HostOverflowed, hosts.overflowed.words(), [0; 2])?;
        }
        if let Some(prefixes) = &family.prefixes {
            let passing = prefixes.nodes.passing.iter();
            let passing: Vec<_> = passing
                .map(|passing| AtomicU64::new(u64::from(*passing)))
                .collect();
            let used = passing.len() * cells_of_a_node(NODE_BITS) * size_of::<u32>() / size_of::<u64>();
            let list = prefixes.prefixes.to_region()?;
            for (kind, words) in [
                (Kind::PrefixRoot, prefixes.table.root.words()),
                (Kind::PrefixNodes, &prefixes.table.nodes.words()[..used]),
                (Kind::PrefixPassing, &passing),
                (Kind::PrefixList, list.words()),
            ] {
                self.write::<A>(kind, words, [0; 2])?;
            }
        }
        Ok(())
    }

    /// Writes the header: until then the file is no snapshot.
    pub(super) fn finish(self) -> Result<(), SnapshotError> {
        self.file.set_len(self.header.file_bytes)?;
        self.header.write(self.file)
    }

    /// Writes a section; parts of it that are zero become holes.
    fn write<A: Address>(
        &mut self,
        kind: Kind,
        words: &[AtomicU64],
        numbers: [u64; 2],
    ) -> Result<(), SnapshotError> {
        let offset = self.header.file_bytes;
        let mut at = offset;
        let mut file = self.file;
        let checksum = for_each_block(words, |bytes| {
            if bytes.iter().any(|byte| *byte != 0) {
                file.seek(SeekFrom::Start(at))?;
                file.write_all(bytes)?;
            }
            at += bytes.len() as u64;
            Ok(())
        })?;
        self.header.file_bytes = at.next_multiple_of(ALIGNMENT);
        self.header.sections.push(Section {
            kind: kind as u32,
            family: u32::from(A::BITS),
            offset,
            bytes: size_of_val(words) as u64,
            checksum,
            numbers,
        });
        Ok(())
    }
}

/// Reads sections by kind.
pub(super) struct SectionReader<'a> {
    pub(super) file: &'a File,
    pub(super) memory: SnapshotMemory,
    pub(super) header: Header,
}

impl SectionReader<'_> {
    /// Reads the tables of one family, if the file has any.
    pub(super) fn read_family<A: Address>(&self, family: &mut FamilyWriter<A>) -> Result<(), SnapshotError> {
        if let Some(lines) = self.header.section(Kind::HostLines, A::BITS) {
            family.hosts = Some(self.hosts(lines, family.placement)?);
        }
        if let Some(root) = self.header.section(Kind::PrefixRoot, A::BITS) {
            family.prefixes = Some(self.prefixes(root, family.placement)?);
        }
        Ok(())
    }

    fn hosts<A: Address>(
        &self,
        section: &Section,
        placement: Placement,
    ) -> Result<ExactWriter<A>, SnapshotError> {
        let ([seed, len], lines) = (section.numbers, self.region::<Line>(section)?);
        let overflowed: Region<u8> = self.require(Kind::HostOverflowed, A::BITS)?;
        if lines.len() < FEWEST_LINES as usize || u32::try_from(lines.len()).is_err() {
            return Err(damaged("a table has an impossible number of lines"));
        }
        if overflowed.len() != lines.len().next_multiple_of(size_of::<u64>()) {
            return Err(damaged("two parts of the exact table do not fit each other"));
        }
        Ok(ExactWriter {
            table: Arc::new(ExactTable::of_lines(lines, Seed(seed))),
            overflowed,
            len: len as usize,
            placement,
        })
    }

    fn prefixes<A: Address>(
        &self,
        root: &Section,
        placement: Placement,
    ) -> Result<PrefixWriter<A>, SnapshotError> {
        let cells = self.require(Kind::PrefixNodes, A::BITS)?;
        let passing: Region<AtomicU64> = self.require(Kind::PrefixPassing, A::BITS)?;
        let list = self.require(Kind::PrefixList, A::BITS)?;
        let nodes = Nodes::of_passing(passing.iter().map(|passing| passing.get() as u32).collect());
        let table = PrefixTable::of_regions(self.region(root)?, cells, nodes.used())
            .ok_or_else(|| damaged("parts of the prefix table do not fit each other"))?;
        Ok(PrefixWriter {
            table: Arc::new(table),
            nodes,
            prefixes: PrefixSet::of_region(list),
            placement,
        })
    }

    fn require<T: Cell>(&self, kind: Kind, family: u8) -> Result<Region<T>, SnapshotError> {
        let section = self.header.section(kind, family);
        self.region(section.ok_or_else(|| damaged("a section is missing"))?)
    }

    fn region<T: Cell>(&self, section: &Section) -> Result<Region<T>, SnapshotError> {
        let end = section.offset.checked_add(section.bytes);
        if end.is_none_or(|end| end > self.header.file_bytes) || !section.offset.is_multiple_of(ALIGNMENT) {
            return Err(damaged("a section is not where it can be"));
        }
        let count = usize::try_from(section.bytes).unwrap_or(usize::MAX) / size_of::<T>();
        let region = match self.memory {
            SnapshotMemory::Mapped => Region::of_file(self.file, section.offset, count)?,
            SnapshotMemory::Copied(placement) => {
                Region::read_from(self.file, section.offset, count, placement)?
            }
        };
        if for_each_block(region.words(), |_| Ok(()))? != section.checksum {
            return Err(damaged("a checksum is wrong"));
        }
        Ok(region)
    }
}

/// Gives the bytes of the words to `each`, some at a time, and their CRC-32.
fn for_each_block(
    words: &[AtomicU64],
    mut each: impl FnMut(&[u8]) -> Result<(), SnapshotError>,
) -> Result<u32, SnapshotError> {
    let mut checksum = crc32fast::Hasher::new();
    let mut block = [0; WORDS_AT_ONCE];
    for words in words.chunks(WORDS_AT_ONCE) {
        for (copy, word) in block.iter_mut().zip(words) {
            *copy = word.load(Ordering::Relaxed);
        }
        let bytes = bytes_of(&block[..words.len()]);
        checksum.update(bytes);
        each(bytes)?;
    }
    Ok(checksum.finalize())
}
