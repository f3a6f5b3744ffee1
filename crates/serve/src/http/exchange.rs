//! One request and its response: takes a head and an object, sends the response's head and the beginning of its body.

use super::context::ConnectionContext;
use super::files::Found;
use super::object::{Content, INDEX, Object};
use super::output::{Output, SMALL};
use super::producer::{Chunks, FilePart, Producer};
use corelane_proto::http::chunked::{CHUNK_END, size_line};
use corelane_proto::http::request::{BodyReader, Framing, Head, Version};
use corelane_proto::http::select::{Selected, select};
use corelane_proto::http::{answer, pattern};
use std::sync::Arc;

/// A request whose response has not begun, or that is being echoed.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) terms: Terms,
    pub(super) object: Object,
    pub(super) framing: Framing,
    pub(super) expects_continue: bool,
    /// The rest of the request's body.
    pub(super) reader: Option<BodyReader>,
    /// Body bytes so far, and whether they match the pattern.
    pub(super) body_bytes: u64,
    pub(super) is_pattern: bool,
}

/// The terms of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) version: Version,
    /// Whether the connection stays open.
    pub(super) keep_alive: bool,
    /// Whether only the head is sent.
    pub(super) head_only: bool,
}

impl Exchange {
    pub(super) fn new(head: &Head<'_>, terms: Terms, object: Object) -> Box<Self> {
        Box::new(Self {
            terms,
            object,
            framing: head.framing,
            expects_continue: head.expects_continue,
            reader: head.framing.reader(),
            body_bytes: 0,
            is_pattern: true,
        })
    }

    /// Whether the request's body is echoed.
    pub(super) fn echoes(&self) -> bool {
        self.object.content == Content::Echo
    }

    /// Whether the response has content.
    pub(super) fn has_content(&self) -> bool {
        has_content(self.object.status, self.terms)
    }

    /// Processes a piece of the request's body, and echoes it if requested.
    pub(super) fn take(&mut self, data: &[u8], out: &mut Output<'_>) {
        if self.echoes() {
            self.is_pattern = self.is_pattern && pattern::matches(self.body_bytes, data);
            match (self.has_content(), self.framing) {
                (false, _) => {}
                (true, Framing::Chunked) => {
                    out.write(size_line(data.len() as u64).as_ref());
                    out.write(data);
                    out.write(CHUNK_END);
                }
                (true, _) => out.write(data),
            }
        }
        self.body_bytes += data.len() as u64;
    }
}

/// Whether a response has content. 204, 205 and 304 have none (RFC 9110 15.3.5, 15.3.6, 15.4.5).
fn has_content(status: u16, terms: Terms) -> bool {
    !(terms.head_only || answer::is_bodyless(status) || matches!(status, 205 | 304))
}

/// Sends the response's head, and its body if small; returns the rest of the body otherwise. `echoed` is the
/// framing of the request's body to echo.
pub(super) fn begin_answer(
    context: &mut ConnectionContext<'_>,
    object: &Object,
    terms: Terms,
    echoed: Framing,
) -> Option<Producer> {
    context.begin_head(object.status, terms.version, terms.keep_alive);
    let head = &mut context.parts.scratch;
    for number in 1..=object.headers {
        answer::number(head, "X-Corelane-Field", u64::from(number));
    }
    if object.content == Content::Methods {
        let allowed: &[u8] = match context.parts.files {
            Some(_) => b"GET, HEAD, OPTIONS",
            None => b"GET, HEAD, POST, PUT, OPTIONS",
        };
        answer::field(head, "Allow", allowed);
    }
    let body = if answer::is_bodyless(object.status) {
        None
    } else if object.status == 205 {
        answer::number(head, "Content-Length", 0);
        None
    } else {
        framing_fields(object, terms, echoed, head)
    };
    let body = body.filter(|_| has_content(object.status, terms));
    let mut left = None;
    context.end_head(|out| match body {
        Some(_) if object.content == Content::Index => out.extend_from_slice(INDEX.as_bytes()),
        Some(Producer::Pattern { offset, end }) if end - offset <= SMALL => {
            out.extend_from_slice(pattern::piece(offset, end - offset));
        }
        body => left = body,
    });
    left
}

/// Sends a file according to the request's conditions and ranges: the head, and the body if small; returns the rest
/// of the body otherwise.
pub(super) fn begin_file(
    context: &mut ConnectionContext<'_>,
    head: &Head<'_>,
    found: &Arc<Found>,
    terms: Terms,
) -> Option<Producer> {
    let file = &found.representation;
    let (status, part) = match select(head, file) {
        Selected::Whole => (200, 0..file.length),
        Selected::Part(part) => (206, part),
        Selected::NotModified => (304, 0..0),
        Selected::PreconditionFailed => (412, 0..0),
        Selected::Unsatisfiable => (416, 0..0),
    };
    context.begin_head(status, terms.version, terms.keep_alive);
    let fields = &mut context.parts.scratch;
    let range = match status {
        206 => format!("bytes {}-{}/{}", part.start, part.end - 1, file.length),
        416 => format!("bytes */{}", file.length),
        _ => String::new(),
    };
    if !range.is_empty() {
        answer::field(fields, "Content-Range", range.as_bytes());
    }
    if status <= 304 {
        fields.extend_from_slice(&found.validators);
    }
    if status <= 206 {
        answer::field(fields, "Content-Type", found.content_type.as_bytes());
    }
    let left = part.end - part.start;
    if status != 304 {
        answer::number(fields, "Content-Length", left);
    }
    let wanted = left > 0 && !terms.head_only;
    let content = found.content.as_ref().filter(|_| wanted);
    context.end_head(|out| {
        if let Some(content) = content {
            out.extend_from_slice(&content[part.start as usize..part.end as usize]);
        }
    });
    (wanted && content.is_none()).then(|| {
        Producer::File(FilePart {
            found: Arc::clone(found),
            offset: part.start,
            left,
        })
    })
}

/// Adds the fields of content type and framing; returns the body.
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
