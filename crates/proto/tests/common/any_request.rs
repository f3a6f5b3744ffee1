//! Properties of the request parser for arbitrary bytes: used by a test over the kept corpus and by the fuzz target.

use corelane_proto::http::chunked;
use corelane_proto::http::request::{BodyReader, Limits, read};

/// Reads one request after the other, each by its own framing, and asserts the documented properties of heads and
/// bodies.
pub fn holds(input: &[u8]) {
    let mut rest = input;
    while let Ok(Some(head)) = read(rest, &Limits::default()) {
        assert!(head.bytes > 0 && head.bytes <= rest.len());
        agrees_with_httparse(&rest[..head.bytes]);
        let beginning = read(&rest[..head.bytes - 1], &Limits::default());
        assert!(
            matches!(beginning, Ok(None)),
            "a prefix is not a complete head: {beginning:?}"
        );
        let body = &rest[head.bytes..];
        let Some(reader) = head.framing.reader() else {
            rest = body;
            continue;
        };
        let whole = feed(reader, &[body]);
        let cut = body.first().map_or(0, |byte| usize::from(*byte) % body.len());
        let again = head
            .framing
            .reader()
            .map(|reader| feed(reader, &[&body[..cut], &body[cut..]]));
        assert_eq!(again.as_ref(), Some(&whole), "a body cut at {cut}");
        let Ok((used, _, true)) = whole else { return };
        rest = &body[used..];
    }
    assert!(
        read(rest, &Limits::default()).is_ok() || read(&[rest, b"x"].concat(), &Limits::default()).is_err(),
        "an early rejection is final"
    );
}

/// Total bytes used of the pieces, the body's data so far, and whether the body is complete.
type Fed = Result<(usize, Vec<u8>, bool), chunked::ChunkedError>;

fn feed(mut reader: BodyReader, pieces: &[&[u8]]) -> Fed {
    let (mut total, mut data) = (0, Vec::new());
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let (used, item) = reader.feed(rest)?;
            assert!(used <= rest.len());
            total += used;
            rest = &rest[used..];
            match item {
                None => break,
                Some(chunked::Item::Data(bytes)) => {
                    assert!(!bytes.is_empty());
                    data.extend_from_slice(bytes);
                }
                Some(chunked::Item::End) => return Ok((total, data, true)),
            }
        }
    }
    Ok((total, data, false))
}

/// Asserts that `httparse` reads an accepted head alike, except for versions between 1.1 and 2, which it rejects.
fn agrees_with_httparse(head: &[u8]) {
    let ours = read(head, &Limits::default())
        .expect("taken before")
        .expect("whole");
    let line = head
        .split(|byte| *byte == b'\n')
        .find(|line| *line != b"\r")
        .unwrap_or_default();
    if ![&b"1.0\r"[..], b"1.1\r"]
        .iter()
        .any(|version| line.ends_with(version))
    {
        return;
    }
    let mut room = vec![httparse::EMPTY_HEADER; ours.fields.clone().count()];
    let mut theirs = httparse::Request::new(&mut room);
    assert_eq!(theirs.parse(head), Ok(httparse::Status::Complete(head.len())));
    assert_eq!(theirs.method.map(str::as_bytes), Some(ours.method));
    assert_eq!(theirs.path.map(str::as_bytes), Some(ours.target));
    let fields: Vec<(&[u8], &[u8])> = theirs
        .headers
        .iter()
        .map(|field| (field.name.as_bytes(), field.value))
        .collect();
    assert_eq!(fields, ours.fields.collect::<Vec<_>>());
}
