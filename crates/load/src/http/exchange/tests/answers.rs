//! What is counted of answers.

use super::*;
use crate::http::{RequestCounts, Tolerated};
use crate::streams::OwnCounts;

#[test]
fn answers_that_other_clients_take_are_taken_and_counted_by_kind_and_refused_if_strict() {
    let tolerated = Tolerated::default;
    for (answer, counted) in [
        (
            &b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok"[..],
            Tolerated {
                bare_line_feed: 2,
                ..tolerated()
            },
        ),
        (
            b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok",
            Tolerated {
                folded_field: 2,
                ..tolerated()
            },
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\nok\n0\r\n\r\n",
            Tolerated {
                bare_line_feed: 2,
                chunk_blank: 2,
                ..tolerated()
            },
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
            Tolerated {
                repeated_length: 2,
                ..tolerated()
            },
        ),
        (OK, tolerated()),
    ] {
        let mut bench = Bench::new(|_| {});
        for now in [0, 2] {
            bench.ask(now, now);
            assert_eq!(bench.receive(answer, now + 1), answered(1, Next::Ready));
        }
        assert_eq!(
            bench.counts.requests.own.tolerated,
            counted,
            "{}",
            answer.escape_ascii()
        );
        let mut strict = Bench::new(|plan| plan.pools[0].protocol.strict = true);
        strict.ask(0, 0);
        let expected = match answer == OK {
            true => answered(1, Next::Ready),
            false => failed(Failure::Malformed, Next::Reset),
        };
        assert_eq!(strict.receive(answer, 1), expected, "{}", answer.escape_ascii());
        assert_eq!(strict.counts.requests.own.tolerated, tolerated());
    }
}

#[test]
fn an_answer_that_ends_with_its_connection_counts_what_was_tolerated_too() {
    let mut bench = Bench::new(|_| {});
    bench.ask(0, 0);
    assert_eq!(bench.receive(b"HTTP/1.1 200 OK\n\nok", 1), WAIT);
    let outcome = bench.take(at(2), Input::PeerClosed { genuine: true });
    assert_eq!(outcome, answered(2, Next::Close));
    assert_eq!(bench.counts.requests.own.tolerated.bare_line_feed, 1);
}

#[test]
fn final_statuses_and_what_is_wrong_with_malformed_answers_are_counted() {
    let mut bench = Bench::new(|_| {});
    for (now, answer) in [
        (
            0,
            &b"HTTP/1.1 301 Moved\r\nLocation: /a\r\nContent-Length: 0\r\n\r\n"[..],
        ),
        (
            2,
            b"HTTP/1.1 103 Hint\r\n\r\nHTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n",
        ),
        (4, b"HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n"),
        (6, OK),
    ] {
        bench.ask(now, now);
        bench.receive(answer, now + 1);
    }
    let own = &bench.counts.requests.own;
    assert_eq!(own.statuses, [(200, 1), (301, 2), (429, 1)].into());
    assert_eq!(own.by_class(), Some([1, 2, 1, 0]));
    let note = own.note().unwrap();
    assert!(
        note.starts_with("2 answers were redirects and were not followed: --follow"),
        "{note}"
    );
    assert!(own.malformed_because.is_empty());
    assert_eq!(bench.counts.requests.own.redirects_followed, 0);
    for (answer, reason) in [
        (
            &b"no answer\r\n"[..],
            "the answer does not start with HTTP/1.1 or HTTP/1.0",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nx",
            "bytes follow the answer",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "Content-Length is not one number",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 5\r\n",
            "a chunk extension is not",
        ),
    ] {
        let mut bench = Bench::new(|_| {});
        bench.ask(0, 0);
        assert_eq!(bench.receive(answer, 1), failed(Failure::Malformed, Next::Reset));
        let because = &bench.counts.requests.own.malformed_because;
        let (found, count) = because.first_key_value().unwrap();
        assert!(found.starts_with(reason) && *count == 1, "{because:?}");
    }
}

