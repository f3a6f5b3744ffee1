//! Reads the kernel's file trees. Input: an absolute path such as `/sys/devices/system/cpu/online`. Output: its text,
//! or an error that names the path.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fs, io};

use crate::HostError;
use crate::cpus::list;

/// The root directory of `proc`, `sys` and `boot`: `/`, or a directory that holds a recorded machine.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn machine() -> Self {
        Self::at(Path::new("/"))
    }

    pub(crate) fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The text of a file, without trailing white space.
    pub(crate) fn text(&self, path: &str) -> Result<String, HostError> {
        let bytes = self.bytes(path)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    pub(crate) fn bytes(&self, path: &str) -> Result<Vec<u8>, HostError> {
        fs::read(self.locate(path)).map_err(|cause| HostError::read(path, cause))
    }

    /// `length` bytes of a file from `offset` on.
    pub(crate) fn part(&self, path: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        fs::File::open(self.locate(path))?.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    pub(crate) fn value<T: FromStr>(&self, path: &str, expected: &'static str) -> Result<T, HostError> {
        let text = self.text(path)?;
        text.parse().map_err(|_| HostError::format(path, expected, &text))
    }

    pub(crate) fn list(&self, path: &str) -> Result<Vec<u32>, HostError> {
        let text = self.text(path)?;
        list::parse(&text).ok_or_else(|| HostError::format(path, "a list such as 0-3,8", &text))
    }

    /// The value, in bytes, of a line such as `Slab:  1024 kB`.
    pub(crate) fn kibibytes(&self, path: &'static str, name: &str) -> Result<u64, HostError> {
        kibibytes(&self.text(path)?, name).ok_or_else(|| HostError::missing(path, name))
    }

    /// The names in a directory, sorted.
    pub(crate) fn names(&self, path: &str) -> Result<Vec<String>, HostError> {
        let entries = fs::read_dir(self.locate(path)).and_then(|entries| {
            let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            names.collect::<io::Result<Vec<_>>>()
        });
        let mut names = entries.map_err(|cause| HostError::read(path, cause))?;
        names.sort();
        Ok(names)
    }

    /// The numbers after `prefix` in the names of a directory, ascending: processes, threads, queues.
    pub(crate) fn numbers(&self, path: &str, prefix: &str) -> Result<BTreeSet<u32>, HostError> {
        let names = self.names(path)?;
        let numbers = names
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok());
        Ok(numbers.collect())
    }

    /// The target of a symbolic link; `None` if it is not a link or cannot be read.
    pub(crate) fn link(&self, path: &str) -> Option<PathBuf> {
        fs::read_link(self.locate(path)).ok()
    }

    fn locate(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

/// Facts of the machine's memory, in KiB (`proc_meminfo(5)`).
pub(crate) const MEMINFO: &str = "/proc/meminfo";

/// The file of a setting by its dotted name.
pub(crate) fn setting_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// The text after the first `name:` of a text of such lines.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim)
}

/// The same, converted from KiB to bytes.
pub(crate) fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let number = field(text, name)?.split_whitespace().next()?;
    number.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
pub(crate) mod recorded {
    //! Recorded machines: file trees that tests read instead of a real machine.

    use std::fs;

    use super::Tree;

    /// A recorded machine, removed when dropped.
    pub(crate) struct Recorded {
        directory: tempfile::TempDir,
    }

    impl Recorded {
        /// Writes `(path, text)` pairs below a new directory.
        pub(crate) fn new<P: AsRef<str>, T: AsRef<str>>(files: impl IntoIterator<Item = (P, T)>) -> Self {
            let recorded = Self {
                directory: tempfile::tempdir().unwrap(),
            };
            for (path, text) in files {
                recorded.write(path.as_ref(), text.as_ref());
            }
            recorded
        }

        /// Writes one file, and the directories above it.
        pub(crate) fn write(&self, path: &str, text: &str) {
            let place = self.directory.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, text).unwrap();
        }

        /// The tree to read.
        pub(crate) fn tree(&self) -> Tree {
            Tree::at(self.directory.path())
        }
    }
}
