//! What an installation has: the program and what it says of its build, manual pages, completions, systemd units.

#[path = "../examples/manual/completion.rs"]
mod completion;
#[path = "../examples/manual/page.rs"]
mod page;

use crate::common;
use crate::common::run;
use corelane_rss::Way;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// The output of a tool; `None`, and a line that names it, if it is not installed.
fn output_of(tool: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(tool).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("skipped: {tool}: {error}");
            None
        }
    }
}

/// A page as `man` shows it on a terminal of 80 columns, which groff fills to 78.
fn shown(page: &str) -> Option<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), page).unwrap();
    let path = file.path().to_str().unwrap();
    let output = output_of("groff", &["-man", "-Tutf8", "-P-cbou", "-rLL=78n", "-ww", path])?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert_eq!(complaints, "", "{page}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_version_says_what_was_built_and_which_instructions_it_uses() {
    let output = run("--version");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(": ")).collect();
    let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        ["commit", "target", "features", "hash", "lookup"],
        "{text}"
    );
    assert_eq!(
        text.lines().next(),
        Some(concat!("corelane ", env!("CARGO_PKG_VERSION"))),
        "{text}"
    );
    let ways: Vec<&str> = Way::available().into_iter().map(Way::name).collect();
    let [(_, commit), (_, target), (_, features), (_, hash), (_, lookup)] = lines[..] else {
        panic!("{text}");
    };
    assert!(
        commit == "not recorded (debug build)" || commit.trim_end_matches("+dirty").len() == 40,
        "{commit}"
    );
    assert!(
        target.starts_with(std::env::consts::ARCH) && target.contains("-linux-"),
        "{target}"
    );
    // What every CPU of these architectures has.
    let needed = match std::env::consts::ARCH {
        "x86_64" => "sse2",
        "aarch64" => "neon",
        _ => "",
    };
    assert!(features.contains(needed), "{features}");
    assert_eq!((hash, lookup), (&*ways.join(", "), corelane_table::vectors()));
}

