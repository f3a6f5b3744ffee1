//! The response parser compared with `httparse`: every split gives the same result, and heads are read alike.

use crate::answers;

use answers::{answers, httparse_head};
use corelane_proto::http::HeadError;
use corelane_proto::http::response::{Framing, Item, LastHead, Limits, Parser, ResponseError};
use proptest::prelude::*;

/// Complete responses, each with its body and whether the connection persists.
fn examples() -> Vec<(&'static [u8], &'static [u8], bool)> {
    vec![
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", true),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nConnection: close\r\n\r\n", b"", false),
        (b"HTTP/1.1 404\r\nContent-Length: 1\r\n\r\nx", b"x", true),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", true),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", b"", true),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"until the end", false),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok", b"ok", true),
        (b"HTTP/1.1 200 \r\nServer: a\r\nX:\r\n\r\n", b"", false),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nT: u\r\n\r\n",
            b"abcd",
            true,
        ),
    ]
}

#[test]
fn every_split_and_every_pair_of_splits_parses_to_what_httparse_reads() {
    for (input, body, keep_alive) in examples() {
        let (mut expected, _) = httparse_head(input).unwrap().unwrap();
        expected.body = body.to_vec();
        expected.keep_alive = keep_alive;
        let expected = Ok(vec![expected]);
        let shown = String::from_utf8_lossy(input);
        assert_eq!(answers(input, &[], false), expected, "{shown:?}");
        for first in 0..=input.len() {
            for second in first..=input.len() {
                assert_eq!(
                    answers(input, &[first, second], false),
                    expected,
                    "{shown:?} at {first} and {second}"
                );
            }
        }
        let bytes: Vec<usize> = (1..input.len()).collect();
        assert_eq!(answers(input, &bytes, false), expected, "{shown:?} byte by byte");
    }
}

#[test]
fn answers_in_a_row_are_told_apart_at_every_split() {
    let row: Vec<u8> = examples()
        .into_iter()
        .filter(|(.., keep_alive)| *keep_alive)
        .flat_map(|(input, ..)| input)
        .copied()
        .collect();
    let whole = answers(&row, &[], false).unwrap();
    assert_eq!(whole.len(), 6);
    for cut in 0..row.len() {
        assert_eq!(answers(&row, &[cut], false).unwrap(), whole, "at {cut}");
    }
}

#[test]
fn informational_answers_come_before_the_one_that_counts() {
    let input = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for cut in 0..input.len() {
        let read = answers(input, &[cut], false).unwrap();
        assert_eq!(
            (read.len(), read[0].informational.as_slice()),
            (1, &[100, 103][..])
        );
        assert_eq!((read[0].status, read[0].body.as_slice()), (200, &b"ok"[..]));
    }
}

#[test]
fn an_answer_to_head_has_no_body_whatever_its_length_says() {
    for framing in ["Content-Length: 99", "Transfer-Encoding: chunked"] {
        let input = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
        let read = answers(input.as_bytes(), &[], true).unwrap();
        assert_eq!((read.len(), read[0].body.len(), read[0].keep_alive), (1, 0, true));
    }
}

#[test]
fn what_two_readers_could_frame_differently_is_refused_at_every_split() {
    use ResponseError as Error;
    let cases: [(&[u8], Error); 20] = [
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
            Error::Head(HeadError::ContentLength),
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
            Error::Head(HeadError::ContentLength),
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
            Error::Head(HeadError::ContentLength),
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
            Error::Head(HeadError::ContentLength),
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
            Error::Head(HeadError::ContentLength),
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            Error::Head(HeadError::TwoFramings),
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
            Error::Head(HeadError::TransferEncoding),
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            Error::Head(HeadError::TransferEncoding),
        ),
        (
            b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            Error::Head(HeadError::TransferEncoding),
        ),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n", Error::BareLineFeed),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\n", Error::BareLineFeed),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
            Error::Head(HeadError::Field(corelane_proto::http::field::FieldError::Name)),
        ),
        (
            b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
            Error::Head(HeadError::Field(corelane_proto::http::field::FieldError::Folded)),
        ),
        (
            b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
            Error::Head(HeadError::Field(corelane_proto::http::field::FieldError::Value)),
        ),
        (b"HTTP/2 200\r\n\r\n", Error::Version),
        (b"\r\nHTTP/1.1 200 OK\r\n\r\n", Error::Version),
        (b"HTTP/1.1 20 OK\r\n\r\n", Error::Status),
        (b"HTTP/1.1 2000\r\n\r\n", Error::Status),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", Error::Upgrade),
        (b"HTTP/1.1 200 O\x00K\r\n\r\n", Error::Reason),
    ];
    for (input, error) in cases {
        let shown = String::from_utf8_lossy(input);
        for cut in 0..=input.len() {
            assert_eq!(answers(input, &[cut], false), Err(error), "{shown:?} at {cut}");
        }
    }
}

#[test]
fn an_answer_cut_short_is_told_from_one_that_never_came() {
    let input = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let head = input.len() - 5;
    assert_eq!(answers(b"", &[], false), Ok(vec![]));
    for length in 1..input.len() {
        let expected = if length < head {
            ResponseError::ClosedInHead
        } else {
            ResponseError::ClosedInBody
        };
        assert_eq!(
            answers(&input[..length], &[], false),
            Err(expected),
            "{length} bytes"
        );
    }
}

