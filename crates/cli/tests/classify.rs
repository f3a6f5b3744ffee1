//! `lab classify` as a user runs it: the whole matrix at a small size, the document's guarantees, and rejected
//! arguments.

use crate::common;
use crate::common::{Arguments, corelane, refused, run, run_json};
use corelane_tests::until;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const QUICK: &str = "lab classify --entries 20k --duration 1ms --rounds 2 --max-steal 100%";

fn steps(report: &Value) -> &Vec<Value> {
    report["steps"].as_array().expect("steps")
}

#[test]
fn the_whole_matrix_has_every_row_of_the_post_and_a_figure_or_a_reason_everywhere() {
    let report = run_json(&format!("{QUICK} --json"));
    assert_eq!(report["schema"], "corelane/classify/1");
    assert!(report["limit_lines_per_s"].as_f64().unwrap() > 0.0);
    for step in steps(&report) {
        for name in [
            "page_size",
            "lookups_per_s",
            "frames_per_s",
            "share_of_limit",
            "mem_read_mb_s",
            "mem_write_mb_s",
            "cpu_share",
        ] {
            let (value, reason) = (&step[name], &step["unknown"][name]);
            assert!(value.is_null() != reason.is_null(), "{name}: {step}");
            assert!(value.is_null() || value.as_f64().unwrap() > 0.0, "{name}: {step}");
        }
        assert_eq!(step["burst"], 1024);
        let full = step["entries"] == 20_000;
        let found = step["matched_share"].as_f64().unwrap_or(0.0);
        // Half the addresses are entries; of the others, two in 2^32 match by chance.
        let wrong = if full {
            (found - 0.5).abs() > 0.03
        } else {
            found > 0.0
        };
        assert!(!wrong, "{found}: {step}");
    }
    let rows = report["published"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 27);
    for row in rows {
        let step = &steps(&report)[row["step"].as_u64().expect("a step for each row") as usize];
        for name in [
            "table",
            "table_buckets",
            "batch",
            "prefetch",
            "stride",
            "lock",
            "burst",
        ] {
            assert_eq!(row[name], step[name], "{name}: {row}");
        }
    }
    assert!(!report["choices"].as_array().unwrap().is_empty());
    assert_eq!(report["interrupted"], false);
}

#[test]
fn lists_choose_steps_and_a_page_is_written_beside_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let (page, json) = (folder.path().join("page.html"), folder.path().join("run.json"));
    let output = run(&[
        &QUICK.words()[..],
        &[
            "--tables",
            "post,exact",
            "--buckets",
            "4096",
            "--batches",
            "4",
            "--strides",
            "1920",
        ],
        &["--distances", "32", "--full", "--html", page.to_str().unwrap()],
        &["--json", json.to_str().unwrap()],
    ]
    .concat());
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(
        std::fs::read_to_string(page)
            .unwrap()
            .contains("Which choices mattered")
    );
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    for step in steps(&report) {
        let rolls = step["prefetch_distance"] == 32;
        assert!(step["batch"] == 4 || rolls, "{step}");
        assert!(
            step["table_buckets"] == 4096 || step["table"] == "exact",
            "{step}"
        );
        assert_eq!(
            (&step["stride"], &step["entries"]),
            (&1920.into(), &20_000.into())
        );
    }
}

#[test]
fn a_dry_run_foretells_strides_and_measures_nothing() {
    let plan = run_json("lab classify --dry-run");
    assert_eq!(plan["trials"].as_array().unwrap().len(), 0);
    assert!(steps(&plan).len() > 100);
    let strides = plan["strides"].as_array().unwrap();
    assert!(strides.iter().any(|stride| stride["stride"] == 2048));
    assert!(strides.iter().all(|stride| stride["frames_per_s"].is_null()));
}

#[test]
fn what_cannot_be_measured_is_refused_by_its_flag() {
    for (flag, value) in [
        ("--strides", "32"),
        ("--batches", "2000"),
        ("--threads", "4096"),
        ("--buckets", "0"),
        ("--entries", "0"),
        ("--distances", "0"),
        ("--tables", "tree"),
        ("--locks", "spin"),
    ] {
        let refusal = refused(&["lab", "classify", flag, value], 2);
        assert!(refusal.contains(flag), "{refusal}");
    }
}

#[test]
fn an_interrupted_run_reports_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    let mut process = corelane(
        &[
            &[
                "lab",
                "classify",
                "--entries",
                "20k",
                "--duration",
                "20ms",
                "--rounds",
                "100",
            ],
            &["--threads", "1", "--json", path.to_str().unwrap()][..],
        ]
        .concat(),
    )
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    // The document is saved after every trial, so its existence means that something was measured.
    until("a trial is saved", || {
        assert!(process.try_wait().unwrap().is_none(), "it ended without a signal");
        path.exists()
    });
    let saved: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(
        saved["interrupted"], true,
        "the document of an unfinished run is marked as incomplete"
    );
    common::signal(process.id(), "INT");
    let text: Vec<String> = BufReader::new(process.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .collect();
    assert!(process.wait().unwrap().success());
    assert!(text.join(" ").contains("ended early"), "{text:?}");
    let report: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(report["interrupted"], true);
}
