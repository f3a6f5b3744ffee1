//! Reading the kernel's file trees. What enters: a path from the root, such as `/sys/devices/system/cpu/online`.
//! What leaves: its text, or an error that names it.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::HostError;

/// A root under which `proc`, `sys` and `boot` are found: `/`, or a directory that holds a recorded machine.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The machine this process runs on.
    pub(crate) fn machine() -> Self {
        Self::at(Path::new("/"))
    }

    /// A tree under `root`.
    pub(crate) fn at(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The text of a file, without white space at its end.
    pub(crate) fn text(&self, path: &str) -> Result<String, HostError> {
        let bytes = self.bytes(path)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// The bytes of a file.
    pub(crate) fn bytes(&self, path: &str) -> Result<Vec<u8>, HostError> {
        fs::read(self.locate(path)).map_err(|cause| read_error(path, cause))
    }

    /// The one value a file holds.
    pub(crate) fn value<T: FromStr>(&self, path: &str, expected: &'static str) -> Result<T, HostError> {
        let text = self.text(path)?;
        text.parse().map_err(|_| HostError::format(path, expected, &text))
    }

    /// The names in a directory, sorted.
    pub(crate) fn names(&self, path: &str) -> Result<Vec<String>, HostError> {
        let entries = fs::read_dir(self.locate(path)).map_err(|cause| read_error(path, cause))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|cause| read_error(path, cause))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// What a symbolic link names; `None` for what is no link or cannot be read.
    pub(crate) fn link(&self, path: &str) -> Option<PathBuf> {
        fs::read_link(self.locate(path)).ok()
    }

    fn locate(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

fn read_error(path: &str, cause: std::io::Error) -> HostError {
    HostError::Read {
        path: path.to_owned(),
        cause,
    }
}

#[cfg(test)]
pub(crate) mod recorded {
    //! Machines written down as files, so that what this room reads can be tested away from them.

    use std::fs;

    use super::Tree;

    /// A recorded machine, removed when dropped.
    pub(crate) struct Recorded {
        directory: tempfile::TempDir,
    }

    impl Recorded {
        /// Writes `(path, text)` pairs under a fresh directory.
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