#[test]
fn a_head_over_a_limit_is_refused_at_every_split() {
    let limits = Limits {
        head_bytes: 64,
        fields: 3,
        informational: 1,
    };
    let refused = |input: &[u8], cut: usize| {
        let mut parser = Parser::new(limits);
        let (first, second) = input.split_at(cut);
        let failed = parser.feed(first).err();
        failed.or_else(|| parser.feed(second).err())
    };
    let long = b"HTTP/1.1 200 OK\r\nA: 01234567890123456789012345678901234567890\r\n\r\n";
    let exact = b"HTTP/1.1 200 OK\r\nA: 0123456789012345678901234567890123456789\r\n\r\n";
    let many = b"HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n\r\n";
    assert_eq!(exact.len(), 64);
    for cut in 0..exact.len() {
        assert_eq!(refused(long, cut), Some(ResponseError::HeadTooLarge), "at {cut}");
        assert_eq!(refused(exact, cut), None, "at {cut}");
    }
    for cut in 0..many.len() {
        assert_eq!(
            refused(many, cut),
            Some(ResponseError::Head(HeadError::TooManyFields(3))),
            "at {cut}"
        );
    }
    let mut parser = Parser::new(limits);
    let (used, item) = parser
        .feed(b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 100 \r\n\r\n")
        .unwrap();
    assert_eq!((used, item), (17, Some(Item::Informational(100))));
    assert_eq!(
        parser.feed(b"HTTP/1.1 100 \r\n\r\n"),
        Err(ResponseError::TooManyInformational)
    );
}

#[test]
fn nothing_is_kept_between_answers() {
    let mut parser = Parser::default();
    let input = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for half in [&input[..20], &input[20..]] {
        let mut rest = half;
        while let (used, Some(item)) = parser.feed(rest).unwrap() {
            if let Item::Head(head) = item {
                assert_eq!(head.framing, Framing::Length(2));
            }
            rest = &rest[used..];
        }
    }
    assert!(parser.is_between_answers());
    assert!(
        size_of::<Parser>() <= 96,
        "{} bytes per connection",
        size_of::<Parser>()
    );
}

/// Text that resembles a response closely enough to pass the first line.
fn nearly_an_answer() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        "[A-Za-z!#-]{1,12}: ?[ -~\t]{0,20}\r\n",
        "[Cc]ontent-[Ll]ength: [0-9]{1,3}\r\n",
        "Transfer-Encoding: (chunked|gzip)\r\n",
        "Connection: (close|keep-alive|x, close)\r\n",
        "[ -~\r\t]{0,12}\r?\n",
    ];
    let head = (
        "HTTP/1\\.[01] [1-9][0-9]{2}( [ -~]{0,10})?\r\n",
        prop::collection::vec(field, 0..6),
    );
    (head, "(\r\n)?", "([0-9a-f]{0,2}\r\n)?[ -~\r\n]{0,40}").prop_map(|((line, fields), empty, body)| {
        [
            line.as_bytes(),
            fields.concat().as_bytes(),
            empty.as_bytes(),
            body.as_bytes(),
        ]
        .concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_split_of_any_bytes_gives_the_same(input in nearly_an_answer(), first in 0usize..200, second in 0usize..200, to_head: bool) {
        let (first, second) = (first.min(input.len()), second.min(input.len()));
        let cuts = [first.min(second), first.max(second)];
        prop_assert_eq!(answers(&input, &cuts, to_head), answers(&input, &[], to_head));
    }

    #[test]
    fn a_head_that_is_taken_is_read_as_httparse_reads_it(input in nearly_an_answer()) {
        let mut parser = Parser::default();
        let Ok((used, Some(Item::Head(head)))) = parser.feed(&input) else {
            return Ok(());
        };
        let (theirs, length) = httparse_head(&input).unwrap().unwrap();
        prop_assert_eq!((used, head.status), (length, theirs.status));
        prop_assert_eq!(head.reason, theirs.reason);
        let fields: Vec<_> = head.fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        prop_assert_eq!(fields, theirs.fields);
    }

    #[test]
    fn a_head_that_is_remembered_reads_as_one_that_is_not(
        before in nearly_an_answer(), input in nearly_an_answer(), cut in 0usize..200, to_head: bool
    ) {
        let mut last = LastHead::default();
        // The second read uses the remembered head if it was complete; before the fourth, another head came in between.
        for input in [&input, &input, &before, &input] {
            let (mut remembering, mut reading) = (Parser::default(), Parser::default());
            remembering.expect_no_body(to_head);
            reading.expect_no_body(to_head);
            let (first, second) = input.split_at(cut.min(input.len()));
            for mut piece in [first, second, &[]] {
                loop {
                    let expected = reading.feed(piece);
                    prop_assert_eq!(remembering.feed_after(piece, &mut last), expected.clone());
                    let Ok((used, Some(_))) = expected else { break };
                    piece = &piece[used..];
                }
            }
        }
    }

    #[test]
    fn what_httparse_refuses_is_refused(input in nearly_an_answer()) {
        if httparse_head(&input).is_err() {
            prop_assert!(answers(&input, &[], false).is_err());
        }
    }

    #[test]
    fn no_bytes_make_it_panic(input: Vec<u8>, cut in 0usize..100) {
        let _ = answers(&input, &[cut.min(input.len())], false);
    }
}
