//! Kernel modules in the order in which they can be loaded.
//!
//! In: the guest's kernel and names of modules. Out: their files, each after its dependencies, which are read from its
//! `.modinfo` section: `modules.dep` exists only if the package is installed.

use crate::{GuestError, GuestParts};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Unpacks the modules.
const UNPACK: &str = "run tests/prepare.sh, which unpacks the modules of Debian's package linux-image-amd64";

impl GuestParts {
    /// The files of modules of the guest's kernel and of their dependencies, in load order.
    ///
    /// # Errors
    /// [`GuestError::Missing`] if a module is missing or compressed.
    pub fn modules(&self, names: &[&'static str]) -> Result<Vec<PathBuf>, GuestError> {
        let directory = self.module_directory();
        let mut files = BTreeMap::new();
        list(&directory, &mut files);
        let mut order = Vec::new();
        for name in names {
            add(name, name, &directory, &files, &mut order)?;
        }
        Ok(order)
    }

    /// The directory of the kernel's modules: `boot/vmlinuz-VERSION` and `lib/modules/VERSION` have the same parent.
    fn module_directory(&self) -> PathBuf {
        let name = self.kernel.file_name().unwrap_or_default().to_string_lossy();
        let version = name.strip_prefix("vmlinuz-").unwrap_or(&name);
        let root = self.kernel.ancestors().nth(2).unwrap_or(Path::new("/"));
        root.join("lib/modules").join(version)
    }
}

/// All modules below a directory, by name; `-` and `_` are equivalent in names.
fn list(directory: &Path, files: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "ko") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            files.insert(name.replace('-', "_"), path);
        }
    }
}

/// Adds a module after its dependencies. `wanted` is the requested module.
fn add(
    name: &str,
    wanted: &'static str,
    directory: &Path,
    files: &BTreeMap<String, PathBuf>,
    order: &mut Vec<PathBuf>,
) -> Result<(), GuestError> {
    let tried = || directory.join("**").join(format!("{name}.ko"));
    let missing = || GuestError::missing(wanted, &[tried()], UNPACK);
    let path = files.get(&name.replace('-', "_")).ok_or_else(missing)?;
    if order.contains(path) {
        return Ok(());
    }
    let bytes = fs::read(path).map_err(GuestError::file(path))?;
    for other in dependencies(&bytes) {
        add(&other, wanted, directory, files, order)?;
    }
    order.push(path.clone());
    Ok(())
}

/// The names in `depends=` of a module's `.modinfo`, whose entries are NUL-terminated (`modinfo(8)`).
fn dependencies(module: &[u8]) -> Vec<String> {
    let entry = module
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(b"depends="));
    let names = String::from_utf8_lossy(entry.unwrap_or_default()).into_owned();
    let names = names.split(',').filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_names_what_it_depends_on() {
        let module = b"\x7fELF\0license=GPL\0depends=virtio,net_failover,virtio_ring\0retpoline=Y\0";
        assert_eq!(dependencies(module), ["virtio", "net_failover", "virtio_ring"]);
        assert!(dependencies(b"depends=\0").is_empty());
    }

    #[test]
    fn a_module_comes_after_what_it_depends_on_and_once() {
        let folder = std::env::temp_dir().join(format!("corelane-modules-{}", std::process::id()));
        let modules = folder.join("lib/modules/6.1/kernel");
        fs::create_dir_all(&modules).unwrap();
        let write = |name: &str, depends: &str| {
            fs::write(
                modules.join(format!("{name}.ko")),
                format!("\0depends={depends}\0"),
            )
            .unwrap();
        };
        write("virtio_net", "net-failover,virtio");
        write("net_failover", "");
        write("virtio", "");
        let parts = GuestParts {
            qemu: PathBuf::new(),
            busybox: PathBuf::new(),
            setpriv: PathBuf::new(),
            kernel: folder.join("boot/vmlinuz-6.1"),
        };
        let order = parts.modules(&["virtio", "virtio_net"]).unwrap();
        let names: Vec<_> = order
            .iter()
            .map(|path| path.file_stem().unwrap().to_str().unwrap())
            .collect();
        let missing = parts.modules(&["igb"]).unwrap_err().to_string();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(names, ["virtio", "net_failover", "virtio_net"]);
        assert!(
            missing.contains("igb") && missing.contains("prepare.sh"),
            "{missing}"
        );
    }
}
