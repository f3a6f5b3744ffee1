//! Requests from specifications and published attacks, against [`read`](super::read).

use super::*;
use crate::http::HeadError;
use crate::http::chunked;
use proptest::prelude::*;

fn refusal(request: &str) -> RequestError {
    read(request.as_bytes(), &Limits::default()).expect_err(request)
}

fn accepted(request: &str) -> Head<'_> {
    let head = read(request.as_bytes(), &Limits::default()).expect(request);
    head.expect("it is complete")
}

#[test]
fn a_head_tells_its_framing_and_whether_the_connection_stays() {
    let plain = accepted("GET /size/10?x=1 HTTP/1.1\r\nHost: a.example:80\r\nAccept: */*\r\n\r\nrest");
    assert_eq!((plain.method, plain.target), (&b"GET"[..], &b"/size/10?x=1"[..]));
    assert_eq!(
        (plain.framing, plain.keep_alive, plain.bytes),
        (Framing::None, true, 62)
    );
    assert_eq!(plain.field("ACCEPT"), Some(&b"*/*"[..]));
    let posted =
        accepted("\r\nPOST / HTTP/1.1\r\nhost: a\r\ncontent-length: 42\r\nConnection: x, Close\r\n\r\n");
    assert_eq!((posted.framing, posted.keep_alive), (Framing::Length(42), false));
    let coded =
        accepted("PUT / HTTP/1.1\r\nHost:\r\nTransfer-Encoding: Chunked\r\nExpect: 100-Continue\r\n\r\n");
    assert_eq!((coded.framing, coded.expects_continue), (Framing::Chunked, true));
    let old = accepted("GET / HTTP/1.0\r\n\r\n");
    assert_eq!((old.version, old.keep_alive), (Version::Http10, false));
    assert!(accepted("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
    let absolute = accepted("GET http://a.example/p?q HTTP/1.1\r\nHost: b\r\n\r\n");
    assert_eq!(absolute.path_and_query(), b"/p?q");
    assert_eq!(accepted("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").target, b"*");
}

#[test]
fn what_could_be_framed_in_two_ways_is_refused() {
    let post = |fields: &str| refusal(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n"));
    for fields in [
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length: 0x5",
        "Content-Length: 5 5",
        "Content-Length: -1",
        "Content-Length:",
        "Content-Length: 99999999999999999999",
        "Content-Length: 9223372036854775808",
    ] {
        assert_eq!(
            post(fields),
            RequestError::Head(HeadError::ContentLength),
            "{fields}"
        );
    }
    let both = "Content-Length: 5\r\nTransfer-Encoding: chunked";
    assert_eq!(post(both), RequestError::Head(HeadError::TwoFramings));
    let both = "Transfer-Encoding: chunked\r\nContent-Length: 0";
    assert_eq!(post(both), RequestError::Head(HeadError::TwoFramings));
    for fields in [
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding:",
    ] {
        assert_eq!(
            post(fields),
            RequestError::Head(HeadError::TransferEncoding),
            "{fields}"
        );
    }
    assert_eq!(
        post("Transfer-Encoding: gzip, chunked"),
        RequestError::Head(HeadError::UnknownCoding)
    );
    assert_eq!(
        post("Transfer-Encoding: xchunked"),
        RequestError::Head(HeadError::UnknownCoding)
    );
    let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refusal(old), RequestError::Head(HeadError::TransferEncoding));
}

#[test]
fn lines_that_others_end_elsewhere_are_refused() {
    for request in [
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\rHost: a",
    ] {
        assert_eq!(refusal(request), RequestError::LineEnd, "{request:?}");
    }
    let field = |line: &str| refusal(&format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n"));
    assert_eq!(
        field("A: b\rc"),
        RequestError::Head(HeadError::Field(field::FieldError::Value))
    );
    assert_eq!(
        field("A: b\0c"),
        RequestError::Head(HeadError::Field(field::FieldError::Value))
    );
    assert_eq!(
        field("A : b"),
        RequestError::Head(HeadError::Field(field::FieldError::Name))
    );
    assert_eq!(
        field("A: b\r\n c"),
        RequestError::Head(HeadError::Field(field::FieldError::Folded))
    );
    assert_eq!(
        field("no colon"),
        RequestError::Head(HeadError::Field(field::FieldError::Name))
    );
}

#[test]
fn request_lines_have_one_form() {
    for line in [
        "GET /",
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET /a b HTTP/1.1",
        " GET / HTTP/1.1",
        "G@T / HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/1.10",
    ] {
        let error = refusal(&format!("{line}\r\nHost: a\r\n\r\n"));
        assert_eq!(error, RequestError::RequestLine, "{line}");
    }
    for line in [
        "GET a HTTP/1.1",
        "GET /\u{e9} HTTP/1.1",
        "GET * HTTP/1.1",
        "CONNECT / HTTP/1.1",
        "GET ftp://a/ HTTP/1.1",
    ] {
        assert_eq!(
            refusal(&format!("{line}\r\nHost: a\r\n\r\n")),
            RequestError::Target,
            "{line}"
        );
    }
    assert_eq!(refusal("GET / HTTP/2.0\r\nHost: a\r\n\r\n").status(), 505);
    assert_eq!(refusal("ABCDEFGHIJKLMNOPQRST / HTTP/1.1\r\n\r\n").status(), 501);
    assert_eq!(
        refusal("\u{16}\u{3}\u{1}"),
        RequestError::RequestLine,
        "the first bytes of TLS"
    );
}

#[test]
fn a_host_is_needed_once() {
    for fields in [
        "A: b",
        "Host: a\r\nHost: a",
        "Host: a b",
        "Host: a/b",
        "Host: a@b",
    ] {
        assert_eq!(
            refusal(&format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n")),
            RequestError::Host,
            "{fields}"
        );
    }
}

#[test]
fn everything_has_a_limit_with_its_own_status() {
    let limits = Limits {
        line_bytes: 100,
        head_bytes: 200,
        fields: 3,
    };
    let status = |request: String| {
        read(request.as_bytes(), &limits)
            .map(|head| head.is_some())
            .map_err(RequestError::status)
    };
    assert_eq!(
        status(format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(100))),
        Err(414)
    );
    assert_eq!(
        status(format!("GET /{}", "x".repeat(100))),
        Err(414),
        "before it has ended"
    );
    assert_eq!(status("\r\n".repeat(60)), Err(414));
    assert_eq!(
        status(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nB: {}\r\n\r\n",
            "x".repeat(200)
        )),
        Err(431)
    );
    assert_eq!(
        status(format!("GET / HTTP/1.1\r\nHost: a\r\nB: {}", "x".repeat(200))),
        Err(431)
    );
    assert_eq!(
        status(format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
            "B: c\r\n".repeat(3)
        )),
        Err(431)
    );
    assert_eq!(
        status(format!(
            "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
            "B: c\r\n".repeat(2)
        )),
        Ok(true)
    );
    let expects = "GET / HTTP/1.1\r\nHost: a\r\nExpect: something\r\n\r\n".to_owned();
    assert_eq!(status(expects), Err(417));
}

#[test]
fn a_line_and_a_head_may_be_exactly_as_long_as_their_limits() {
    let (line, request) = ("GET / HTTP/1.1", "GET / HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n");
    let limits = |line_bytes: usize, head_bytes: usize| Limits {
        line_bytes: line_bytes as u32,
        head_bytes: head_bytes as u32,
        fields: 2,
    };
    let exact = limits(line.len(), request.len());
    for end in 0..request.len() {
        let beginning = read(&request.as_bytes()[..end], &exact);
        assert!(matches!(beginning, Ok(None)), "{end} bytes: {beginning:?}");
    }
    assert_eq!(
        read(request.as_bytes(), &exact).unwrap().unwrap().bytes,
        request.len()
    );
    let refused = |limits| read(request.as_bytes(), &limits).unwrap_err().status();
    assert_eq!(refused(limits(line.len() - 1, request.len())), 414);
    assert_eq!(refused(limits(line.len(), request.len() - 1)), 431);
    assert_eq!(
        read(line.as_bytes(), &limits(line.len() - 1, 1_000))
            .unwrap_err()
            .status(),
        414
    );
}

const LONG: &str =
    "POST /echo?x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nAccept: */*\r\nX: \t y \r\n\r\nhello";

#[test]
fn a_head_split_anywhere_is_incomplete_until_it_is_whole() {
    let whole = accepted(LONG).bytes;
    for end in 0..whole {
        let beginning = read(&LONG.as_bytes()[..end], &Limits::default());
        assert!(matches!(beginning, Ok(None)), "{end} bytes: {beginning:?}");
    }
}

#[test]
fn bodies_end_where_their_framing_says() {
    let mut reader = Framing::Length(5).reader().unwrap();
    assert_eq!(reader.feed(b"hel"), Ok((3, Some(chunked::Item::Data(b"hel")))));
    assert_eq!(
        reader.feed(b"lo, next"),
        Ok((2, Some(chunked::Item::Data(b"lo"))))
    );
    assert_eq!(reader.feed(b", next"), Ok((0, Some(chunked::Item::End))));
    assert_eq!(Framing::None.reader(), None);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_and_the_same_from_any_beginning(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b':'), Just(b' ')], 0..60),
        cut in 0..LONG.len(), by: u8,
    ) {
        let mut request = LONG.as_bytes().to_vec();
        request[cut] = by;
        for request in [bytes, request] {
            let whole = read(&request, &Limits::default());
            for end in 0..request.len() {
                match read(&request[..end], &Limits::default()) {
                    // An early rejection is final.
                    Err(error) => prop_assert!(whole.is_err(), "{error}, then {whole:?}"),
                    Ok(Some(head)) => {
                        let whole = whole.as_ref().unwrap().as_ref().unwrap();
                        prop_assert_eq!(head.bytes, whole.bytes);
                    }
                    Ok(None) => {}
                }
            }
        }
    }

    #[test]
    fn what_we_take_httparse_takes_alike(
        method in "[A-Z]{1,7}", path in "/[!-~]{0,20}", fields in prop::collection::vec(("[A-Za-z-]{1,12}", "[ -~]{0,20}"), 0..6)
    ) {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n");
        for (name, value) in &fields {
            text.push_str(&format!("X{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let ours = read(text.as_bytes(), &Limits::default());
        prop_assume!(ours.is_ok());
        let ours = ours.unwrap().unwrap();
        let mut room = [httparse::EMPTY_HEADER; 16];
        let mut theirs = httparse::Request::new(&mut room);
        let status = theirs.parse(text.as_bytes()).unwrap();
        prop_assert_eq!(status, httparse::Status::Complete(ours.bytes));
        prop_assert_eq!(theirs.method.unwrap().as_bytes(), ours.method);
        prop_assert_eq!(theirs.path.unwrap().as_bytes(), ours.target);
        let named: Vec<(&[u8], &[u8])> = theirs.headers.iter().map(|field| (field.name.as_bytes(), field.value)).collect();
        prop_assert_eq!(named, ours.fields.collect::<Vec<_>>());
    }
}
