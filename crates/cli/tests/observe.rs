//! `lab scale udp|http|tcp --profile --locks --softnet`: what is observed with permission, and what is reported without it.

use crate::common::{self, Arguments};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The user `nobody`.
const NOBODY: u32 = 65_534;

/// Serializes the tests, because both load every CPU and watch it.
static ALONE: Mutex<()> = Mutex::new(());

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The step of the report with all buckets active.
fn step<'a>(report: &'a Value, mode: &str, placement: &str) -> &'a Value {
    let steps = report["steps"].as_array().unwrap();
    let wanted = |step: &&Value| {
        (&step["mode"], &step["model"], &step["placement"])
            == (&mode.into(), &"exact".into(), &placement.into())
            && step["buckets_active"] == step["buckets_configured"]
    };
    steps.iter().find(wanted).unwrap()
}

#[test]
fn the_time_the_locks_and_the_receive_paths_are_told_for_echo_and_sink() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_root() {
        eprintln!("skipped: only root may watch whole CPUs everywhere");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (json, html) = (folder.path().join("run.json"), folder.path().join("run.html"));
    let (json, html) = (json.to_str().unwrap(), html.to_str().unwrap());
    let mut text = String::new();
    let report = common::with_figures(|| {
        let output = common::run(&format!(
            "lab scale udp --max-steal 100% --duration 1s --rounds 1 --models exact --modes echo,sink --placements \
aligned,crossed --bed namespaces --profile --locks --softnet --json {json} --html {html}"
        ));
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap()
    });
    for mode in ["echo", "sink"] {
        let observed = &step(&report, mode, "aligned")["observed"];
        assert!(observed["unknown"].as_object().unwrap().is_empty(), "{observed}");
        assert_profile(&observed["profile"]);
        assert_softnet(&observed["softnet"], step(&report, mode, "aligned"));
        for row in observed["locks"]["rows"].as_array().unwrap() {
            assert!(row["max_ns"].is_null(), "the hold time of a lock is unknown");
        }
        assert!(
            observed["locks"]["unknown"]["max_ns"].is_string(),
            "the reason is reported"
        );
    }
    assert_receive_lock(&report);
    assert_text(&text);
    assert!(
        fs::read_to_string(html)
            .unwrap()
            .contains("<h2>Where the time went: ")
    );
    let shown = common::run(&["report", "show", json]);
    assert_eq!(
        String::from_utf8(shown.stdout).unwrap(),
        text,
        "a saved report reads the same"
    );
}

#[test]
fn requests_and_bytes_are_observed_too_and_a_subject_in_all_its_processes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_root() {
        eprintln!("skipped: only root may watch whole CPUs everywhere");
        return;
    }
    let quick =
        "--max-steal 100% --duration 1s --rounds 1 --bed namespaces --profile --locks --softnet --json";
    let program = env!("CARGO_BIN_EXE_corelane");
    // The server is a child of the shell.
    let subject =
        format!("{program} serve http $CORELANE_ADDRESS:$CORELANE_PORT --cpus $CORELANE_CPU_LIST; true");
    let ours = "lab scale tcp --modes echo --size 1KiB --models exact --placements aligned";
    let other = "lab scale http --size 128 --placements aligned --subject";
    for words in [
        ours.words(),
        other.words().into_iter().chain([subject.as_str()]).collect(),
    ] {
        let words = [words, quick.words()].concat();
        let report = common::with_figures(|| common::run_json(&words));
        let step = report["steps"].as_array().unwrap().last().unwrap();
        let observed = &step["observed"];
        assert!(observed["unknown"].as_object().unwrap().is_empty(), "{observed}");
        assert_profile(&observed["profile"]);
        assert!(observed["locks"]["cpus"].is_array(), "{observed}");
        assert!(
            !observed["softnet"]["rows"].as_array().unwrap().is_empty(),
            "{observed}"
        );
    }
}

/// The observations are in the text, whole and before the verdict.
fn assert_text(text: &str) {
    for words in [
        "where the time went: sink, exact steering, aligned",
        "%SAMP  IMAGE",
        "kernel locks:",
        "WSID  CPU  Name",
    ] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    let lines: Vec<&str> = text.lines().collect();
    let (verdict, others) = lines.split_last().unwrap();
    assert!(verdict.contains("the limit was"), "{verdict}");
    for line in others {
        assert!(!line.contains('\u{2026}'), "{line}");
    }
}

