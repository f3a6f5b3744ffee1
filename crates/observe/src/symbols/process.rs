//! The functions of one process, from the files that it has mapped.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Symbol;
use super::image::Image;

/// The executable mappings of a process, and the functions in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessSymbols {
    pub(crate) process: u32,
    mappings: Vec<Mapping>,
    images: HashMap<PathBuf, Image>,
}

/// One executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapping {
    addresses: Range<u64>,
    file_offset: u64,
    /// The path, or a name in brackets such as `[vdso]`, or empty.
    name: String,
}

impl ProcessSymbols {
    /// Reads the current mappings of `process`. Files are read when an address in them is looked up.
    pub(crate) fn read(process: u32) -> io::Result<Self> {
        let mut symbols = Self::unread(process);
        symbols.read_again()?;
        Ok(symbols)
    }

    pub(crate) fn unread(process: u32) -> Self {
        Self {
            process,
            ..Self::default()
        }
    }

    /// Adds new mappings.
    pub(crate) fn read_again(&mut self) -> io::Result<()> {
        let text = fs::read_to_string(format!("/proc/{}/maps", self.process))?;
        for mapping in text.lines().filter_map(parse_mapping) {
            if !self.mappings.contains(&mapping) {
                self.mappings.push(mapping);
            }
        }
        Ok(())
    }

    /// The function at `address`.
    pub(crate) fn find(&mut self, address: u64) -> Symbol {
        let mut mappings = self.mappings.iter();
        let Some(mapping) = mappings.find(|mapping| mapping.addresses.contains(&address)) else {
            return Symbol::new("[unknown]", None);
        };
        let path = Path::new(&mapping.name);
        if !path.is_absolute() {
            // The kernel's own pages (`[vdso]`) and code made at run time have no file.
            let image = if mapping.name.is_empty() {
                "[anonymous]"
            } else {
                &mapping.name
            };
            return Symbol::new(image, None);
        }
        let image = self.images.entry(path.to_owned());
        let image = image.or_insert_with(|| Image::read(path));
        let offset = (address - mapping.addresses.start).wrapping_add(mapping.file_offset);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Symbol::new(&name, image.function_at(offset).as_deref())
    }
}

/// `7f1e0c000000-7f1e0c021000 r-xp 00001000 fe:00 1234   /usr/lib/libc.so.6`, if it may be executed.
fn parse_mapping(line: &str) -> Option<Mapping> {
    let mut columns = line.splitn(6, ' ');
    let mut column = || columns.next().unwrap_or_default();
    let (addresses, permissions, offset) = (column(), column(), column());
    let (_device, _inode, name) = (column(), column(), column().trim_start());
    if !permissions.contains('x') {
        return None;
    }
    let (start, end) = addresses.split_once('-')?;
    let hexadecimal = |digits| u64::from_str_radix(digits, 16).ok();
    Some(Mapping {
        addresses: hexadecimal(start)?..hexadecimal(end)?,
        file_offset: hexadecimal(offset)?,
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn executable_mappings_are_read_with_their_file() {
        let line = "7f1e0c000000-7f1e0c021000 r-xp 00001000 fe:00 1234      /usr/lib/a library.so";
        let expected = Mapping {
            addresses: 0x7f1e_0c00_0000..0x7f1e_0c02_1000,
            file_offset: 0x1000,
            name: "/usr/lib/a library.so".to_owned(),
        };
        assert_eq!(parse_mapping(line), Some(expected));
        assert_eq!(parse_mapping(&line.replace("r-xp", "rw-p")), None);
        let vdso = parse_mapping("7ffd0000-7ffd2000 r-xp 00000000 00:00 0      [vdso]").unwrap();
        assert_eq!(vdso.name, "[vdso]");
    }

    #[test]
    fn a_function_of_this_program_is_found_by_its_address() {
        let mut symbols = ProcessSymbols::read(std::process::id()).unwrap();
        let address = a_function_of_this_program_is_found_by_its_address as fn() as usize as u64;
        let symbol = symbols.find(address);
        assert!(
            symbol
                .function
                .ends_with("a_function_of_this_program_is_found_by_its_address"),
            "{symbol:?}"
        );
        assert!(symbol.image.starts_with("corelane_observe"), "{symbol:?}");
        assert!(!symbols.find(8).is_resolved());
    }

    proptest! {
        #[test]
        fn no_line_makes_the_parser_panic(line in "[0-9a-f]{0,20}-?[0-9a-f]{0,20} ?[r-][w-][x-][ps]? ?\\PC{0,30}") {
            let _ = parse_mapping(&line);
        }
    }
}
