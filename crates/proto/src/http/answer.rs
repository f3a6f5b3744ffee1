//! Writes response heads: appends status line and fields to a buffer of the caller.

use super::response::Version;

/// Begins a head with the status line. Its version is always HTTP/1.1, whatever the request's version (RFC 9110 6.2).
pub fn begin(into: &mut Vec<u8>, status: u16) {
    // Fast path for the most common status.
    if status == 200 {
        into.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    into.extend_from_slice(b"HTTP/1.1 ");
    decimal(into, u64::from(status));
    into.push(b' ');
    into.extend_from_slice(reason(status).as_bytes());
    into.extend_from_slice(b"\r\n");
}

/// Adds a field. The caller must ensure that name and value contain no line end.
pub fn field(into: &mut Vec<u8>, name: &str, value: &[u8]) {
    into.extend_from_slice(name.as_bytes());
    into.extend_from_slice(b": ");
    into.extend_from_slice(value);
    into.extend_from_slice(b"\r\n");
}

/// Adds a field whose value is a number.
pub fn number(into: &mut Vec<u8>, name: &str, value: u64) {
    into.extend_from_slice(name.as_bytes());
    into.extend_from_slice(b": ");
    decimal(into, value);
    into.extend_from_slice(b"\r\n");
}

/// Adds the `Connection` field, if the default of the request's version does not apply.
pub fn connection(into: &mut Vec<u8>, request: Version, stays: bool) {
    match (request, stays) {
        (Version::Http11, true) | (Version::Http10, false) => {}
        (Version::Http11, false) => into.extend_from_slice(b"Connection: close\r\n"),
        (Version::Http10, true) => into.extend_from_slice(b"Connection: keep-alive\r\n"),
    }
}

/// Ends a head.
pub fn end(into: &mut Vec<u8>) {
    into.extend_from_slice(b"\r\n");
}

/// Whether responses of this status have neither body nor length (RFC 9110 8.6, 15.3.5).
#[must_use]
pub fn is_bodyless(status: u16) -> bool {
    status < 200 || status == 204
}

/// The reason phrase of a status in the IANA registry; empty for others.
#[must_use]
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        511 => "Network Authentication Required",
        _ => "",
    }
}

/// Appends a number in decimal.
pub fn decimal(into: &mut Vec<u8>, mut value: u64) {
    // u64::MAX has 20 digits.
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    into.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_head_is_what_our_own_parser_reads() {
        use crate::http::response::{Item, Limits, Parser};
        for status in [200, 206, 404, 599] {
            let mut head = Vec::new();
            begin(&mut head, status);
            field(&mut head, "Content-Type", b"text/plain");
            number(&mut head, "Content-Length", 1_024);
            connection(&mut head, Version::Http11, false);
            end(&mut head);
            let mut parser = Parser::new(Limits::default());
            parser.expect_no_body(false);
            let Ok((_, Some(Item::Head(parsed)))) = parser.feed(&head) else {
                panic!("{}", String::from_utf8_lossy(&head));
            };
            assert_eq!(
                (parsed.status, parsed.keep_alive, parsed.content_length),
                (status, false, Some(1_024))
            );
            assert_eq!(parsed.reason, reason(status).as_bytes());
        }
    }

    proptest! {
        #[test]
        fn numbers_are_written_as_the_library_writes_them(value: u64) {
            let mut written = Vec::new();
            decimal(&mut written, value);
            prop_assert_eq!(String::from_utf8(written).unwrap(), value.to_string());
        }
    }
}
