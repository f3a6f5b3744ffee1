//! Builds the guest's initramfs: busybox, the plan's programs with their libraries, its files, and an `init` that runs
//! the command.

use crate::archive::Archive;
use crate::plan::GuestPlan;
use crate::{GuestError, GuestParts};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prefix of the line with the command's exit status, unlikely in any other output.
pub(crate) const STATUS: &str = "corelane-guest-status:";

/// The init script. The terminal is raw, so line ends are unchanged; closing it waits until all output was sent.
const INIT: &str = "#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
ip link set lo up
stty -F /dev/ttyS0 raw
while read module; do insmod \"$module\" > /dev/ttyS1 2>&1; done < /modules/order
sh /command > /dev/ttyS0 2>&1 < /dev/null
echo \"corelane-guest-status: $?\" > /dev/ttyS0
poweroff -f
";

/// Writes the image into a memory file, so nothing is left on disk.
pub(crate) fn build(plan: &GuestPlan, parts: &GuestParts) -> Result<File, GuestError> {
    let fail = |cause: io::Error| GuestError::file(Path::new("the image"))(cause);
    let memory = memfd_create("corelane-guest", MFdFlags::MFD_CLOEXEC).map_err(|errno| fail(errno.into()))?;
    let mut archive = Archive::new(BufWriter::new(File::from(memory)));
    for directory in ["proc", "sys", "dev", "tmp"] {
        archive.directory(directory).map_err(fail)?;
    }
    // The kernel opens the console for init before devtmpfs is mounted.
    archive.character_device("dev/console", 5, 1).map_err(fail)?;
    archive.file("init", INIT.as_bytes()).map_err(fail)?;
    archive.file("command", plan.command.as_bytes()).map_err(fail)?;
    put(&mut archive, &parts.busybox, "bin/busybox")?;
    let mut order = String::new();
    for module in &plan.modules {
        let place = format!("modules/{}", name_of(module));
        put(&mut archive, module, &place)?;
        order.push_str(&format!("/{place}\n"));
    }
    archive.file("modules/order", order.as_bytes()).map_err(fail)?;
    let mut libraries = BTreeSet::new();
    for program in &plan.programs {
        put(&mut archive, program, &format!("bin/{}", name_of(program)))?;
        libraries.extend(libraries_of(program)?);
    }
    for library in &libraries {
        put(&mut archive, library, &library.to_string_lossy())?;
    }
    for file in &plan.files {
        put(&mut archive, &file.source, &file.target)?;
    }
    archive
        .finish()
        .and_then(|out| out.into_inner().map_err(io::IntoInnerError::into_error))
        .map_err(fail)
}

fn name_of(file: &Path) -> Cow<'_, str> {
    file.file_name().unwrap_or_default().to_string_lossy()
}

fn put<W: io::Write>(archive: &mut Archive<W>, source: &Path, target: &str) -> Result<(), GuestError> {
    let written = fs::read(source).and_then(|bytes| archive.file(target, &bytes));
    written.map_err(GuestError::file(source))
}

/// The shared libraries and the loader of a program, from `ldd`.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>, GuestError> {
    let listed = Command::new("ldd").arg(program).output();
    Ok(libraries_in(&listed.map_err(GuestError::file(program))?.stdout))
}

/// The paths in what `ldd` prints: `name => /path (address)` and `/path (address)`. A static program has none.
fn libraries_in(listed: &[u8]) -> Vec<PathBuf> {
    let path = |line: &[u8]| {
        let mut words = line.split(u8::is_ascii_whitespace);
        let path = words.find(|word| word.starts_with(b"/"))?;
        Some(PathBuf::from(OsStr::from_bytes(path)))
    };
    listed.split(|byte| *byte == b'\n').filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_what_ldd_names_by_path() {
        let listing = "\tlinux-vdso.so.1 (0x00007ffe)\n\
            \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(libraries_in(listing.as_bytes()), expected);
        assert!(libraries_in(b"\tnot a dynamic executable\n").is_empty());
    }

    #[test]
    fn init_tells_the_status_as_it_is_looked_for() {
        assert!(INIT.contains(&format!("echo \"{STATUS} $?\"")));
    }
}
