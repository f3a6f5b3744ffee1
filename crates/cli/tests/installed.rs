//! What packages have beside the program: manual pages, completions, systemd units.

#[path = "../examples/manual/completion.rs"]
mod completion;
#[path = "../examples/manual/page.rs"]
mod page;

use crate::common::run;
use std::collections::BTreeSet;
use std::fs;
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
    fs::write(&path, text).unwrap();
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
    for (words, previous) in [("xdp :", "xdp"), ("xdp : l", ":")] {
        let line = format!(
            "{script}\nCOMP_WORDS=(corelane bridge --link {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
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