fn assert_profile(profile: &Value) {
    for table_name in ["workers", "softirq"] {
        let table = &profile[table_name];
        assert!(table["samples"].as_u64().unwrap() > 0, "{table_name}: {profile}");
        assert!(!table["rows"].as_array().unwrap().is_empty(), "{table_name}");
    }
    let rows = profile["softirq"]["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["image"] != ""), "{rows:?}");
}

/// The receive paths of the CPUs handled at least every frame that the workers received.
fn assert_softnet(softnet: &Value, step: &Value) {
    let sum = |rows: &Value, field: &str| -> u64 {
        let rows = rows.as_array().unwrap();
        rows.iter().map(|row| row[field].as_u64().unwrap()).sum()
    };
    let (handled, seen) = (
        sum(&softnet["rows"], "processed"),
        sum(&step["per_bucket"], "seen"),
    );
    assert!(handled >= seen, "{handled} handled, {seen} seen");
}

/// If clients run on other CPUs than their workers, the report names the waits for the receive lock or states that
/// there were none; if they share a CPU, there can be no wait for it in softirq.
fn assert_receive_lock(report: &Value) {
    let comparisons = report["lock_comparisons"].as_array().unwrap();
    let crossable = step(report, "sink", "aligned")["buckets_configured"]
        .as_u64()
        .unwrap()
        > 1;
    assert_eq!(comparisons.len(), if crossable { 2 } else { 1 });
    for comparison in comparisons {
        let sentence = comparison["sentence"].as_str().unwrap();
        let placement = comparison["placement"].as_str().unwrap();
        let locks = |mode: &str| step(report, mode, placement)["observed"]["locks"].clone();
        let (echo, sink) = (locks("echo"), locks("sink"));
        let waits = |locks: &Value| locks["receive_lock_waits"].as_u64().unwrap();
        if waits(&echo) + waits(&sink) == 0 {
            assert!(
                sentence.contains("nobody waited for the socket's receive lock"),
                "{sentence}"
            );
            continue;
        }
        let sink_waits = format!("sink {} times", waits(&sink));
        assert!(
            sentence.contains("for the socket's receive lock") && sentence.contains(&sink_waits),
            "{sentence}"
        );
        for locks in [echo, sink] {
            let rows = locks["rows"].as_array().unwrap();
            let named = rows.iter().filter(|row| row["receive_lock"] == true);
            let counted: u64 = named.map(|row| row["count"].as_u64().unwrap()).sum();
            assert_eq!(counted, waits(&locks), "{placement}: {rows:?}");
        }
    }
}

#[test]
fn where_it_is_forbidden_the_report_says_what_to_allow_and_the_run_goes_on() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if paranoid.trim().parse::<i32>().unwrap() < 1 {
        eprintln!(
            "skipped: kernel.perf_event_paranoid is {}, so every user may observe",
            paranoid.trim()
        );
        return;
    }
    let (_folder, program) = common::program_for_anyone();
    let lab = |more: &[&str]| {
        let mut lab = Command::new(&program);
        let experiment = "lab scale udp --max-steal 100% --duration 500ms --rounds 1 --models exact --buckets 1 \
--profile --locks --softnet";
        lab.args(experiment.split(' '));
        lab.args(more).current_dir("/");
        // Only root can change its user; any other user already lacks privileges.
        if is_root() {
            lab.uid(NOBODY).gid(NOBODY);
        }
        let output = lab.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{error}");
        String::from_utf8(output.stdout).unwrap()
    };
    let report = common::with_figures(|| serde_json::from_str(&lab(&["--json"])).unwrap());
    let of_step = step(&report, "echo", "aligned");
    assert!(of_step["seen_pps"].as_f64().unwrap() > 0.0);
    let observed = &of_step["observed"];
    assert!(observed["profile"].is_null() && observed["locks"].is_null());
    let profile = observed["unknown"]["profile"].as_str().unwrap();
    assert!(
        profile.contains("kernel.perf_event_paranoid=") && profile.contains("CAP_PERFMON"),
        "{profile}"
    );
    let locks = observed["unknown"]["locks"].as_str().unwrap();
    assert!(
        locks.contains("tracefs") || locks.contains("CAP_PERFMON"),
        "{locks}"
    );
    assert!(
        !observed["softnet"]["rows"].as_array().unwrap().is_empty(),
        "permitted observations are still reported"
    );
    let text = lab(&[]);
    assert_eq!(text.matches("not observed  profile: ").count(), 1, "{text}");
    assert_eq!(text.matches("not observed  locks: ").count(), 1, "{text}");
}