/// Paths of the files below a folder, relative to it.
fn files_below(folder: &Path) -> BTreeSet<String> {
    let output = Command::new("find")
        .arg(folder)
        .args(["-not", "-type", "d", "-printf", "%P\n"])
        .output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// What `examples/manual` writes below a prefix.
fn generated() -> Vec<(String, String)> {
    let pages = page::pages().into_iter();
    let pages = pages.map(|(name, text)| (format!("share/man/man1/{name}"), text));
    let scripts = completion::scripts().into_iter();
    let scripts = scripts.map(|(path, text)| (path.to_owned(), text));
    pages.chain(scripts).collect()
}

/// The units, and the configuration of each.
const UNITS: [&str; 2] = ["corelane-bridge.service", "corelane-serve@.service"];
const CONFIGURED: [&str; 5] = [
    "bridge",
    "serve-http",
    "serve-memcached",
    "serve-tcp",
    "serve-udp",
];

/// Makes a target folder with this program, and a script in place of `examples/manual`, which is built only with all of this
/// package.
fn fill_target(folder: &Path) {
    let (built, made) = (folder.join("release"), folder.join("made"));
    fs::create_dir_all(built.join("examples")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_corelane"));
    common::copy(program, &built.join("corelane"));
    for (path, text) in generated() {
        let path = made.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let manual = built.join("examples/manual");
    let copy = format!(
        "#!/bin/sh\nmkdir -p \"$1\" && cp -R '{}/.' \"$1\"\n",
        made.display()
    );
    fs::write(made.with_extension("sh"), copy).unwrap();
    common::copy(&made.with_extension("sh"), &manual);
    fs::set_permissions(&manual, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What an installation has below its prefix, without units.
fn below_prefix(root: &Path) -> Vec<String> {
    let documents = files_below(&root.join("docs")).into_iter();
    let documents = documents.filter(|name| !name.ends_with(".sh"));
    let documents = documents.map(|name| format!("docs/{name}"));
    let others = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
    let documents = documents.chain(others.map(str::to_owned));
    let generated = generated()
        .into_iter()
        .map(|(path, _)| match path.ends_with(".1") {
            true => path + ".gz",
            false => path,
        });
    let documents = documents.map(|name| format!("share/doc/corelane/{name}"));
    let program = ["bin/corelane".to_owned()];
    documents.chain(generated).chain(program).collect()
}

/// The links of these documents to files that are not there.
fn dead_links(documents: &Path) -> Vec<String> {
    let mut dead = Vec::new();
    for name in files_below(documents).iter().filter(|name| name.ends_with(".md")) {
        let text = fs::read_to_string(documents.join(name)).unwrap();
        let folder = documents.join(name).parent().unwrap().to_owned();
        for link in text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap();
            if !target.is_empty() && !target.contains("://") && !folder.join(target).exists() {
                dead.push(format!("{name}: {target}"));
            }
        }
    }
    dead
}

#[test]
fn make_install_installs_every_file_below_its_prefix_and_units_where_systemd_looks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("a target");
    fill_target(&target);
    let destination = folder.path().join("a root");
    for (prefix, has_units) in [("/usr", true), ("/usr/local", true), ("/opt/a prefix", false)] {
        let installed = Command::new("make")
            .current_dir(&root)
            .args(["--no-print-directory", "install", "CARGO=no-cargo"])
            .arg(format!("CARGO_TARGET_DIR={}", target.display()))
            .arg(format!("DESTDIR={}", destination.display()))
            .arg(format!("PREFIX={prefix}"))
            .output()
            .unwrap();
        assert!(installed.status.success(), "{installed:?}");
        let below = |path: &str| format!("{}/{path}", &prefix[1..]);
        let mut expected: BTreeSet<String> = below_prefix(&root).iter().map(|path| below(path)).collect();
        for unit in UNITS.iter().filter(|_| has_units) {
            let unit = below(&format!("lib/systemd/system/{unit}"));
            let text = fs::read_to_string(destination.join(&unit)).unwrap();
            assert!(
                text.contains(&format!("\nExecStart={prefix}/bin/corelane ")),
                "{text}"
            );
            expected.insert(unit);
        }
        if has_units {
            expected.extend(CONFIGURED.map(|name| format!("etc/corelane/{name}.conf")));
        }
        assert_eq!(files_below(&destination), expected, "{prefix}");
        assert_eq!(
            dead_links(&destination.join(&prefix[1..]).join("share/doc/corelane")),
            [""; 0]
        );
        fs::remove_dir_all(&destination).unwrap();
    }
}

/// Runs a shell script in a folder, which has to succeed; what it prints.
fn shell(folder: &Path, script: &str) -> String {
    let output = Command::new("bash")
        .args(["-euc", script])
        .current_dir(folder)
        .env_remove("CARGO")
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// With a cargo that copies a static program, and no tools of Debian's.
#[test]
fn dist_without_dpkg_deb_makes_what_it_can_and_names_the_tool() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    fill_target(&folder.path().join("built"));
    let source = format!("cp -R '{}'", root.display());
    let printed = shell(
        folder.path(),
        &format!(
            r#"{source}/{{packaging,docs,README.md,CHANGELOG.md,LICENSE-MIT,LICENSE-APACHE,Cargo.toml}} .
            echo 'void _start(void) {{}}' | gcc -nostdlib -static -x c - -o built/release/corelane
            mkdir -p programs target/tools/bin
            IFS=:
            for programs in $PATH; do ln -s "$programs"/* programs/ 2>/dev/null || true; done
            rm -f programs/{{dpkg,dpkg-deb,apt-get,cargo}}
            echo '#!/bin/bash
              while [ $# -gt 0 ]; do
                case $1 in --target) target=$2 ;; --target-dir) folder=$2 ;; esac
                shift
              done
              mkdir -p "$folder/$target" && cp -R built/release "$folder/$target"' >programs/cargo
            printf '#!/bin/sh
echo rpm >"$6/corelane.rpm"
' >target/tools/bin/cargo-generate-rpm
            chmod +x programs/cargo target/tools/bin/cargo-generate-rpm
            PATH=$PWD/programs packaging/dist.sh "$(uname -m)"
            cd dist && sha256sum --check --quiet SHA256SUMS"#
        ),
    );
    let program = format!(
        "corelane-{}-{}-unknown-linux-",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH
    );
    let mut lines = printed.lines().skip(1);
    assert_eq!(
        lines.next(),
        Some("skipped: .deb packages: dpkg-deb was not found: install dpkg"),
        "{printed}"
    );
    assert_eq!(lines.next(), Some("made in dist:"), "{printed}");
    let made: Vec<&str> = lines.filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(made.len(), 2, "{printed}");
    assert!(
        made[0].starts_with(&program) && made[1] == "corelane.rpm",
        "{printed}"
    );
}

#[test]
fn every_verb_has_a_manual_page() {
    let helps = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/help");
    let verbs = fs::read_dir(helps).unwrap().map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        match name.trim_end_matches(".txt") {
            "corelane" => "corelane.1".to_owned(),
            verb => format!("corelane-{verb}.1"),
        }
    });
    let pages: BTreeSet<String> = page::pages().into_iter().map(|(name, _)| name).collect();
    assert_eq!(pages, verbs.collect());
}

#[test]
fn every_manual_page_fits_80_columns() {
    for (name, page) in page::pages() {
        let Some(shown) = shown(&page) else { return };
        for line in shown.lines().filter(|line| line.chars().count() > 80) {
            // A flag with one word, such as a key in hexadecimal, cannot be broken.
            let words = line.split_whitespace().filter(|word| *word != "\\");
            assert!(words.count() <= 2, "{name}: {line}");
        }
    }
}

#[test]
fn the_manual_page_of_a_verb_has_its_flags_values_and_examples() {
    let pages = page::pages();
    let (_, page) = pages
        .iter()
        .find(|(name, _)| name == "corelane-load-http.1")
        .unwrap();
    let Some(shown) = shown(page) else { return };
    let help = String::from_utf8(run("load http --help").stdout).unwrap();
    let flags = help.lines().filter_map(|line| line.trim().split_once("--"));
    let flags = flags.filter(|(before, _)| before.is_empty() || before.len() == 4);
    let mut checked = 0;
    for (_, flag) in flags {
        let flag = flag.split([' ', '[']).next().unwrap();
        assert!(
            shown.contains(&format!("--{flag}")),
            "{flag} is missing:\n{shown}"
        );
        checked += 1;
    }
    assert!(checked > 30, "{help}");
    for part in [
        "CORELANE-LOAD-HTTP(1)",
        "corelane load http [OPTIONS] [URL]",
        "-c, --connections N",
        "[default: 64]",
        "--json[=FILE]",
        "       corelane load http http://127.0.0.1:8080/ --connections 64 \\\n           --workers 1 --duration 1s\n",
        "corelane-load(1), corelane-load-udp(1)",
    ] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
}

/// Words after which the completions of every shell offer a word.
const COMPLETED: [(&str, &str); 8] = [
    ("corelane lo", "load"),
    ("corelane lab scale ht", "http"),
    ("corelane lab scale udp --dur", "--duration"),
    ("corelane load http --conn", "--connections"),
    ("corelane serve http --engine ", "io_uring"),
    ("corelane load http --align ", "bucket"),
    ("corelane serve udp --dev ", "lo"),
    ("corelane bridge --link packet", "packet:lo"),
];

/// Runs `script` in a shell for each line, with the file of its completions, the line, and the line's words.
fn completes(shell: &[&str], file: &str, script: &str) {
    let folder = tempfile::tempdir().unwrap();
    let scripts = completion::scripts();
    let (path, text) = scripts.iter().find(|(path, _)| path.ends_with(file)).unwrap();
    let path = folder.path().join(Path::new(path).file_name().unwrap());
    // Devices are folders; the file is of kernels with bonding.
    let devices = folder.path().join("devices");
    fs::create_dir_all(devices.join("lo")).unwrap();
    fs::write(devices.join("bonding_masters"), "").unwrap();
    fs::write(&path, text.replace("/sys/class/net", devices.to_str().unwrap())).unwrap();
    for (line, word) in COMPLETED {
        let path = path.to_str().unwrap();
        let arguments = [&shell[1..], &[script, "-", path, line]].concat();
        let Some(output) = output_of(shell[0], &arguments) else {
            return;
        };
        let offered = String::from_utf8_lossy(&output.stdout);
        assert!(
            offered.split_whitespace().any(|offer| offer == word),
            "{line} does not offer {word}: {offered}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!offered.contains("bonding_masters"), "{line}: {offered}");
    }
}

#[test]
fn bash_completes_verbs_flags_values_and_devices() {
    completes(
        &["bash", "--norc", "-c"],
        "/completions/corelane",
        r#"source "$1"; read -ra COMP_WORDS <<< "$2"; [ "$2" = "${2% }" ] || COMP_WORDS+=('')
           COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
           _corelane_words corelane "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
           printf '%s\n' "${COMPREPLY[@]}""#,
    );
}

/// bash splits `xdp:lo` at its colon.
#[test]
fn bash_completes_the_device_of_a_link() {
    let [(_, script), ..] = completion::scripts();
    // It is longer than an argument may be.
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), script).unwrap();
    let file = file.path().display();
    for (words, previous) in [("xdp :", "xdp"), ("xdp : l", ":")] {
        let line = format!(
            "source {file}\nCOMP_WORDS=(corelane bridge --link {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
             current=${{COMP_WORDS[COMP_CWORD]}}; _corelane_words corelane \"${{current#:}}\" {previous}
             printf '%s\n' \"${{COMPREPLY[@]}}\""
        );
        let output = output_of("bash", &["--norc", "-c", &line]).expect("bash is installed");
        let offered = String::from_utf8_lossy(&output.stdout);
        assert!(offered.lines().any(|offer| offer == "lo"), "{words}: {offered}");
    }
}

#[test]
fn fish_completes_verbs_flags_values_and_devices() {
    completes(
        &["fish", "--no-config", "-c"],
        "corelane.fish",
        r#"source "$argv[2]"; complete -C "$argv[3]""#,
    );
}

/// The completions of zsh need a terminal: a second zsh gets one, and prints what it would offer after a tab.
#[test]
fn zsh_completes_verbs_flags_values_and_devices() {
    completes(
        &["zsh", "-f", "-c"],
        "_corelane",
        r#"zmodload zsh/zpty; export TERM=dumb; zpty shell zsh -f -i
           zpty -w shell "PS1= fpath=(${(q)1:h} \$fpath); autoload -U compinit; compinit -u -D
             bindkey '^I' complete-word
             compadd() {
               case \" \${@[1,(i)--]} \" in *' -'[OAD]' '*) builtin compadd \"\$@\"; return;; esac
               local -a offers; builtin compadd -A offers \"\$@\"; print -l '' \${offers/#/offered:}
             }
             comppostfuncs=(exit); echo rea''dy"
           zpty -r shell text '*ready*'
           zpty -w -n shell "$2"$'\t'
           while zpty -r shell text; do all+=$text; done; print -r -- ${all//offered:/ }"#,
    );
}

#[test]
fn the_units_are_hardened() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/units");
    for (unit, instance) in [
        ("corelane-serve@.service", "corelane-serve@http.service"),
        ("corelane-bridge.service", "corelane-bridge.service"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(instance);
        fs::copy(packaging.join(unit), &file).unwrap();
        // Tenths: 3.0 at most.
        let arguments = ["security", "--offline=true", "--no-pager", "--threshold=30"];
        let arguments = [&arguments[..], &[file.to_str().unwrap()]].concat();
        let Some(output) = output_of("systemd-analyze", &arguments) else {
            return;
        };
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}
