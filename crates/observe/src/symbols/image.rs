//! The functions of one program or library, from the symbol tables of its ELF file.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};

use super::SymbolTable;

/// The functions of a file by their addresses in it, and where its segments are loaded from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    functions: SymbolTable<String>,
    /// Stretches of the file, and the address of each.
    segments: Vec<(Range<u64>, u64)>,
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
        let segments = file.segments().map(|segment| {
            let (start, size) = segment.file_range();
            (start..start.saturating_add(size), segment.address())
        });
        image.segments = segments.collect();
        Some(image)
    }

    /// The function whose code lies at `offset` of the file, demangled without the hash that makes Rust's names unique.
    pub(crate) fn function_at(&self, offset: u64) -> Option<String> {
        let mut segments = self.segments.iter();
        let (held, start) = segments.find(|(held, _)| held.contains(&offset))?;
        let address = (offset - held.start).wrapping_add(*start);
        let name = self.functions.find(address)?;
        Some(format!("{:#}", rustc_demangle::demangle(name)))
    }
}
