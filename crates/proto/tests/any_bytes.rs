//! Requests and responses of arbitrary bytes: kept inputs of the fuzzer.

use crate::any_answer;
use crate::any_memcached;
use crate::any_request;
use crate::any_response;

use std::fs;

/// Every input of a kept corpus.
fn kept(target: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let inputs: Vec<Vec<u8>> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!inputs.is_empty(), "{folder} is empty");
    inputs
}

#[test]
fn what_fuzzing_of_requests_found_worth_keeping_holds() {
    kept("request").iter().for_each(|input| any_request::holds(input));
}

#[test]
fn what_fuzzing_of_answers_found_worth_keeping_holds() {
    kept("response")
        .iter()
        .for_each(|input| any_response::holds(input));
}

#[test]
fn what_fuzzing_of_memcached_found_worth_keeping_holds() {
    kept("memcached")
        .iter()
        .for_each(|input| any_memcached::holds(input));
}

#[test]
fn answers_of_memcached_are_the_same_however_they_arrive() {
    kept("answer").iter().for_each(|input| any_answer::holds(input));
}
