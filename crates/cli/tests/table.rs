//! `table` as a user runs it: lists of every format become snapshots with equal results, and errors name the file and
//! line.

use crate::common::{corelane, parsed, refused, run, run_json};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

const LIST: &str = "# of a registry\n192.0.2.1\n198.51.100.0/24 7 # a class\n2001:db8::/32 9\n";

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs the command with this standard input.
fn fed(arguments: &[&str], input: &str) -> Output {
    let mut process = corelane(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    process.wait_with_output().unwrap()
}

fn printed(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_list_and_its_snapshot_answer_alike() {
    let folder = tempfile::tempdir().unwrap();
    let list = written(folder.path(), "list.txt", LIST);
    let snapshot = folder.path().join("list.table");
    let built = run_json(&format!(
        "table build {} --output {} --json",
        text(&list),
        text(&snapshot)
    ));
    assert_eq!(built["schema"], "corelane/table/1");
    assert_eq!(
        (&built["entries"], &built["source"]["kind"]),
        (&3.into(), &"list".into())
    );
    for file in [&list, &snapshot] {
        let addresses = ["192.0.2.1", "198.51.100.9", "2001:db8::1", "192.0.2.2"];
        let lookup = [&["table", "lookup", text(file)], &addresses[..], &["--json"]].concat();
        let answers = run_json(&lookup);
        let values: Vec<&Value> = answers["answers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|answer| &answer["value"])
            .collect();
        assert_eq!(values, [&Value::from(0), &7.into(), &9.into(), &Value::Null]);
        assert_eq!(answers["matched"], 3);
        let entries = printed(&run(&["table", "show", text(file), "--entries"]));
        assert_eq!(entries, "192.0.2.1\n198.51.100.0/24 7\n2001:db8::/32 9\n");
    }
    let shown = run_json(&["table", "show", text(&snapshot), "--json"]);
    assert_eq!(shown["source"]["kind"], "snapshot");
    let of = |name: &str| shown[name].as_u64().unwrap();
    assert_eq!(
        [
            of("ipv4_addresses"),
            of("ipv4_prefixes"),
            of("ipv6_prefixes"),
            of("values")
        ],
        [1, 1, 1, 3]
    );
}

#[test]
fn dumps_of_ipset_and_nftables_are_read_from_standard_input() {
    let ipset = "create blocked hash:net family inet\nadd blocked 192.0.2.0/24\nadd other 203.0.113.1\n";
    let nftables = "table inet filter {\n set blocked {\n type ipv4_addr\n flags interval\n \
        elements = { 192.0.2.0/25, 192.0.2.128-192.0.2.255 }\n }\n}\n";
    for (format, dump) in [("ipset", ipset), ("nftables", nftables)] {
        let output = fed(&["table", "show", "-", "--set", "blocked", "--json"], dump);
        let shown: Value = serde_json::from_str(&printed(&output)).unwrap();
        assert_eq!(shown["source"]["format"], format);
        let answers = printed(&fed(
            &[
                "table",
                "lookup",
                "-",
                "192.0.2.200",
                "203.0.113.1",
                "--set",
                "blocked",
            ],
            dump,
        ));
        assert_eq!(answers, "192.0.2.200 found\n203.0.113.1 -\n");
    }
}

#[test]
fn addresses_come_from_standard_input_when_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let list = written(folder.path(), "list.txt", LIST);
    let answers = printed(&fed(
        &["table", "lookup", text(&list)],
        "198.51.100.1\n\n2001:db9::\n",
    ));
    assert_eq!(answers, "198.51.100.1 7\n2001:db9:: -\n");
    // An entry without a value.
    assert_eq!(
        printed(&run(&["table", "lookup", text(&list), "192.0.2.1"])),
        "192.0.2.1 found\n"
    );
    // A line that is no address loses no answer.
    let lines = "198.51.100.1\nhost\n2001:db9::\n1.2.3\n";
    let wrong = fed(&["table", "lookup", text(&list)], lines);
    let error = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert_eq!(String::from_utf8(wrong.stdout).unwrap(), answers);
    assert!(
        error.contains("line 2: \"host\"") && error.contains("line 4: \"1.2.3\""),
        "{error}"
    );
    let wrong = fed(&["table", "lookup", text(&list), "--json"], lines);
    let document = parsed(&wrong);
    assert_eq!(
        (wrong.status.code(), document["answers"].as_array().unwrap().len()),
        (Some(1), 2)
    );
    assert_eq!(
        document["refused"][1],
        serde_json::json!({ "line": 4, "text": "1.2.3" })
    );
}

#[test]
fn a_wrong_line_is_refused_with_file_and_line_or_counted_and_an_old_snapshot_stays() {
    let folder = tempfile::tempdir().unwrap();
    let list = written(folder.path(), "list.txt", "192.0.2.1\n192.0.2.999\n192.0.2.3\n");
    let snapshot = folder.path().join("list.table");
    let before = written(folder.path(), "before.txt", "203.0.113.1\n");
    run_json(&["table", "build", text(&before), "-o", text(&snapshot), "--json"]);
    let build = ["table", "build", text(&list), "--output", text(&snapshot)];
    let refusal = refused(&build, 2);
    for part in ["list.txt", "line 2", "192.0.2.999", "--skip-bad"] {
        assert!(refusal.contains(part), "{part}: {refusal}");
    }
    let kept = printed(&run(&["table", "show", text(&snapshot), "--entries"]));
    assert_eq!(kept, "203.0.113.1\n");
    let built = run_json(&[&build[..], &["--skip-bad", "--json"]].concat());
    assert_eq!(
        (&built["entries"], &built["source"]["skipped"]),
        (&2.into(), &1.into())
    );
    assert!(
        built["source"]["first_skipped"]
            .as_str()
            .unwrap()
            .contains("line 2")
    );
    assert!(!folder.path().join("list.table.part").exists());
}

#[test]
fn a_damaged_snapshot_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let list = written(folder.path(), "list.txt", LIST);
    let snapshot = folder.path().join("list.table");
    run_json(&format!(
        "table build {} --output {} --json",
        text(&list),
        text(&snapshot)
    ));
    let mut bytes = fs::read(&snapshot).unwrap();
    let middle = 70_000;
    bytes[middle] ^= 1;
    fs::write(&snapshot, bytes).unwrap();
    let refusal = refused(&["table", "show", text(&snapshot)], 2);
    assert!(
        refusal.contains("list.table") && refusal.contains("damaged"),
        "{refusal}"
    );
    let missing = refused("table show no-such-file", 2);
    assert!(missing.contains("no-such-file"), "{missing}");
}

#[test]
fn the_examples_of_the_help_work_in_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_corelane"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    fs::write(folder.path().join("addresses.txt"), "192.0.2.1\n").unwrap();
    for verb in ["build", "show", "lookup"] {
        let help = printed(&run(&["table", verb, "--help"]));
        let examples = help
            .lines()
            .map(str::trim)
            .filter(|line| line.contains("corelane table"));
        // The nftables example needs a set that is loaded.
        let runs = |line: &&str| !line.starts_with("nft") && !line.starts_with("Usage");
        for example in examples.filter(runs) {
            let ran = std::process::Command::new("sh")
                .args(["-c", example])
                .current_dir(folder.path())
                .env("PATH", &path)
                .output()
                .unwrap();
            assert!(
                ran.status.success(),
                "{example}: {}",
                String::from_utf8_lossy(&ran.stderr)
            );
        }
    }
}

