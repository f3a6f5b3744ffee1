//! What a parser of responses takes that RFC 9112 does not permit servers to send, and what it refuses all the same.

use crate::answers;

use answers::{Answer, answers, tolerated};
use corelane_proto::http::HeadError;
use corelane_proto::http::chunked::ChunkedError;
use corelane_proto::http::field::FieldError;
use corelane_proto::http::response::{Deviation, Item, LastHead, Limits, Parser, ResponseError};

use Deviation::{BareLineFeed, ChunkBlank, FoldedField, RepeatedLength};

const ALL: [Deviation; 4] = [BareLineFeed, FoldedField, ChunkBlank, RepeatedLength];

/// A response, its body, one of its fields, and its deviations.
type Case = (
    &'static str,
    &'static str,
    (&'static str, &'static str),
    &'static [Deviation],
);

/// Responses that persist.
fn deviating() -> Vec<Case> {
    [deviating_lines(), deviating_fields(), deviating_framing()].concat()
}

fn deviating_lines() -> Vec<Case> {
    vec![
        (
            "HTTP/1.1 200 OK\nContent-Length: 5\nA: b\n\nhello",
            "hello",
            ("A", "b"),
            &[BareLineFeed],
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\nok",
            "ok",
            ("Content-Length", "2"),
            &[BareLineFeed],
        ),
        ("HTTP/1.1 204\nA: b\r\n\r\n", "", ("A", "b"), &[BareLineFeed]),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n6;a=\"b\"\n world\r\n0\nT: u\n\n",
            "hello world",
            ("Transfer-Encoding", "chunked"),
            &[BareLineFeed],
        ),
        (
            "HTTP/1.1 103 Hint\nA: b\n\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            "x",
            ("Content-Length", "1"),
            &[BareLineFeed],
        ),
    ]
}

fn deviating_fields() -> Vec<Case> {
    vec![
        (
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\td\r\nContent-Length: 1\r\n\r\nx",
            "x",
            ("A", "b   c  \td"),
            &[FoldedField],
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length:\r\n 3\r\n\r\nabc",
            "abc",
            ("Content-Length", "3"),
            &[FoldedField],
        ),
        // A line of blanks alone continues the field, too.
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n \t\r\n\r\nx",
            "x",
            ("Content-Length", "1"),
            &[FoldedField],
        ),
        (
            "HTTP/1.1 200 OK\nConnection: a,\n keep-alive\nContent-Length: 0\n\n",
            "",
            ("Connection", "a,  keep-alive"),
            &[BareLineFeed, FoldedField],
        ),
    ]
}

fn deviating_framing() -> Vec<Case> {
    vec![
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n1;a=b\t \r\n!\r\n1;c \r\n!\r\n0  \r\n\r\n",
            "hello!!",
            ("Transfer-Encoding", "chunked"),
            &[ChunkBlank],
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
            "hello",
            ("Content-Length", "5"),
            &[RepeatedLength],
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 05 ,5\r\n\r\nhello",
            "hello",
            ("Content-Length", "5, 05 ,5"),
            &[RepeatedLength],
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
            "",
            ("Content-Length", "0"),
            &[RepeatedLength],
        ),
        // Nothing to tolerate.
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            "x",
            ("Content-Length", "1"),
            &[],
        ),
    ]
}

fn check(answer: &Answer, (input, body, field, expected): Case) {
    assert_eq!(answer.body, body.as_bytes(), "{input:?}");
    let field = (field.0.as_bytes().to_vec(), field.1.as_bytes().to_vec());
    assert!(
        answer.fields.contains(&field),
        "{input:?} gives {:?}",
        answer.fields
    );
    assert!(answer.keep_alive, "{input:?}");
    for deviation in ALL {
        assert_eq!(
            answer.deviations.has(deviation),
            expected.contains(&deviation),
            "{input:?}: {deviation:?}"
        );
    }
}

#[test]
fn what_other_clients_take_is_taken_and_named_at_every_split_and_refused_by_default() {
    for case in deviating() {
        let input = case.0.as_bytes();
        let whole = tolerated(input, &[], false).unwrap_or_else(|error| panic!("{:?}: {error}", case.0));
        assert_eq!(whole.len(), 1, "{:?}", case.0);
        check(&whole[0], case);
        for first in 0..=input.len() {
            for second in first..=input.len() {
                let read = tolerated(input, &[first, second], false);
                assert_eq!(read.as_ref(), Ok(&whole), "{:?} at {first} and {second}", case.0);
            }
        }
        let bytes: Vec<usize> = (1..input.len()).collect();
        assert_eq!(
            tolerated(input, &bytes, false),
            Ok(whole),
            "{:?} byte by byte",
            case.0
        );
        assert_eq!(
            answers(input, &[], false).is_err(),
            !case.3.is_empty(),
            "{:?}",
            case.0
        );
    }
}

