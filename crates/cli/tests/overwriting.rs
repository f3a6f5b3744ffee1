//! What a verb may write over: none of its inputs, and no file of others without `--force`.

use crate::common::{DOCUMENTS, corelane, refused, run};
use clap::Command;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

const SIMULATION: &str = "lab simulate --buckets 2 --table-size 128 --rounds 1 --flows 100";

/// Checks that the command, in which `IN` is the file, is refused with these words, and that the file stays as it is.
fn spared(file: &Path, command: &str, needed: &str) {
    let before = fs::read(file).unwrap();
    let command = command.replace("IN", &file.display().to_string());
    let error = refused(&command, 2);
    assert!(error.contains(needed), "{command}: {error}");
    assert!(
        fs::read(file).unwrap() == before,
        "{command}: the file was changed"
    );
}

#[test]
fn no_verb_writes_onto_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let list = file("list", "192.0.2.1\n");
    let (same, hard) = (folder.path().join("same"), folder.path().join("hard"));
    symlink(&list, &same).unwrap();
    fs::hard_link(&list, &hard).unwrap();
    for other in [
        "IN".to_owned(),
        same.display().to_string(),
        hard.display().to_string(),
    ] {
        let build = format!("table build IN --force --output {other}");
        spared(&list, &build, "is also read by FILE: give another name");
    }
    spared(
        &file("pairs", "0x1 3\n"),
        "verify --log IN --queues 4 --json=IN",
        "--json: ",
    );
    let scenario = file("scenario", "[[client]]\n");
    spared(
        &scenario,
        "load http --scenario IN --json=IN",
        "is also read by --scenario",
    );
    let body = "load http http://127.0.0.1:1/ --body-file IN --timeline IN";
    spared(&file("body", "text"), body, "--timeline: ");
    let table = "bridge --link ring:over-a --link ring:over-b --table IN --json=IN --duration 1s";
    spared(&list, table, "is also read by --table");
    let steering = file("steering", "{\"schema\":\"corelane/steering/1\"}\n");
    let serve = "serve udp 127.0.0.1:0 --steering IN --write-steering IN";
    spared(&steering, serve, "--write-steering: ");
    let document = folder.path().join("before.json");
    fs::copy(format!("{DOCUMENTS}/scale-udp.json"), &document).unwrap();
    let other = format!("{DOCUMENTS}/scale-udp-later.json");
    for output in ["--html", "--export-csv"] {
        let diff = format!("report diff IN {other} --force {output} IN");
        spared(&document, &diff, "is also read by BEFORE");
    }
    spared(&document, "report show IN --html IN", "--html: ");
}

#[test]
fn no_verb_writes_onto_a_file_that_its_input_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let certificate = file("certificate", "corelane\n");
    let body_file = file("body_file", "text");
    let pools = "[[client]]\nname = 'c'\nurls = 'u'\nserver = 's'\nconnections = 1\n[[server]]\nname = 's'\nhost = \
                 '127.0.0.1:1'\ntls = true\n[[urls]]\nname = 'u'\n[[urls.entry]]\npath = '/'\n";
    let named = |key: &str, path: &Path| {
        let line = format!("{key} = '{}'\n", path.display());
        match key {
            "body_file" => format!("{pools}{line}"),
            _ => pools.replace("name = 'c'\n", &format!("name = 'c'\n{line}")),
        }
    };
    for (key, path) in [
        ("body_file", &body_file),
        ("ca", &certificate),
        ("certificate", &certificate),
        ("key", &certificate),
    ] {
        let scenario = file("pools", &named(key, path));
        let load = format!("load http --scenario {} --force --json=IN", scenario.display());
        spared(path, &load, "is also read by --scenario");
    }
    let targets = file(
        "targets",
        &format!("POST http://127.0.0.1:1/\n@{}\n", body_file.display()),
    );
    let load = format!("load http --targets {} --force --timeline IN", targets.display());
    spared(&body_file, &load, "is also read by --targets");
}

#[test]
fn lists_of_flows_do_not_replace_the_rule_that_they_are_planned_by() {
    let folder = tempfile::tempdir().unwrap();
    let rule = run("serve udp 127.0.0.1:0 --buckets 2 --share-cpus --dry-run").stdout;
    let list = folder.path().join("bucket-0.flows");
    fs::write(&list, rule).unwrap();
    let plan = format!(
        "plan --steering IN --clients 10.0.0.0/24 --server 10.1.0.1:80 --flows 4 --lists {}",
        folder.path().display()
    );
    spared(&list, &plan, "--lists: ");
}

