//! The files under a folder: takes a request path, returns an open file and its metadata.
//!
//! The kernel resolves the path and rejects everything outside the folder, whether by `..`, an absolute link or a race
//! (`openat2` with `RESOLVE_BENEATH`, Linux 5.6).

use super::output::SMALL;
use corelane_proto::http::answer;
use corelane_proto::http::date;
use corelane_proto::http::select::Representation;
use corelane_worker::Time;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long an open file is used before it is checked again: under load, changes take effect within one second.
const FRESH: Duration = Duration::from_secs(1);

/// Maximum number of cached open files: each uses a descriptor.
const MOST_KEPT: usize = 256;

/// A folder served by one worker.
pub(super) struct Files {
    root: File,
    /// Open files by path and query, with expiry time.
    kept: HashMap<Vec<u8>, (Arc<Found>, Time)>,
}

/// An open file.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) file: Arc<File>,
    /// The content, if small.
    pub(super) content: Option<Box<[u8]>>,
    pub(super) representation: Representation,
    /// The validators by which a client can make conditional and range requests.
    pub(super) validators: Vec<u8>,
    pub(super) content_type: &'static str,
    /// Time of the last modification, in seconds and nanoseconds.
    written: (i64, i64),
}

impl Found {
    /// Whether content and validators are still of one version. A small content was read with them; a large one is read
    /// from the file when it is sent.
    fn is_current(&self) -> bool {
        self.content.is_some() || self.check().is_ok()
    }

    /// Checks that the file is still the version that the validators are of.
    ///
    /// # Errors
    /// If it has been written since, or its metadata cannot be read.
    pub(super) fn check(&self) -> io::Result<()> {
        let now = self.file.metadata()?;
        let written = (now.mtime(), now.mtime_nsec());
        if (written, now.len()) == (self.written, self.representation.length) {
            Ok(())
        } else {
            Err(io::Error::other("the file has changed"))
        }
    }
}