#[test]
fn deviations_are_those_of_one_response_in_a_row() {
    let row: String = deviating().into_iter().map(|(input, ..)| input).collect();
    for cut in 0..row.len() {
        let read = tolerated(row.as_bytes(), &[cut], false).unwrap();
        assert_eq!(read.len(), deviating().len());
        for (answer, case) in read.iter().zip(deviating()) {
            check(answer, case);
        }
    }
}

#[test]
fn a_repeated_head_has_its_deviations_each_time() {
    for case in deviating() {
        let (mut parser, mut last) = (Parser::default(), LastHead::default());
        parser.tolerate(true);
        for _ in 0..3 {
            let (mut rest, mut heads) = (case.0.as_bytes(), 0);
            loop {
                let (used, item) = parser.feed_after(rest, &mut last).unwrap();
                rest = &rest[used..];
                match item {
                    Some(Item::Head(mut head)) => {
                        heads += 1;
                        let field = (case.2.0.as_bytes(), case.2.1.as_bytes());
                        assert!(head.fields.any(|other| other == field), "{:?}", case.0);
                    }
                    Some(Item::End) => break,
                    Some(_) => {}
                    None => panic!("{:?} has no end", case.0),
                }
            }
            assert_eq!((rest.len(), heads), (0, 1), "{:?}", case.0);
            let met = parser.deviations();
            let met: Vec<Deviation> = ALL.into_iter().filter(|deviation| met.has(*deviation)).collect();
            assert_eq!(met, case.3, "{:?}", case.0);
        }
    }
}

#[test]
fn what_leaves_the_end_of_a_body_open_is_refused_all_the_same() {
    use ResponseError::{Chunked, Head};
    let chunked = |lines: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{lines}");
    let with = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
    for (input, error) in [
        (chunked("5 5\r\nhello"), Chunked(ChunkedError::Extension)),
        (chunked(" 5\r\nhello"), Chunked(ChunkedError::Size)),
        (chunked("\nhello"), Chunked(ChunkedError::Size)),
        (chunked("5;\r\nhello"), Chunked(ChunkedError::Extension)),
        (chunked("5;a=\nhello"), Chunked(ChunkedError::Extension)),
        (chunked("5\r\nhello!\n"), Chunked(ChunkedError::DataEnd)),
        (chunked("5\rhello"), Chunked(ChunkedError::LineEnd)),
        (chunked("0\r\nT\n\n"), Chunked(ChunkedError::Trailer)),
        (
            with("Content-Length: 5\r\nContent-Length: 6"),
            Head(HeadError::ContentLength),
        ),
        (with("Content-Length: 5, 6"), Head(HeadError::ContentLength)),
        (with("Content-Length: 5,"), Head(HeadError::ContentLength)),
        (with("Content-Length: 5 5"), Head(HeadError::ContentLength)),
        (with("Content-Length: 5\r\n 5"), Head(HeadError::ContentLength)),
        (
            with("Content-Length: 5\nTransfer-Encoding: chunked"),
            Head(HeadError::TwoFramings),
        ),
        (
            with(" folded: at the start"),
            Head(HeadError::Field(FieldError::Folded)),
        ),
        (with("Name : a"), Head(HeadError::Field(FieldError::Name))),
        (with("A: b\rc"), Head(HeadError::Field(FieldError::Value))),
    ] {
        for cut in 0..=input.len() {
            let read = tolerated(input.as_bytes(), &[cut], false);
            assert_eq!(read, Err(error), "{input:?} cut at {cut}");
        }
    }
}

#[test]
fn a_field_that_is_continued_for_ever_reaches_the_limit_of_a_head() {
    let limits = Limits {
        head_bytes: 4_096,
        ..Limits::default()
    };
    let endless = format!("HTTP/1.1 200 OK\r\nA: b{}", "\r\n c".repeat(2_000));
    for piece in [1, 7, endless.len()] {
        let mut parser = Parser::new(limits);
        parser.tolerate(true);
        let mut pieces = endless
            .as_bytes()
            .chunks(piece)
            .map(|piece| parser.feed(piece).map(|(used, _)| used));
        let error = pieces.find_map(Result::err);
        assert_eq!(error, Some(ResponseError::HeadTooLarge), "in pieces of {piece}");
    }
}
