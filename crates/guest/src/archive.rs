//! Writes the initramfs archive of Linux: `newc` cpio, see `Documentation/driver-api/early-userspace/buffer-format.rst`
//! of the kernel.

use std::collections::BTreeSet;
use std::io::{self, Write};

/// `S_IFDIR`, `S_IFREG`, `S_IFCHR` of stat(2), with their permissions.
const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// The name of the trailer entry.
const TRAILER: &str = "TRAILER!!!";

/// Writes an archive, entry by entry.
pub(crate) struct Archive<W> {
    out: W,
    entries: u32,
    written: usize,
    directories: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(out: W) -> Self {
        Self {
            out,
            entries: 0,
            written: 0,
            directories: BTreeSet::new(),
        }
    }

    /// Adds a directory and its parents.
    pub(crate) fn directory(&mut self, path: &str) -> io::Result<()> {
        let path = path.trim_matches('/');
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for name in ends.map(|end| &path[..end]).filter(|name| !name.is_empty()) {
            if self.directories.insert(name.to_owned()) {
                self.entry(name, DIRECTORY, (0, 0), &[])?;
            }
        }
        Ok(())
    }

    /// Adds an executable file and its parent directories.
    pub(crate) fn file(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let name = path.trim_matches('/');
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.directory(parent)?;
        }
        self.entry(name, PROGRAM, (0, 0), bytes)
    }

    /// Adds a character device with its major and minor number.
    pub(crate) fn character_device(&mut self, path: &str, major: u32, minor: u32) -> io::Result<()> {
        self.entry(path.trim_matches('/'), CHARACTER_DEVICE, (major, minor), &[])
    }

    /// Ends the archive.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.entry(TRAILER, 0, (0, 0), &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), bytes: &[u8]) -> io::Result<()> {
        let too_large = |_| io::Error::new(io::ErrorKind::InvalidInput, "cpio holds files below 4 GiB");
        let length = u32::try_from(bytes.len()).map_err(too_large)?;
        self.entries += 1;
        let (inode, links, name_length) = (self.entries, 1, name.len() as u32 + 1);
        // uid, gid, time and checksum are 0, and so is the device that holds the file.
        let before = [inode, mode, 0, 0, links, 0, length, 0, 0];
        let fields = before.into_iter().chain([device.0, device.1, name_length, 0]);
        let digits: String = fields.map(|field| format!("{field:08X}")).collect();
        self.put(format!("070701{digits}{name}\0").as_bytes())?;
        self.align()?;
        self.put(bytes)?;
        self.align()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len();
        self.out.write_all(bytes)
    }

    /// Pads to a multiple of four, where headers and contents start.
    fn align(&mut self) -> io::Result<()> {
        let missing = self.written.next_multiple_of(4) - self.written;
        self.put(&[0; 3][..missing])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `(name, mode, bytes)` of every entry before the trailer.
    fn read(mut archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let whole = archive.len();
        let mut entries = Vec::new();
        loop {
            assert_eq!(&archive[..6], b"070701");
            assert_eq!((whole - archive.len()) % 4, 0);
            let field = |number: usize| {
                let digits = std::str::from_utf8(&archive[6 + 8 * number..14 + 8 * number]).unwrap();
                u32::from_str_radix(digits, 16).unwrap()
            };
            let (mode, length, name_length) = (field(1), field(6) as usize, field(11) as usize);
            let name = String::from_utf8(archive[110..110 + name_length - 1].to_vec()).unwrap();
            let start = (110 + name_length).next_multiple_of(4);
            if name == TRAILER {
                return entries;
            }
            entries.push((name, mode, archive[start..start + length].to_vec()));
            archive = &archive[(start + length).next_multiple_of(4)..];
        }
    }

    #[test]
    fn files_come_after_the_directories_they_are_in() {
        let mut archive = Archive::new(Vec::new());
        archive.file("/usr/lib/a.so", b"one").unwrap();
        archive.file("usr/lib/b.so", b"four").unwrap();
        archive.character_device("/null", 1, 3).unwrap();
        let entries = read(&archive.finish().unwrap());
        let expected = [
            ("usr", DIRECTORY, &b""[..]),
            ("usr/lib", DIRECTORY, b""),
            ("usr/lib/a.so", PROGRAM, b"one"),
            ("usr/lib/b.so", PROGRAM, b"four"),
            ("null", CHARACTER_DEVICE, b""),
        ];
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, mode, bytes)| ((*name).to_owned(), *mode, bytes.to_vec()))
            .collect();
        assert_eq!(entries, expected);
    }
}