#[test]
fn counts_are_read_as_they_were_written() {
    let counts = HttpCounts {
        statuses: [(301, 2), (429, 1)].into(),
        malformed_because: [("bytes follow the answer".to_owned(), 1)].into(),
        tolerated: Tolerated {
            folded_field: 3,
            ..Tolerated::default()
        },
        ..HttpCounts::default()
    };
    let mut requests = Counts::<HttpCounts>::default().requests;
    requests.own = counts;
    let text = serde_json::to_string(&requests).unwrap();
    assert!(text.contains(r#""statuses":{"301":2,"429":1}"#), "{text}");
    assert_eq!(
        serde_json::from_str::<RequestCounts<HttpCounts>>(&text).unwrap(),
        requests
    );
    let earlier = serde_json::to_value(Counts::<HttpCounts>::default().requests).unwrap();
    assert!(earlier["statuses"].is_null() && earlier["redirects_followed"].is_null());
}

#[test]
fn a_request_whose_own_field_closes_the_connection_is_the_last_on_it() {
    for (value, next) in [("x, Close", Next::Wait), ("closed", Next::Ready)] {
        let mut bench = Bench::new(|plan| {
            let head = format!("GET / HTTP/1.1\r\nHost: server\r\nConnection: {value}\r\n\r\n");
            plan.pools[0].protocol.requests[0].head = head;
        });
        bench.ask(0, 0);
        // The server may not say so.
        assert_eq!(bench.receive(OK, 1), answered(1, next), "{value}");
    }
}

fn redirect(status: u16, location: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 2\r\n\r\nno").into_bytes()
}

/// What a bench writes for the redirect of a POST.
fn followed(status: u16, location: &str) -> Option<String> {
    let mut bench = Bench::new(|plan| {
        upload(plan, 4);
        let http = &mut plan.pools[0].protocol;
        http.follow = 2;
        let request = &mut http.requests[0];
        request.method = "POST".to_owned();
        request.head =
            "POST /a/b HTTP/1.1\r\nHost: server:80\r\nContent-Length: 4\r\nX: y\r\n\r\n".to_owned();
        request.target = "/a/b".to_owned();
    });
    bench.ask(0, 0);
    let before = bench.out.bytes.len();
    let outcome = bench.receive(&redirect(status, location), 1);
    let written = String::from_utf8(bench.out.bytes[before..].to_vec()).unwrap();
    if outcome != WAIT {
        assert_eq!(outcome, failed(Failure::WrongStatus, Next::Ready));
        return None;
    }
    assert_eq!(
        bench.receive(OK, 7),
        answered(7, Next::Ready),
        "from when the first was due"
    );
    let counts = &bench.counts.requests;
    assert_eq!((counts.own.redirects_followed, counts.sent), (1, 2));
    assert_eq!(counts.own.statuses, [(200, 1), (status, 1)].into());
    assert_eq!(counts.own.note(), None);
    Some(written)
}

#[test]
fn a_redirect_on_the_same_server_is_followed_as_rfc_9110_has_it() {
    let get = |target| {
        Some(format!(
            "GET {target} HTTP/1.1\r\nHost: server:80\r\nX: y\r\n\r\n"
        ))
    };
    let post = |target| {
        let fields = "Host: server:80\r\nContent-Length: 4\r\nX: y\r\n\r\n";
        Some(format!("POST {target} HTTP/1.1\r\n{fields}0123"))
    };
    for (status, location, written) in [
        (301, "/c?d", get("/c?d")),
        (302, "c", get("/a/c")),
        (303, "http://server/c", get("/c")),
        (307, "/c", post("/c")),
        (308, "//server:80/c#d", post("/c")),
        (301, "http://elsewhere/c", None),
        (301, "https://server/c", None),
        (301, "http://server:8080/c", None),
        (301, "/c d", None),
        (300, "/c", None),
    ] {
        assert_eq!(followed(status, location), written, "{status} to {location}");
    }
}

#[test]
fn redirects_are_followed_a_number_of_times_and_not_on_a_connection_that_closes() {
    let mut bench = Bench::new(|plan| plan.pools[0].protocol.follow = 2);
    bench.ask(0, 0);
    let round = redirect(302, "/");
    assert_eq!(bench.receive(&round, 1), WAIT);
    assert_eq!(bench.receive(&round, 2), WAIT);
    assert_eq!(
        bench.receive(&round, 3),
        failed(Failure::WrongStatus, Next::Ready)
    );
    let own = &bench.counts.requests.own;
    assert_eq!((own.redirects_followed, own.statuses[&302]), (2, 3));
    assert!(own.note().unwrap().starts_with("1 answers"));
    // The next request begins with the planned one.
    bench.out.bytes.clear();
    bench.ask(4, 4);
    assert!(bench.out.bytes.starts_with(b"GET / HTTP/1.1\r\n"));
    assert_eq!(bench.receive(OK, 5), answered(1, Next::Ready));
    let mut closing = Bench::new(|plan| plan.pools[0].protocol.follow = 2);
    closing.ask(0, 0);
    let answer = b"HTTP/1.1 302 Moved\r\nLocation: /\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(
        closing.receive(answer, 1).settled,
        Some(Settled::Failed(Failure::WrongStatus))
    );
    assert_eq!(closing.counts.requests.own.redirects_followed, 0);
}
