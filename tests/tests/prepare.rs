//! `tests/prepare.sh` changes the system only where it was allowed to.

#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Programs in place of Debian's, for a root whose machine has none of the packages and a QEMU without igb. `apt-get` writes its
/// arguments to `calls`, and if services may start then.
const PROGRAMS: [(&str, &str); 6] = [
    (
        "dpkg",
        "[ \"$1\" = -L ] && echo /lib/systemd/system/nginx.service",
    ),
    ("id", "echo 0"),
    (
        "apt-get",
        "[ \"$1\" = indextargets ] && echo http://archive bookworm && exit
         [ -e \"$POLICY\" ] && started=\"without services\" || started=
         echo \"$* $started\" >>calls",
    ),
    ("apt-cache", "exit 1"),
    ("systemctl", "echo \"systemctl $*\" >>calls"),
    ("qemu-system-x86_64", "exit 0"),
];

/// Where the kernel of guests is, in the folder of a test.
const GUEST: &str = "cache/corelane/guest/linux-image-amd64";

/// Where upstream memcached is.
const MEMCACHED: &str = "cache/corelane/memcached/memcached";

/// Runs the script in a folder with these programs; what it printed, and the calls of those programs.
fn prepare(folder: &Path, install: Option<&str>) -> (Output, String) {
    let programs = folder.join("programs");
    let scripts = PROGRAMS.map(|(name, script)| (programs.join(name), script));
    // A memcached that is there is not built again.
    for (file, script) in scripts.into_iter().chain([(folder.join(MEMCACHED), "exit 0")]) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    if !folder.join(GUEST).exists() {
        // The kernel of guests is there already.
        let modules = folder.join(GUEST).join("lib/modules/6/kernel/net/ipv4");
        fs::create_dir_all(&modules).unwrap();
        fs::write(modules.join("ip_gre.ko"), "").unwrap();
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut script = Command::new("bash");
    script.arg(corelane_tests::repository().join("tests/prepare.sh"));
    script.current_dir(folder).env("PATH", path).env_remove("INSTALL");
    script.env("XDG_CACHE_HOME", folder.join("cache"));
    script.env("POLICY", folder.join("policy-rc.d"));
    script.envs(install.map(|install| ("INSTALL", install)));
    let output = script.output().unwrap();
    let calls = fs::read_to_string(folder.join("calls")).unwrap_or_default();
    assert!(!folder.join("policy-rc.d").exists(), "services start again");
    (output, calls)
}

#[test]
fn without_consent_what_is_missing_is_listed_and_nothing_is_installed() {
    for (install, code) in [(None, 1), (Some("no"), 0), (Some("1"), 2)] {
        let folder = tempfile::tempdir().unwrap();
        let (output, calls) = prepare(folder.path(), install);
        assert_eq!(output.status.code(), Some(code), "{install:?}: {output:?}");
        assert_eq!(calls, "", "{install:?}");
        if code != 2 {
            let listed = String::from_utf8(output.stdout).unwrap();
            assert!(listed.contains("nginx-light"), "{listed}");
            assert!(listed.contains("QEMU 8.0"), "{listed}");
            assert!(listed.contains("INSTALL=yes"), "{listed}");
        }
    }
}

#[test]
fn with_consent_packages_are_installed_and_their_services_do_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let (output, calls) = prepare(folder.path(), Some("yes"));
    assert!(output.status.success(), "{output:?}");
    let installed: Vec<&str> = calls.lines().filter(|call| call.contains("install")).collect();
    assert_eq!(installed.len(), 2, "{calls}");
    for call in &installed {
        assert!(call.ends_with("without services"), "{calls}");
    }
    assert!(installed[0].contains("nginx-light"), "{calls}");
    assert!(installed[1].contains("-t bookworm-backports"), "{calls}");
    assert!(
        calls.contains("systemctl --quiet disable nginx.service"),
        "{calls}"
    );
}

#[test]
fn a_kernel_without_tunnels_stays_if_no_other_can_be_had() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = folder.path().join(GUEST).join("boot/vmlinuz-6-amd64");
    fs::create_dir_all(kernel.parent().unwrap()).unwrap();
    fs::write(&kernel, "").unwrap();
    let (output, _) = prepare(folder.path(), Some("no"));
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("tests of tunnels in an emulated machine are skipped"),
        "{printed}"
    );
    assert!(kernel.exists());
    assert_eq!(
        fs::read_dir(kernel.ancestors().nth(3).unwrap()).unwrap().count(),
        1
    );
}
