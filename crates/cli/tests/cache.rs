//! `corelane lab cache` as a user runs it.

use crate::common::{refused, run, run_json};

#[test]
fn hit_ratios_end_with_the_misses_of_the_store() {
    let arguments = "lab cache --requests 2k --keys 300 --sizes 20,100";
    let output = run(arguments);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for words in ["memcached", "S3-FIFO", "SIEVE", "Zipf 1.3", "lifetimes"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    assert!(text.contains(" The store misses "), "{text}");
    assert!(text.ends_with(" by shape and size."), "{text}");
    let document = run_json(&format!("{arguments} --json"));
    assert_eq!(document["schema"], "corelane/cache/1");
    assert_eq!(document["rows"].as_array().unwrap().len(), 22);
    assert_eq!(document, run_json(&format!("{arguments} --json")));
}

#[test]
fn a_size_is_in_percent() {
    let error = refused(&["lab", "cache", "--sizes", "0"], 2);
    assert!(error.contains("--sizes"), "{error}");
}
