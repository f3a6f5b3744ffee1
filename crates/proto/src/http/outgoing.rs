//! Writes requests: takes method, target, host, fields and body framing; returns bytes, written once and sent many
//! times.
//!
//! Input that could turn one request into two is rejected: line ends and control characters in any part, and framing
//! fields that contradict the body.

use super::field;
use super::request::Framing;
use thiserror::Error;

/// A request without its body bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request<'a> {
    /// Method, such as `GET`.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// The value of `Host`, unless `fields` has a field of that name.
    pub host: &'a str,
    /// Additional fields, in order.
    pub fields: &'a [(String, String)],
    /// Framing of the body.
    pub body: Framing,
    /// Whether the connection may stay open after the response.
    pub keep_alive: bool,
}

/// Why a request is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OutgoingError {
    /// A method that is not a token.
    #[error("'{0}' is not a method: write a token such as GET")]
    Method(String),
    /// A target that is not allowed in a request line.
    #[error("'{0}' is not a request target: it starts with / and has no spaces or controls")]
    Target(String),
    /// An invalid field.
    #[error("'{0}' is not a header: write Name: value, without line ends")]
    Field(String),
    /// A field that specifies framing, which is derived from the body.
    #[error("{0} follows from the body: leave it out")]
    Framing(String),
}

impl Request<'_> {
    /// The bytes of the head, including its empty line.
    ///
    /// # Errors
    /// If a part of it would break the head, see [`OutgoingError`].
    pub fn head(&self) -> Result<Vec<u8>, OutgoingError> {
        if !field::is_token(self.method.as_bytes()) {
            return Err(OutgoingError::Method(self.method.to_owned()));
        }
        let plain = |byte: u8| byte.is_ascii_graphic();
        if !self.target.starts_with('/') && self.target != "*" || !self.target.bytes().all(plain) {
            return Err(OutgoingError::Target(self.target.to_owned()));
        }
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let given = |name: &str| {
            self.fields
                .iter()
                .any(|(field, _)| field.eq_ignore_ascii_case(name))
        };
        if !given("host") {
            push(&mut head, "Host", self.host)?;
        }
        for (name, value) in self.fields {
            if ["content-length", "transfer-encoding"]
                .iter()
                .any(|framing| name.eq_ignore_ascii_case(framing))
            {
                return Err(OutgoingError::Framing(name.clone()));
            }
            push(&mut head, name, value)?;
        }
        match self.body {
            Framing::None => {}
            Framing::Length(length) => push(&mut head, "Content-Length", &length.to_string())?,
            Framing::Chunked => push(&mut head, "Transfer-Encoding", "chunked")?,
        }
        if !self.keep_alive && !given("connection") {
            push(&mut head, "Connection", "close")?;
        }
        head.push_str("\r\n");
        Ok(head.into_bytes())
    }
}

fn push(head: &mut String, name: &str, value: &str) -> Result<(), OutgoingError> {
    let value = value.trim_matches([' ', '\t']);
    if !field::is_token(name.as_bytes()) || !field::is_text(value.as_bytes()) {
        return Err(OutgoingError::Field(format!("{name}: {value}")));
    }
    head.extend([name, ": ", value, "\r\n"]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: Request<'static> = Request {
        method: "GET",
        target: "/size/1?a=b",
        host: "127.0.0.1:8080",
        fields: &[],
        body: Framing::None,
        keep_alive: true,
    };

    #[test]
    fn the_simple_case_is_short() {
        let head = GET.head().unwrap();
        assert_eq!(head, b"GET /size/1?a=b HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n");
    }

    #[test]
    fn httparse_reads_what_is_written() {
        let fields = [
            ("Host".to_owned(), "other.example".to_owned()),
            ("Accept".to_owned(), " */* ".to_owned()),
        ];
        for (body, framing) in [
            (Framing::Length(12), ("Content-Length", "12")),
            (Framing::Chunked, ("Transfer-Encoding", "chunked")),
        ] {
            let request = Request {
                method: "POST",
                fields: &fields,
                body,
                keep_alive: false,
                ..GET
            };
            let head = request.head().unwrap();
            let mut space = [httparse::EMPTY_HEADER; 8];
            let mut read = httparse::Request::new(&mut space);
            assert_eq!(read.parse(&head), Ok(httparse::Status::Complete(head.len())));
            assert_eq!((read.method, read.path), (Some("POST"), Some("/size/1?a=b")));
            let pairs: Vec<(&str, &[u8])> = read
                .headers
                .iter()
                .map(|field| (field.name, field.value))
                .collect();
            let expected: [(&str, &[u8]); 4] = [
                ("Host", b"other.example"),
                ("Accept", b"*/*"),
                (framing.0, framing.1.as_bytes()),
                ("Connection", b"close"),
            ];
            assert_eq!(pairs, expected);
        }
    }

    #[test]
    fn a_request_that_would_pass_for_two_is_refused() {
        let field = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
        let injected = field("X", "a\r\nHost: b");
        let named = field("X:\r\n", "a");
        let framed = field("content-length", "5");
        let cases = [
            Request {
                method: "GET / HTTP/1.1\r\n",
                ..GET
            },
            Request {
                target: "/ HTTP/1.1\r\nX: y",
                ..GET
            },
            Request {
                target: "relative",
                ..GET
            },
            Request { host: "a\nb", ..GET },
            Request {
                fields: &injected,
                ..GET
            },
            Request {
                fields: &named,
                ..GET
            },
            Request {
                fields: &framed,
                ..GET
            },
        ];
        for request in cases {
            assert!(request.head().is_err(), "{request:?}");
        }
    }
}
