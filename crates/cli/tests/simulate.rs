//! `corelane lab simulate` as a user runs it.

use crate::common::{refused, run, run_json};

#[test]
fn the_human_form_fits_100_columns_and_ends_with_the_conclusion() {
    let output = run("lab simulate --buckets 2,8,1024 --sizes zipf:1.1 --rounds 2");
    let errors = String::from_utf8_lossy(&output.stderr);
    let progress = |line: &str| line.contains(" of ");
    assert!(
        output.status.success() && errors.lines().all(progress),
        "{output:?}"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let conclusion = text.lines().last().unwrap();
    assert!(conclusion.contains("the largest flow"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn the_document_repeats_for_a_seed() {
    let simulate = [
        "lab",
        "simulate",
        "--buckets",
        "4",
        "--table-size",
        "128",
        "--rounds",
        "3",
        "--flows",
        "1k",
    ];
    let arguments = [&simulate[..], &["--list-flows", "--json"]].concat();
    let document = run_json(&arguments);
    assert_eq!(document["schema"], "corelane/simulate/1");
    assert_eq!(document["flows"].as_array().unwrap().len(), 1000);
    assert_eq!(document["trials"].as_array().unwrap().len(), 3);
    assert_eq!(run_json(&arguments), document);
    let other = run_json(&[&arguments[..], &["--seed", "2"]].concat());
    assert_ne!(other["flows"], document["flows"]);
}

#[test]
fn a_flow_of_the_document_lands_where_the_calculator_says() {
    let document =
        run_json("lab simulate --buckets 5 --table-size 64 --rounds 1 --flows 20 --list-flows --json");
    for flow in document["flows"].as_array().unwrap() {
        let (source, destination) = (
            flow["source"].as_str().unwrap(),
            flow["destination"].as_str().unwrap(),
        );
        let hash = run_json(&format!(
            "hash {source} {destination} --buckets 5 --table-size 64 --json"
        ));
        assert_eq!(hash["hash_4tuple"], flow["hash"]);
    }
}

#[test]
fn the_examples_of_the_help_work() {
    let help = String::from_utf8(run("lab simulate --help").stdout).unwrap();
    let (_, examples) = help.split_once("Examples:\n").unwrap();
    let examples: Vec<&str> = examples
        .lines()
        .filter_map(|line| line.trim().strip_prefix("corelane "))
        .collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let arguments: Vec<&str> = example.split(' ').collect();
        let output = run(&arguments);
        assert!(
            output.status.success(),
            "{example}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn what_cannot_be_simulated_is_refused_with_the_flag_named() {
    let cases = [
        (["--buckets", "2000"], "--buckets"),
        (["--buckets", "many"], "--buckets"),
        (["--table-size", "4097"], "--table-size"),
        (["--flows", "2M"], "--flows"),
        (["--datagrams", "5"], "--datagrams"),
        (["--sizes", "pareto"], "--sizes"),
        (["--sizes", "elephants:99999:5%"], "--sizes"),
        (["--hash", "3tuple"], "--hash"),
        (["--key", "6d5a"], "--key"),
        (["--clients", "10.0.0.0/8"], "--clients"),
        (["--server", "[::1]:80"], "--server"),
        (["--rounds", "0"], "--rounds"),
        (["--tolerance", "2"], "--tolerance"),
    ];
    for (wrong, flag) in cases {
        let error = refused(&[&["lab", "simulate"], &wrong[..]].concat(), 2);
        assert!(error.contains(flag), "{wrong:?}: {error}");
    }
    let both = refused("lab simulate --buckets 256 --table-size 128", 2);
    assert!(
        both.contains("--table-size") && both.contains("--buckets"),
        "{both}"
    );
}
