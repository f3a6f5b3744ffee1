//! One request and its answer: a head and an object in, the answer's head and the beginning of its body out.

use super::files::Found;
use super::object::{Content, INDEX, Object};
use super::output::{Output, SMALL};
use super::producer::{Chunks, Producer, pattern};
use corelane_proto::http::answer;
use corelane_proto::http::date;
use corelane_proto::http::request::{BodyReader, Framing, Head, Version};
use corelane_proto::http::select::{Selected, select};
use corelane_worker::Time;
use std::time::{SystemTime, UNIX_EPOCH};

/// What every answer says of the server, and when.
pub(super) struct Stamp {
    /// Nanoseconds from the worker's clock to seconds since 1970.
    offset: u64,
    second: u64,
    fields: Vec<u8>,
}

impl Stamp {
    /// The stamp of a worker whose clock shows `now`. The clocks are compared once: what the system's is set by
    /// afterwards does not matter to a date in seconds.
    pub(super) fn new(now: Time) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            offset: (wall.as_nanos() as u64).wrapping_sub(now.nanoseconds()),
            second: 0,
            fields: Vec::new(),
        }
    }

    /// Nanoseconds from the worker's clock to 1970.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn fields(&mut self, now: Time) -> &[u8] {
        let second = now.nanoseconds().wrapping_add(self.offset) / 1_000_000_000;
        if second != self.second {
            self.second = second;
            self.fields.clear();
            answer::field(&mut self.fields, "Server", b"corelane");
            answer::field(&mut self.fields, "Date", date::write(second).as_bytes());
        }
        &self.fields
    }
}

/// A request whose answer is not complete.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) terms: Terms,
    pub(super) object: Object,
    pub(super) framing: Framing,
    pub(super) expects_continue: bool,
    /// What is left of the request's body.
    pub(super) reader: Option<BodyReader>,
    /// Bytes of the body so far, and whether they are the pattern.
    pub(super) body_bytes: u64,
    pub(super) is_pattern: bool,
    /// What is left of the answer's body.
    pub(super) producer: Option<Producer>,
}

/// What an answer has to keep to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) version: Version,
    /// Whether the connection stays.
    pub(super) keep_alive: bool,
    /// Whether only the head is wanted.
    pub(super) head_only: bool,
}

impl Exchange {
    pub(super) fn new(head: &Head<'_>, terms: Terms, object: Object) -> Box<Self> {
        Box::new(Self {
            terms,
            object,
            framing: head.framing,
            expects_continue: head.expects_continue,
            reader: BodyReader::new(head.framing),
            body_bytes: 0,
            is_pattern: true,
            producer: None,
        })
    }

    /// Whether the request's body is the answer's.
    pub(super) fn echoes(&self) -> bool {
        self.object.content == Content::Echo
    }

    /// Takes a piece of the request's body, and sends it back where that was asked.
    pub(super) fn take(&mut self, data: &[u8], out: &mut Output<'_>) {
        if self.echoes() {
            self.is_pattern = self.is_pattern && is_pattern(self.body_bytes, data);
            if !self.terms.head_only {
                self.send_back(data, out);
            }
        }
        self.body_bytes += data.len() as u64;
    }

    fn send_back(&self, data: &[u8], out: &mut Output<'_>) {
        use corelane_proto::http::chunked::{CHUNK_END, size_line};
        if self.framing == Framing::Chunked {
            out.write(size_line(data.len() as u64).as_ref());
            out.write(data);
            out.write(CHUNK_END);
        } else {
            out.write(data);
        }
    }
}

fn is_pattern(mut offset: u64, mut data: &[u8]) -> bool {
    while !data.is_empty() {
        let expected = pattern(offset, data.len() as u64);
        let (piece, rest) = data.split_at(expected.len());
        if piece != expected {
            return false;
        }
        offset += piece.len() as u64;
        data = rest;
    }
    true
}

