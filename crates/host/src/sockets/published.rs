//! The steering document of a server's group, which the kernel does not report: the server publishes it in a memory
//! file (`memfd_create(2)`) among its descriptors, which `/proc` shows to every process that may see its sockets.

use std::fs::File;
use std::io::{self, Seek, Write};

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::tree::Tree;

/// A document that other processes can read until this is dropped or the process ends.
#[derive(Debug)]
pub struct Published(File);

impl Published {
    /// Publishes the steering document of a process, which has one group.
    ///
    /// # Errors
    ///
    /// If the kernel denies memory.
    pub fn new(document: &str) -> io::Result<Self> {
        let file = memfd_create(c"corelane-steering", MFdFlags::MFD_CLOEXEC)?;
        let mut published = Self(file.into());
        published.replace(document)?;
        Ok(published)
    }

    /// Publishes a changed document.
    ///
    /// # Errors
    ///
    /// If the kernel denies memory.
    pub fn replace(&mut self, document: &str) -> io::Result<()> {
        self.0.rewind()?;
        self.0.write_all(document.as_bytes())?;
        self.0.set_len(document.len() as u64)
    }
}

/// The document that a process publishes; `None` if it publishes none or may not be read.
#[must_use]
pub fn published(process: u32) -> Option<String> {
    let tree = Tree::machine();
    let directory = format!("/proc/{process}/fd");
    let descriptors = tree.numbers(&directory, "").ok()?.into_iter();
    let mut paths = descriptors.map(|descriptor| format!("{directory}/{descriptor}"));
    let path = paths.find(|path| {
        let target = tree.link(path).unwrap_or_default();
        target.to_string_lossy().starts_with("/memfd:corelane-steering")
    })?;
    tree.text(&path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_document_is_read_until_it_ends() {
        let mut held = Published::new("the first of two").unwrap();
        let own = || published(std::process::id());
        assert_eq!(own().as_deref(), Some("the first of two"));
        held.replace("the second").unwrap();
        assert_eq!(own().as_deref(), Some("the second"));
        drop(held);
        assert_eq!(own(), None);
    }
}
