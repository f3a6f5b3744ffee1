//! `load http` and what servers answer: what is taken, and what the documents say of it.

use crate::common::run_json;
use crate::raw_http::{Answer, RawServer};

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
    let strict = crate::common::run(&[&load[..], &["--strict"]].concat());
    let document: serde_json::Value = serde_json::from_slice(&strict.stdout).unwrap();
    let requests = &document["requests"];
    assert_eq!(
        (&requests["ok"], &requests["malformed"]),
        (&0.into(), &8.into()),
        "{requests}"
    );
    assert!(requests["tolerated"].is_null(), "{requests}");
}