impl Files {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let root = File::open(root)?;
        if !root.metadata()?.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        Ok(Self {
            root,
            kept: HashMap::new(),
        })
    }

    /// Opens the file of a path and query; the error is a status. `date` of the response is in seconds since the Unix epoch.
    pub(super) fn find(&mut self, path_and_query: &[u8], now: Time, date: u64) -> Result<Arc<Found>, u16> {
        if let Some((found, until)) = self.kept.get(path_and_query)
            && now < *until
            && found.is_current()
        {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(self.look(path_and_query, date)?);
        if self.kept.len() >= MOST_KEPT {
            self.kept.retain(|_, (_, until)| now < *until);
        }
        if self.kept.len() < MOST_KEPT {
            let kept = (Arc::clone(&found), now + FRESH);
            self.kept.insert(path_and_query.to_vec(), kept);
        }
        Ok(found)
    }

    fn look(&self, path_and_query: &[u8], date: u64) -> Result<Found, u16> {
        let path = path_and_query
            .split(|byte| *byte == b'?')
            .next()
            .unwrap_or_default();
        let mut path = decoded(path).ok_or(400u16)?;
        while path.first() == Some(&b'/') {
            path.remove(0);
        }
        if path.is_empty() || path.ends_with(b"/") {
            path.extend_from_slice(b"index.html");
        }
        let (mut file, mut metadata) = self.open_beneath(&path)?;
        if metadata.is_dir() {
            path.extend_from_slice(b"/index.html");
            (file, metadata) = self.open_beneath(&path)?;
        }
        // Excludes devices and pipes, whose reads may block.
        if !metadata.is_file() {
            return Err(404);
        }
        // Never later than the response (RFC 9110 8.8.2.1).
        let modified = u64::try_from(metadata.mtime()).unwrap_or(0).min(date);
        // A strong validator (RFC 9110 8.8.1). Another file that takes the name may have the same size and time of
        // modification, which programs also set.
        let tag = format!(
            "\"{:x}-{:x}-{:x}-{:x}-{:x}-{:x}\"",
            metadata.ino(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
            metadata.len()
        );
        let mut validators = Vec::new();
        answer::field(&mut validators, "ETag", tag.as_bytes());
        answer::field(&mut validators, "Last-Modified", date::write(modified).as_bytes());
        answer::field(&mut validators, "Accept-Ranges", b"bytes");
        let mut found = Found {
            content: None,
            file: Arc::new(file),
            representation: Representation {
                length: metadata.len(),
                tag,
                modified,
            },
            validators,
            content_type: content_type(&path),
            written: (metadata.mtime(), metadata.mtime_nsec()),
        };
        found.content = content(&found);
        Ok(found)
    }

    fn open_beneath(&self, path: &[u8]) -> Result<(File, Metadata), u16> {
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let file = openat2(&self.root, path, how).map_err(status)?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(|_| 500u16)?;
        Ok((file, metadata))
    }
}

/// The content of a small file: copying it into a response is cheaper than sending it from the kernel. `None` if the
/// file has changed meanwhile.
fn content(found: &Found) -> Option<Box<[u8]>> {
    let length = found.representation.length;
    let mut content = vec![0; usize::try_from(length).ok().filter(|_| length <= SMALL)?];
    found.file.read_exact_at(&mut content, 0).ok()?;
    found.check().ok()?;
    Some(content.into_boxed_slice())
}

fn status(errno: Errno) -> u16 {
    match errno {
        Errno::EACCES | Errno::EPERM => 403,
        Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM => 503,
        Errno::ENOSYS => 500,
        _ => 404,
    }
}

/// Decodes percent-encoding (RFC 3986 2.1); `None` if it is invalid or contains NUL.
fn decoded(path: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(path.len());
    let mut bytes = path.iter();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'%' => {
                let mut digit = || char::from(*bytes.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            byte => *byte,
        };
        if byte == 0 {
            return None;
        }
        plain.push(byte);
    }
    Some(plain)
}

/// By file name extension; `application/octet-stream` if unknown.
fn content_type(path: &[u8]) -> &'static str {
    let name = String::from_utf8_lossy(path).to_ascii_lowercase();
    match name.rsplit_once('.').map_or("", |(_, end)| end) {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "txt" | "md" | "log" => "text/plain; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "xml" => "text/xml; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "ico" => "image/x-icon",
        "wasm" => "application/wasm",
        "pdf" => "application/pdf",
        "gz" => "application/gzip",
        "zip" => "application/zip",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_folder_is_found() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(outer.path().join("secret"), "s").unwrap();
        std::fs::write(root.join("sub/a b.html"), "inside").unwrap();
        std::fs::write(root.join("sub/index.html"), "index").unwrap();
        std::os::unix::fs::symlink("../../secret", root.join("sub/link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("absolute")).unwrap();
        std::os::unix::fs::symlink("a b.html", root.join("sub/inside")).unwrap();
        let mut files = Files::open(&root).unwrap();
        let mut find = |path: &str| {
            files
                .find(path.as_bytes(), Time::default(), 0)
                .map(|found| found.representation.length)
        };
        assert_eq!(find("/sub/a%20b.html?x"), Ok(6));
        assert_eq!(
            (find("/sub"), find("/sub/"), find("//sub/inside")),
            (Ok(5), Ok(5), Ok(6))
        );
        for path in [
            "/../secret",
            "/sub/../../secret",
            "/%2e%2e/secret",
            "/..%2fsecret",
            "/sub/link",
            "/absolute",
            "//etc/passwd",
            "/nothing",
        ] {
            assert_eq!(find(path), Err(404), "{path}");
        }
        assert_eq!(
            (find("/%00"), find("/%zz"), find("/%4")),
            (Err(400), Err(400), Err(400))
        );
    }

    #[test]
    fn a_file_is_kept_for_a_moment_and_then_looked_at_again() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.txt");
        std::fs::write(&path, "one").unwrap();
        let mut files = Files::open(root.path()).unwrap();
        let first = files.find(b"/a.txt", Time::default(), 7).unwrap();
        assert_eq!(first.content_type, "text/plain; charset=utf-8");
        assert_eq!(first.representation.modified, 7, "it is newer than the response");
        std::fs::remove_file(&path).unwrap();
        let again = files.find(b"/a.txt", Time::default() + FRESH / 2, 8).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(
            files.find(b"/a.txt", Time::default() + FRESH, 9).map(|_| ()),
            Err(404)
        );
    }

    #[test]
    fn another_file_of_the_same_name_size_and_time_has_another_tag() {
        let root = tempfile::tempdir().unwrap();
        let (path, other) = (root.path().join("a"), root.path().join("b"));
        let mut files = Files::open(root.path()).unwrap();
        let mut tag = |now| files.find(b"/a", now, 7).unwrap().representation.tag.clone();
        let modified = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        for (path, content) in [(&path, "one"), (&other, "two")] {
            std::fs::write(path, content).unwrap();
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(modified).unwrap();
        }
        let first = tag(Time::default());
        std::fs::rename(&other, &path).unwrap();
        assert_ne!(tag(Time::default() + FRESH), first);
    }
}
