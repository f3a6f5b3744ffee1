//! The functions of one program or library, from the symbol tables of its ELF file.

use std::fs::File;
use std::path::Path;

use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};

use super::SymbolTable;

/// The functions of a file by their addresses in it, and where its segments are loaded from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    functions: SymbolTable<String>,
    segments: Vec<Segment>,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    file_offset: u64,
    file_size: u64,
    address: u64,
}

impl Image {
    /// Reads `file`. A file that is gone, not readable or not ELF has no functions: its addresses stay unresolved.
    pub(crate) fn read(file: &Path) -> Self {
        File::open(file)
            .ok()
            .and_then(|file| Self::parse(ReadCache::new(file)))
            .unwrap_or_default()
    }

    fn parse(cache: ReadCache<File>) -> Option<Self> {
        let file = object::File::parse(&cache).ok()?;
        let mut image = Self::default();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if symbol.kind() != SymbolKind::Text || symbol.is_undefined() {
                continue;
            }
            if let Ok(name) = symbol.name() {
                // Assembly often states no size: such a function reaches to the next.
                let size = Some(symbol.size()).filter(|size| *size > 0);
                image.functions.add(symbol.address(), size, name.to_owned());
            }
        }
        image.functions.sort(|name| name.len());
        image.segments = file
            .segments()
            .map(|segment| {
                let (file_offset, file_size) = segment.file_range();
                Segment {
                    file_offset,
                    file_size,
                    address: segment.address(),
                }
            })
            .collect();
        Some(image)
    }

    /// The function whose code lies at `offset` of the file, demangled without the hash that makes Rust's names unique.
    pub(crate) fn function_at(&self, offset: u64) -> Option<String> {
        let segment = self.segments.iter().find(|segment| {
            offset
                .checked_sub(segment.file_offset)
                .is_some_and(|inside| inside < segment.file_size)
        })?;
        let address = (offset - segment.file_offset).wrapping_add(segment.address);
        let name = self.functions.find(address)?;
        Some(format!("{:#}", rustc_demangle::demangle(name)))
    }
}
