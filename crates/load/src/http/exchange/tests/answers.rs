//! What is counted of answers.

use super::*;
use crate::http::{RequestCounts, Tolerated};

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
fn counts_are_read_as_they_were_written() {
    let mut requests = Counts::<HttpCounts>::default().requests;
    requests.own.tolerated.folded_field = 3;
    requests.by_cause.count(Failure::Malformed);
    let text = serde_json::to_string(&requests).unwrap();
    assert!(text.contains(r#""folded_field":3"#), "{text}");
    assert_eq!(
        serde_json::from_str::<RequestCounts<HttpCounts>>(&text).unwrap(),
        requests
    );
}
