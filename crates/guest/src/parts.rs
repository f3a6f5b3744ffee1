//! Finds the programs and the kernel of a guest on this machine.

use crate::GuestError;
use std::path::{Path, PathBuf};

/// Installs the packages.
const INSTALL: &str = "apt-get install --no-install-recommends qemu-system-x86 busybox-static util-linux";

/// Unpacks the kernel without installing it.
const UNPACK: &str = "run tests/prepare.sh, which unpacks Debian's package linux-image-amd64 there";

/// The programs and the kernel of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestParts {
    /// The emulator.
    pub qemu: PathBuf,
    /// A shell and its tools in one static file.
    pub busybox: PathBuf,
    /// Starts the emulator and kills it when the calling thread ends (`setpriv --pdeathsig`).
    pub setpriv: PathBuf,
    /// The kernel, a `bzImage`.
    pub kernel: PathBuf,
}

impl GuestParts {
    /// Searches Debian's directories for the programs, and for the newest kernel `vmlinuz-*-amd64`, first in the user's
    /// cache directory (`$XDG_CACHE_HOME`, or `$HOME/.cache`), where `tests/prepare.sh` unpacks it into a directory named after
    /// its package, then in Debian's. It has consoles and NUMA built in.
    ///
    /// # Errors
    /// [`GuestError::Missing`], which names the package.
    pub fn find() -> Result<Self, GuestError> {
        Ok(Self {
            qemu: program("an x86-64 emulator", &["/usr/bin/qemu-system-x86_64"], INSTALL)?,
            busybox: program(
                "busybox as one static file",
                &["/bin/busybox", "/usr/bin/busybox"],
                INSTALL,
            )?,
            setpriv: program("setpriv", &["/usr/bin/setpriv", "/bin/setpriv"], INSTALL)?,
            kernel: kernel(&kernel_directories())?,
        })
    }
}

fn kernel_directories() -> Vec<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(home);
    let unpacked = cache.map(|cache| cache.join("corelane/guest/linux-image-amd64/boot"));
    unpacked.into_iter().chain([PathBuf::from("/boot")]).collect()
}

fn program(what: &'static str, places: &[&str], fix: &'static str) -> Result<PathBuf, GuestError> {
    let tried: Vec<PathBuf> = places.iter().map(PathBuf::from).collect();
    let found = tried.iter().find(|path| path.is_file()).cloned();
    found.ok_or_else(|| GuestError::missing(what, &tried, fix))
}

fn kernel(directories: &[PathBuf]) -> Result<PathBuf, GuestError> {
    let found = directories.iter().find_map(|directory| newest(directory));
    found.ok_or_else(|| GuestError::missing("a kernel (vmlinuz-*-amd64)", directories, UNPACK))
}

/// The most recently written kernel: version numbers do not sort as text.
fn newest(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let kernels = entries.filter_map(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let written = entry.metadata().ok()?.modified().ok()?;
        let is_one = name.starts_with("vmlinuz-") && name.ends_with("-amd64");
        is_one.then(|| (written, entry.path()))
    });
    kernels.max().map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_part_is_named_with_the_places_and_what_brings_it() {
        let nowhere = vec![PathBuf::from("/nowhere/boot")];
        let missing = kernel(&nowhere).unwrap_err().to_string();
        assert!(
            missing.contains("/nowhere/boot") && missing.contains("linux-image-amd64"),
            "{missing}"
        );
        let missing = program("an emulator", &["/nowhere/qemu"], INSTALL).unwrap_err();
        assert!(missing.to_string().contains("apt-get install"), "{missing}");
    }
}