/// Sends the answer's head, and its body where that is small; what is left of it otherwise. `echoed` is how the request's
/// body comes that is to be sent back.
pub(super) fn begin_answer(
    object: &Object,
    terms: Terms,
    echoed: Framing,
    scratch: &mut Vec<u8>,
    stamp: &[u8],
    out: &mut Output<'_>,
) -> Option<Producer> {
    scratch.clear();
    answer::begin(scratch, object.status);
    scratch.extend_from_slice(stamp);
    answer::connection(scratch, terms.version, terms.keep_alive);
    for number in 1..=object.headers {
        answer::number(scratch, "X-Corelane-Field", u64::from(number));
    }
    if object.content == Content::Methods {
        answer::field(scratch, "Allow", b"GET, HEAD, POST, PUT, OPTIONS");
    }
    let body = if answer::is_bodyless(object.status) {
        None
    } else {
        framing_fields(object, terms, echoed, scratch)
    };
    answer::end(scratch);
    let head_bytes = scratch.len();
    let mut left = body.filter(|_| !terms.head_only && object.status != 304);
    if object.content == Content::Index && left.is_some() {
        scratch.extend_from_slice(INDEX.as_bytes());
        left = None;
    }
    if let Some(Producer::Pattern { offset, end }) = left
        && end - offset <= SMALL
    {
        scratch.extend_from_slice(pattern(offset, end - offset));
        left = None;
    }
    out.write_head(scratch, head_bytes);
    left
}

/// Says how the body ends, and what it will be.
fn framing_fields(object: &Object, terms: Terms, echoed: Framing, head: &mut Vec<u8>) -> Option<Producer> {
    let chunked = |head: &mut Vec<u8>| answer::field(head, "Transfer-Encoding", b"chunked");
    if object.content == Content::Echo {
        match echoed {
            Framing::Chunked => chunked(head),
            Framing::Length(length) => answer::number(head, "Content-Length", length),
            Framing::None => answer::number(head, "Content-Length", 0),
        }
        return None;
    }
    answer::field(head, "Content-Type", b"text/plain");
    let size = object.size;
    match object.chunks {
        Some(left) if terms.version == Version::Http11 => {
            chunked(head);
            Some(Producer::Chunks(Chunks {
                size,
                left,
                offset: 0,
                end: 0,
            }))
        }
        chunks => {
            let end = size.saturating_mul(u64::from(chunks.unwrap_or(1)));
            answer::number(head, "Content-Length", end);
            Some(Producer::Pattern { offset: 0, end })
        }
    }
}

/// Sends the head of an answer with a file, as the request's conditions and ranges have it, and its body where that is small:
/// its status, and what is left of its body.
pub(super) fn begin_file(
    head: &Head<'_>,
    found: &Found,
    terms: Terms,
    scratch: &mut Vec<u8>,
    stamp: &[u8],
    out: &mut Output<'_>,
) -> (u16, Option<Producer>) {
    let file = &found.representation;
    let (status, part) = match select(head, file) {
        Selected::Whole => (200, 0..file.length),
        Selected::Part(part) => (206, part),
        Selected::NotModified => (304, 0..0),
        Selected::PreconditionFailed => (412, 0..0),
        Selected::Unsatisfiable => (416, 0..0),
    };
    scratch.clear();
    answer::begin(scratch, status);
    scratch.extend_from_slice(stamp);
    answer::connection(scratch, terms.version, terms.keep_alive);
    if status == 206 {
        let range = format!("bytes {}-{}/{}", part.start, part.end - 1, file.length);
        answer::field(scratch, "Content-Range", range.as_bytes());
    } else if status == 416 {
        answer::field(
            scratch,
            "Content-Range",
            format!("bytes */{}", file.length).as_bytes(),
        );
    }
    if status <= 304 {
        scratch.extend_from_slice(&found.validators);
    }
    if status <= 206 {
        answer::field(scratch, "Content-Type", found.content_type.as_bytes());
    }
    let left = part.end - part.start;
    if status != 304 {
        answer::number(scratch, "Content-Length", left);
    }
    answer::end(scratch);
    let head_bytes = scratch.len();
    let wanted = left > 0 && !terms.head_only;
    let body = match &found.content {
        Some(content) if wanted => {
            scratch.extend_from_slice(&content[part.start as usize..part.end as usize]);
            None
        }
        _ => wanted.then(|| Producer::File {
            file: std::sync::Arc::clone(&found.file),
            offset: part.start,
            left,
        }),
    };
    out.write_head(scratch, head_bytes);
    (status, body)
}