#[test]
fn no_verb_writes_onto_a_capture_that_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("seen.pcap");
    let made = run(&format!("load packets pcap:out={} --count 3", capture.display()));
    assert!(made.status.success());
    for command in [
        "bridge --link pcap:IN --link pcap:out=IN",
        "bridge --link pcap:IN,out=IN --link ring:over-c",
        "bridge --link pcap:IN --link ring:over-c --json=IN",
        "bridge --link ring:over-c,capture=IN --link pcap:IN",
        "load packets pcap:out=IN --replay IN",
        "serve packets pcap:IN,capture=IN",
    ] {
        spared(&capture, command, "");
    }
    let twice = format!(
        "{SIMULATION} --html {0}/new --export-csv {0}/new",
        folder.path().display()
    );
    assert!(refused(&twice, 2).contains("--export-csv: "));
}

#[test]
fn a_file_of_others_is_replaced_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().display();
    let (list, notes) = (folder.path().join("list"), folder.path().join("notes"));
    fs::write(&list, "192.0.2.1\n").unwrap();
    let writing = [
        format!("table build {there}/list --output IN"),
        format!("{SIMULATION} --json IN"),
        format!("{SIMULATION} --html IN"),
        format!("{SIMULATION} --export-markdown IN"),
        format!("{SIMULATION} --export-csv IN"),
        format!("report show {DOCUMENTS}/simulate.json --html IN"),
        "load packets pcap:out=IN --count 3".to_owned(),
        "load packets pcap:out=/dev/null,capture=IN --count 3".to_owned(),
        "load packets pcap:out=/dev/null --count 3 --timeline IN".to_owned(),
        "serve http 127.0.0.1:0 --tls --write-certificate IN --duration 1ms".to_owned(),
        "serve udp 127.0.0.1:0 --write-steering IN --duration 1ms".to_owned(),
        "hash 10.0.0.1:1 10.0.0.2:2 --json=IN".to_owned(),
        format!("report diff {DOCUMENTS}/scale-udp.json {DOCUMENTS}/scale-udp.json --export-csv IN"),
        format!("report diff {DOCUMENTS}/scale-udp.json {DOCUMENTS}/scale-udp.json --export-markdown IN"),
    ];
    let others = [
        "my notes: corelane is next\n",
        "# Notes\n\nof mine\n",
        "name,age\r\nme,1\r\n",
        "{\"mine\": true}",
        "<!DOCTYPE html>\n<title>mine</title>",
        "\u{d4}\u{c3}\u{b2}\u{a1}",
    ];
    for (number, command) in writing.iter().enumerate() {
        fs::write(&notes, others[number % others.len()]).unwrap();
        spared(&notes, command, "--force to replace it");
        for more in [" --force", ""] {
            let command = command.replace("IN", &notes.display().to_string()) + more;
            let output = run(&command);
            let error = String::from_utf8_lossy(&output.stderr);
            // What was written once is ours.
            assert_eq!(output.status.code(), Some(0), "{command}: {error}");
        }
    }
    for (number, other) in others.iter().enumerate() {
        fs::write(&notes, other).unwrap();
        spared(&notes, &writing[number], "--force to replace it");
    }
}

#[test]
fn files_beside_an_output_links_and_modes_survive() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("run.json.part"), "mine").unwrap();
    fs::write(path("real.json"), "").unwrap();
    fs::set_permissions(path("real.json"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real.json", path("run.json")).unwrap();
    symlink("run.json.part", path("real.json.part")).unwrap();
    let mut hash = corelane(&format!(
        "hash 10.0.0.1:1 10.0.0.2:2 --json={}",
        path("run.json").display()
    ));
    assert!(hash.status().unwrap().success());
    assert_eq!(fs::read_to_string(path("run.json.part")).unwrap(), "mine");
    assert!(fs::symlink_metadata(path("run.json")).unwrap().is_symlink());
    let written = fs::metadata(path("real.json")).unwrap();
    assert_eq!(written.permissions().mode() & 0o777, 0o600);
    assert!(written.len() > 0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is left");
}

/// The arguments of the verbs without verbs below them.
fn leaves(command: &Command, check: &mut impl FnMut(&Command)) {
    match command.has_subcommands() {
        true => command.get_subcommands().for_each(|below| leaves(below, check)),
        false => check(command),
    }
}

#[test]
fn every_verb_with_a_file_to_write_has_force() {
    let mut with_force = 0;
    leaves(&corelane_cli::command(), &mut |verb| {
        let writes = verb.get_arguments().any(|arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let takes_file = arg
                .get_value_names()
                .is_some_and(|names| names.iter().any(|name| name == "FILE"));
            takes_file && help.to_lowercase().contains("write")
        });
        let forced = verb.get_arguments().any(|arg| arg.get_long() == Some("force"));
        assert!(forced || !writes, "{}", verb.get_name());
        with_force += usize::from(forced);
    });
    assert!(with_force > 20, "{with_force}");
}
