//! `lab scale … --quick`: a short plan on machines of any size, and a report that says what it is worth.

use crate::common::{refused, run, run_json};
use std::fs;

/// The longest that a trial takes besides its planned duration, by far: two processes start, connect and end.
const AROUND_A_TRIAL_S: f64 = 1.0;

/// Seconds after which a quick run of UDP has its first table.
const FIRST_TABLE_S: f64 = 15.0;

#[test]
fn a_quick_plan_has_one_short_trial_per_step_with_one_and_with_all_buckets_active() {
    for what in ["udp", "http", "tcp"] {
        let plan = run_json(&format!(
            "lab scale {what} --quick --buckets 6 --share-cpus --dry-run"
        ));
        assert_eq!(
            (&plan["quick"], &plan["rounds"]),
            (&true.into(), &1.into()),
            "{what}"
        );
        let steps = plan["steps"].as_array().unwrap();
        assert!(!steps.is_empty());
        for step in steps {
            assert!([1, 6].map(Into::into).contains(&step["buckets_active"]), "{step}");
        }
        let trial = plan["duration_s"].as_f64().unwrap();
        let most = steps.len() as f64 * (trial + AROUND_A_TRIAL_S);
        assert!(
            what != "udp" || most < FIRST_TABLE_S,
            "{} steps of {trial} s",
            steps.len()
        );
        let usual = run_json(&format!("lab scale {what} --buckets 6 --share-cpus --dry-run"));
        assert_eq!(
            (&usual["quick"], &usual["rounds"]),
            (&false.into(), &3.into()),
            "{what}"
        );
        assert!(usual["steps"].as_array().unwrap().len() > steps.len(), "{what}");
    }
    for flag in ["--rounds 2", "--duration 1s"] {
        let error = refused(&format!("lab scale udp --quick {flag}"), 2);
        assert!(
            error.contains("--quick") && error.contains("cannot be used with"),
            "{error}"
        );
    }
}

#[test]
fn a_quick_report_says_in_every_form_that_it_is_indicative() {
    let folder = tempfile::tempdir().unwrap();
    let [json, html, markdown] =
        ["run.json", "run.html", "run.md"].map(|name| folder.path().join(name).display().to_string());
    let lab = "lab scale udp --quick --max-steal 100% --models exact --modes echo --placements aligned";
    let forms = format!("--json {json} --html {html} --export-markdown {markdown}");
    let output = run(&format!("{lab} {forms}"));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\nIndicative: "), "{text}");
    assert!(text.contains("\nquick    one short trial per step"), "{text}");
    for form in [&html, &markdown] {
        let page = fs::read_to_string(form).unwrap();
        for words in ["Indicative: ", "the numbers are indicative"] {
            assert!(page.contains(words), "{form}: {words}");
        }
    }
    let shown = run(&format!("report show {json}"));
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), text);
}
