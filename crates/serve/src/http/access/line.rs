//! One line: what is known of a request and its answer in, the text of httpd's `combined` format out
//! (httpd.apache.org/docs/2.4/logs.html), and the time taken after it.

use corelane_proto::http::date;
use std::io::Write;
use std::net::IpAddr;

/// What the line says of the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    /// Its status; that of nginx for a client that left before there was one.
    pub(super) status: u16,
    /// Bytes of its body handed to the kernel, chunk lines included.
    pub(super) body_bytes: u64,
    /// From the whole head of the request to the last byte of the answer being handed over.
    pub(super) microseconds: u64,
}

/// What nginx calls a request whose client closed before it was answered.
pub(super) const CLIENT_CLOSED: u16 = 499;

/// Appends the line. `request` and `fields` are quoted already.
pub(super) fn write(
    out: &mut Vec<u8>,
    peer: IpAddr,
    second: u64,
    request: &[u8],
    fields: &[u8],
    answered: Answered,
) {
    // Writing to memory cannot fail.
    let _ = write!(out, "{} - - [{}] ", peer.to_canonical(), date::write_log(second));
    out.extend_from_slice(request);
    let _ = write!(out, " {} {} ", answered.status, answered.body_bytes);
    out.extend_from_slice(fields);
    let (seconds, rest) = (
        answered.microseconds / 1_000_000,
        answered.microseconds % 1_000_000,
    );
    let _ = writeln!(out, " {seconds}.{rest:06}");
}

/// Appends `text` in quotes, so that nothing in it can be taken for the end of the field or of the line: quotes and
/// backslashes behind a backslash, bytes that are not visible ASCII as `\x7f`. A field that is not there is `"-"`.
pub(super) fn quote(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.push(b'"');
    if parts.is_empty() {
        out.push(b'-');
    }
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            out.push(b' ');
        }
        for byte in *part {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
                b' '..=b'~' => out.push(*byte),
                _ => {
                    let _ = write!(out, "\\x{byte:02x}");
                }
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_of_the_combined_format_with_the_time_taken_at_its_end() {
        let (mut request, mut fields, mut line) = (Vec::new(), Vec::new(), Vec::new());
        quote(&mut request, &[b"GET", b"/a?b", b"HTTP/1.1"]);
        quote(&mut fields, &[]);
        fields.push(b' ');
        quote(&mut fields, &[b"Mozilla/5.0 \"x\\\xc3\r"]);
        let answered = Answered {
            status: 200,
            body_bytes: 1_024,
            microseconds: 2_000_070,
        };
        let peer = "::ffff:192.0.2.1".parse().unwrap();
        write(&mut line, peer, 784_111_777, &request, &fields, answered);
        let expected = "192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b HTTP/1.1\" 200 1024 \"-\" \
                        \"Mozilla/5.0 \\\"x\\\\\\xc3\\x0d\" 2.000070\n";
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }
}
