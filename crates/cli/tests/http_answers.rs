//! `load http` and what servers answer: what is taken, and what the documents say of it.

use crate::common::{run, run_json};
use crate::raw_http::{Answer, RawServer};
use serde_json::Value;

#[test]
fn answers_that_curl_and_wrk_take_are_taken_and_counted_and_refused_by_strict() {
    let server = RawServer::start(|count| {
        let answers: [&[u8]; 4] = [
            b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
            b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\nok\r\n0 \r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        ];
        Answer::Bytes(answers[count as usize % 4].to_vec())
    });
    let url = server.url();
    let load = [
        "load", "http", &url, "-c", "1", "-n", "8", "--drain", "5s", "--json",
    ];
    let document = run_json(&load);
    let requests = &document["requests"];
    assert_eq!(
        (&requests["ok"], &requests["failed"]),
        (&8.into(), &0.into()),
        "{requests}"
    );
    let kinds = ["bare_line_feed", "folded_field", "chunk_blank", "repeated_length"];
    for kind in kinds {
        assert_eq!(requests["tolerated"][kind], 2, "{kind}: {requests}");
    }
    assert_eq!(document["pools"][0]["requests"], *requests);
    let strict = run(&[&load[..], &["--strict"]].concat());
    let document: Value = serde_json::from_slice(&strict.stdout).unwrap();
    let requests = &document["requests"];
    assert_eq!(
        (&requests["ok"], &requests["malformed"]),
        (&0.into(), &8.into()),
        "{requests}"
    );
    assert!(requests["tolerated"].is_null(), "{requests}");
}

/// A server that redirects `/old` to `/`.
fn redirecting() -> RawServer {
    RawServer::by_head(|head| {
        let answer = match head.starts_with(b"GET /old ") {
            true => "HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
            false => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        };
        Answer::Bytes(answer.as_bytes().to_vec())
    })
}

/// The value of the first column whose name starts so.
fn share_in_csv(csv: &str, start: &str) -> f64 {
    let mut rows = csv.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
    let place = names.iter().position(|name| name.starts_with(start));
    values[place.unwrap_or_else(|| panic!("{csv}"))].parse().unwrap()
}

#[test]
fn every_status_is_in_text_json_csv_and_timeline_and_redirects_are_named() {
    let (server, folder) = (redirecting(), tempfile::tempdir().unwrap());
    let url = format!("{}old", server.url());
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [json, csv, timeline] = ["run.json", "run.csv", "run.jsonl"].map(file);
    let output = run(&[
        "load",
        "http",
        &url,
        "-c",
        "1",
        "-n",
        "10",
        "--drain",
        "5s",
        &format!("--json={json}"),
        "--export-csv",
        &csv,
        "--timeline",
        &timeline,
        "--fail-if",
        "3xx < 100%",
        "--fail-if",
        "4xx > 0%",
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let has = |line: &str, count: &str| {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines()
            .any(|found| words(found).starts_with(&format!("{line} {count} ")))
    };
    assert!(has("status 301", "10"), "{text}");
    assert!(
        text.contains("10 answers were redirects and were not followed"),
        "{text}"
    );
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let document: Value = serde_json::from_str(&read(&json)).unwrap();
    assert_eq!(document["requests"]["statuses"], serde_json::json!({"301": 10}));
    assert_eq!(document["pools"][0]["requests"]["statuses"]["301"], 10);
    assert!((share_in_csv(&read(&csv), "3xx") - 1.0).abs() < 1e-9);
    let lines = read(&timeline);
    let lines = lines
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(
        lines
            .map(|line| line["counts"]["3xx"].as_u64().unwrap())
            .sum::<u64>(),
        10
    );
}

#[test]
fn redirects_are_followed_on_request_and_expected_statuses_may_be_a_class() {
    let server = redirecting();
    let url = format!("{}old", server.url());
    let load = [
        "load", "http", &url, "-c", "1", "-n", "5", "--drain", "5s", "--json",
    ];
    let document = run_json(&[&load[..], &["--follow", "3", "--expect-status", "200"]].concat());
    let requests = &document["requests"];
    assert_eq!(
        requests["statuses"],
        serde_json::json!({"200": 5, "301": 5}),
        "{requests}"
    );
    assert_eq!(
        (&requests["redirects_followed"], &requests["ok"]),
        (&5.into(), &5.into())
    );
    assert_eq!((&requests["begun"], &requests["sent"]), (&5.into(), &10.into()));
    assert_eq!(server.count(), 10);
    let output = run(&[&load[..], &["--expect-status", "200,4xx"]].concat());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["requests"]["wrong_status"], 5);
}

#[test]
fn malformed_answers_have_the_reason_beside_their_count() {
    let server =
        RawServer::start(|_| Answer::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n".to_vec()));
    let output = run(&["load", "http", &server.url(), "-c", "1", "-n", "3", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let because = &document["requests"]["malformed_because"];
    assert_eq!(
        *because,
        serde_json::json!({"Content-Length is not one number": 3})
    );
}
