//! Conditions of the kernel: its release, and the debugging built into it.

use std::io::Read;

use flate2::read::GzDecoder;

use super::condition::{About, Condition, Severity};
use crate::HostError;
use crate::tree::Tree;

/// Kernel release, such as `6.18.44`.
pub(super) fn release(tree: &Tree) -> Result<String, HostError> {
    tree.text("/proc/sys/kernel/osrelease")
}

const PACKED: &str = "/proc/config.gz";

/// Options that check or record at run time on paths that every frame takes: locks, memory, lists, lists of objects.
/// They distort the measurement (`lib/Kconfig.debug`, `mm/Kconfig.debug` and the help of each).
const HEAVY: [&str; 21] = [
    "DEBUG_ATOMIC_SLEEP",
    "DEBUG_KMEMLEAK",
    "DEBUG_LOCK_ALLOC",
    "DEBUG_MUTEXES",
    "DEBUG_NET",
    "DEBUG_OBJECTS",
    "DEBUG_PAGEALLOC_ENABLE_DEFAULT",
    "DEBUG_PREEMPT",
    "DEBUG_SPINLOCK",
    "DEBUG_VM",
    "FAULT_INJECTION",
    "GCOV_KERNEL",
    "KASAN",
    "KCOV",
    "KCSAN",
    "KMSAN",
    "LOCKDEP",
    "LOCK_STAT",
    "PROVE_LOCKING",
    "PROVE_RCU",
    "SLUB_DEBUG_ON",
];

/// Options that distributions enable and that still cost time per frame.
const LIGHT: [&str; 7] = [
    "DEBUG_LIST",
    "INIT_ON_ALLOC_DEFAULT_ON",
    "INIT_ON_FREE_DEFAULT_ON",
    "KFENCE",
    "PREEMPT_RT",
    "SLUB_TINY",
    "UBSAN",
];

/// A kernel configuration is about 0.1 MB; a file that unpacks to more than this is rejected.
const LONGEST_CONFIGURATION: u64 = 4 << 20;

/// Which of the options above this kernel was built with.
pub(super) fn debug_options(tree: &Tree, release: Option<&str>) -> Condition {
    let configuration = configuration(tree, release);
    let found = configuration.as_ref().map(|(text, _)| {
        let built_in = |options: &[&'static str]| -> Vec<&str> {
            let set = |option: &&&str| text.lines().any(|line| line == format!("CONFIG_{option}=y"));
            options.iter().filter(set).copied().collect()
        };
        let (heavy, light) = (built_in(&HEAVY), built_in(&LIGHT));
        match (heavy.is_empty(), light.is_empty()) {
            (false, _) => ([heavy, light].concat().join(", "), Severity::Spoils),
            (true, false) => (light.join(", "), Severity::Explains),
            (true, true) => ("none".to_owned(), Severity::Fine),
        }
    });
    About {
        name: "kernel debug options",
        source: configuration.as_ref().map_or(PACKED, |(_, path)| path),
        why: "checks built into the kernel cost time per frame",
        fix: "boot a kernel built without them",
    }
    .found(found.ok_or("no kernel configuration in /proc/config.gz nor in /boot"))
}

/// The text of this kernel's configuration and its path.
fn configuration(tree: &Tree, release: Option<&str>) -> Option<(String, String)> {
    if let Ok(bytes) = tree.bytes(PACKED) {
        let mut text = String::new();
        let unpacked = GzDecoder::new(bytes.as_slice())
            .take(LONGEST_CONFIGURATION)
            .read_to_string(&mut text);
        if unpacked.is_ok() {
            return Some((text, PACKED.to_owned()));
        }
    }
    let release = release?;
    [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
    ]
    .into_iter()
    .find_map(|path| Some((tree.text(&path).ok()?, path)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::tree::recorded::Recorded;

    const DEBUGGING: &str =
        "CONFIG_UBSAN=y\nCONFIG_PROVE_LOCKING=y\n# CONFIG_KASAN is not set\nCONFIG_KASAN_X=y\n";

    #[test]
    fn heavy_debugging_spoils_and_is_named_first() {
        let machine = Recorded::new([("/boot/config-6.1.0", DEBUGGING)]);
        let condition = debug_options(&machine.tree(), Some("6.1.0"));
        assert_eq!(condition.severity, Severity::Spoils);
        assert_eq!(condition.value.unwrap(), "PROVE_LOCKING, UBSAN");
        assert_eq!(condition.source, "/boot/config-6.1.0");
    }

    #[test]
    fn a_packed_configuration_is_read() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("proc")).unwrap();
        let file = std::fs::File::create(directory.path().join("proc/config.gz")).unwrap();
        let mut packed = GzEncoder::new(file, Compression::fast());
        packed.write_all(b"CONFIG_KFENCE=y\n").unwrap();
        packed.finish().unwrap();
        let condition = debug_options(&Tree::at(directory.path()), None);
        assert_eq!(condition.severity, Severity::Explains);
        assert_eq!(condition.value.unwrap(), "KFENCE");
    }

    #[test]
    fn a_kernel_that_does_not_tell_is_unknown() {
        let machine = Recorded::new([("/proc/config.gz", "not packed")]);
        let condition = debug_options(&machine.tree(), Some("6.1.0"));
        assert_eq!((condition.value, condition.severity), (None, Severity::Explains));
    }
}