const SETS: &str = "create allow hash:ip\nadd allow 192.0.2.1\ncreate block hash:ip\nadd block 192.0.2.2\n";

#[test]
fn of_several_sets_one_has_to_be_named() {
    let folder = tempfile::tempdir().unwrap();
    let list = written(folder.path(), "sets.txt", SETS);
    let list = text(&list);
    let bridge = format!("bridge --link ring:sets-a --link ring:sets-b --duration 1ms --table {list}");
    for command in [format!("table show {list}"), bridge.clone()] {
        let error = refused(&command, 2);
        assert!(
            error.contains("allow, block") && error.contains("--set"),
            "{error}"
        );
    }
    let found = |set: &str| printed(&run(&["table", "show", list, "--set", set, "--entries"]));
    assert_eq!(
        (found("allow"), found("block")),
        ("192.0.2.1\n".to_owned(), "192.0.2.2\n".to_owned())
    );
    let bridged = run_json(&format!("{bridge} --set block --json"));
    assert_eq!(bridged["tables"][0]["entries"], 1, "{bridged}");
}

#[test]
fn a_pipe_as_a_table_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let pipe = text(&pipe);
    for command in [
        format!("table show {pipe}"),
        format!("bridge --link ring:pipe-a --link ring:pipe-b --table {pipe}"),
    ] {
        let error = refused(&command, 2);
        assert!(error.contains("a pipe"), "{command}: {error}");
    }
}
