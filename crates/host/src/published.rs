//! Documents about what the kernel does not report: how a server's group of sockets is steered, and the frames of a device. The
//! process that steers publishes them in memory files (`memfd_create(2)`) among its descriptors, which `/proc` shows to every
//! process that may see these.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Seek, Write};

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::tree::Tree;

/// The name of the steering document of a group of sockets.
pub const OF_SOCKETS: &CStr = c"corelane-steering";

/// The name of the [`SoftwareRss`](crate::inventory::SoftwareRss) of a device.
pub const OF_DEVICE: &CStr = c"corelane-rss";

/// A document that other processes can read until this is dropped or the process ends.
#[derive(Debug)]
pub struct Published(File);

impl Published {
    /// Publishes the document with this name of a process, which has one.
    ///
    /// # Errors
    ///
    /// If the kernel denies memory.
    pub fn new(name: &CStr, document: &str) -> io::Result<Self> {
        let file = memfd_create(name, MFdFlags::MFD_CLOEXEC)?;
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

/// The document with this name that a process publishes; `None` if it publishes none or may not be read.
#[must_use]
pub fn published(process: u32, name: &CStr) -> Option<String> {
    let tree = Tree::machine();
    let file = format!("/memfd:{}", name.to_str().ok()?);
    let directory = format!("/proc/{process}/fd");
    let descriptors = tree.numbers(&directory, "").ok()?.into_iter();
    let mut paths = descriptors.map(|descriptor| format!("{directory}/{descriptor}"));
    let path = paths.find(|path| {
        let target = tree.link(path).unwrap_or_default();
        target.to_string_lossy().starts_with(&file)
    })?;
    tree.text(&path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_document_is_read_until_it_ends() {
        let mut held = Published::new(c"corelane-test", "the first of two").unwrap();
        let own = || published(std::process::id(), c"corelane-test");
        assert_eq!(own().as_deref(), Some("the first of two"));
        held.replace("the second").unwrap();
        assert_eq!(own().as_deref(), Some("the second"));
        drop(held);
        assert_eq!(own(), None);
    }
}
