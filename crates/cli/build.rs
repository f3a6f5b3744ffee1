//! Records what `corelane --version` says of the build: the commit, the target and the features.
//!
//! The commit is `CORELANE_COMMIT` if that is set; of a packaged crate, the one that cargo recorded in the package; of a
//! checkout, what git says. A debug build does not ask git, so that its developer does not compile the command again after
//! each commit. No source of a commit is an error.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What the command is built from, relative to this folder.
const SOURCES: [&str; 5] = [
    "build.rs",
    "../*/src/*",
    "../*/Cargo.toml",
    "../../Cargo.toml",
    "../../Cargo.lock",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CORELANE_COMMIT");
    let folder = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let given = env::var("CORELANE_COMMIT").ok();
    let commit = given
        .or_else(|| packaged(&folder))
        .unwrap_or_else(|| match variable("PROFILE").as_str() {
            "debug" => "not recorded (debug build)".to_owned(),
            _ => of_git(&folder).unwrap_or_else(|| "unknown (built without git)".to_owned()),
        });
    println!("cargo::rustc-env=CORELANE_COMMIT={commit}");
    println!("cargo::rustc-env=CORELANE_TARGET={}", variable("TARGET"));
    println!("cargo::rustc-env=CORELANE_FEATURES={}", features());
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// The features of this crate, and those of the target: what of a CPU it needs, and `crt-static` if it is linked statically.
fn features() -> String {
    let feature = |(name, _): (String, String)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase());
    let mut features: Vec<String> = env::vars().filter_map(feature).collect();
    features.sort();
    let target = variable("CARGO_CFG_TARGET_FEATURE");
    features.extend(target.split(',').map(str::to_owned));
    features.join(", ")
}

/// The commit in `.cargo_vcs_info.json`, which `cargo package` writes.
fn packaged(folder: &Path) -> Option<String> {
    let info = fs::read_to_string(folder.join(".cargo_vcs_info.json")).ok()?;
    let commit = info.split_once("\"sha1\"")?.1.split('"').nth(1)?;
    Some(state(commit, info.contains("\"dirty\": true")))
}

/// The commit of the checkout, if this folder belongs to one: not of a repository that a packaged crate was copied into.
fn of_git(folder: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .current_dir(folder)
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let commit = git(&["rev-parse", "HEAD"])?;
    let changes = git(&[&["status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    watch(folder, &git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    Some(state(&commit, !changes.is_empty()))
}

fn state(commit: &str, changed: bool) -> String {
    format!("{commit}{}", if changed { "+dirty" } else { "" })
}

/// Runs this again when HEAD moves, which git appends to a log, or a source changes.
fn watch(folder: &Path, log: &str) {
    let again = |path: &Path| {
        // cargo would run this each time for a file that does not exist.
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    };
    again(&folder.join(log));
    again(&folder.join("../../Cargo.toml"));
    again(&folder.join("../../Cargo.lock"));
    for member in fs::read_dir(folder.join("..")).into_iter().flatten().flatten() {
        again(&member.path().join("src"));
        again(&member.path().join("Cargo.toml"));
    }
}
