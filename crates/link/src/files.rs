//! The files that captures are written to: one a queue; and whether two names lead to one file.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The capture file of a queue: the first has the name given, others their number before its extension.
pub(crate) fn file_of(path: &Path, queue: usize) -> PathBuf {
    if queue == 0 {
        return path.to_owned();
    }
    let mut numbered = OsString::from(queue.to_string());
    if let Some(extension) = path.extension() {
        numbered.push(".");
        numbered.push(extension);
    }
    path.with_extension(numbered)
}

/// Whether `file` may be the capture of a queue beyond the first where that one's is `first`.
pub(crate) fn is_numbered(file: &Path, first: &Path) -> bool {
    let stem = match first.extension() {
        Some(_) => file.file_stem(),
        None => file.file_name(),
    };
    let number = stem
        .and_then(|stem| Path::new(stem).extension())
        .and_then(OsStr::to_str);
    let queue = number.and_then(|number| number.parse().ok());
    queue.is_some_and(|queue| queue > 0 && is_same_file(file, &file_of(first, queue)))
}

/// Whether two paths lead to one file, there already or not yet.
#[must_use]
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    // A file may have several names.
    let number = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let resolved = |path: &Path| resolved(path).unwrap_or_else(|_| path.to_owned());
    number(one).is_some_and(|one| number(other) == Some(one)) || resolved(one) == resolved(other)
}

fn resolved(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path).or_else(|error| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::canonicalize(folder.unwrap_or(Path::new(".")))?;
        Ok(folder.join(path.file_name().ok_or(error)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_queues_are_known_again_by_any_name() {
        for (first, second) in [
            ("seen.pcapng", "seen.1.pcapng"),
            ("a.b/seen", "a.b/seen.1"),
            ("a.b.c", "a.b.1.c"),
        ] {
            assert_eq!(file_of(Path::new(first), 0), Path::new(first));
            assert_eq!(file_of(Path::new(first), 1), Path::new(second));
            assert!(is_numbered(Path::new(second), Path::new(first)));
            assert!(!is_numbered(Path::new(first), Path::new(second)));
        }
        assert!(!is_numbered(
            Path::new("seen.1.pcapng"),
            Path::new("seen.0.pcapng")
        ));
        assert!(!is_numbered(Path::new("seen.0.pcapng"), Path::new("seen.pcapng")));
    }

    #[test]
    fn one_file_has_many_names() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there");
        fs::write(&there, "").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&there, &link).unwrap();
        assert!(is_same_file(&there, &link));
        assert!(is_same_file(&folder.path().join("./there"), &there));
        assert!(is_same_file(
            &folder.path().join("./new"),
            &folder.path().join("new")
        ));
        assert!(!is_same_file(&there, &folder.path().join("new")));
        assert!(is_same_file(Path::new("/none/a"), Path::new("/none/a")));
    }
}
