//! One worker's part of the access log: takes the events of its connections, hands over complete lines.

use corelane_proto::http::date;
use corelane_proto::http::request::{Head, Version};
use corelane_worker::{Counter, Time};
use rtrb::{Consumer, Producer, RingBuffer};
use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Maximum bytes of lines waiting at a worker: ten seconds at 2,000 requests/s, or a fifth of a second at 100,000
/// requests/s, without the writer.
const MOST_WAITING: usize = 2 << 20;

/// nginx's status for a request whose client closed the connection before the response.
const CLIENT_CLOSED: u16 = 499;

/// Line counters of one worker.
#[derive(Debug, Default)]
pub(super) struct Handed {
    /// Lines handed over.
    pub(super) lines: Counter,
    /// Lines dropped because the buffer was full.
    pub(super) dropped: Counter,
}

/// The lines of one worker.
pub(in crate::http) struct Lines {
    handed: Arc<Handed>,
    /// Complete lines, concatenated, for the writer.
    waiting: Producer<u8>,
    /// Buffer for the current line.
    line: Vec<u8>,
}

/// One connection's client, and its current request.
pub(in crate::http) struct Client {
    address: IpAddr,
    /// Whether there is a current request.
    asking: bool,
    since: Time,
    /// The request line, followed by the two quoted fields.
    text: Vec<u8>,
    request_bytes: usize,
    status: Option<u16>,
    /// Body bytes of the response passed to the kernel, including chunk framing.
    pub(in crate::http) body_bytes: u64,
}

impl Client {
    pub(in crate::http) fn new(address: IpAddr) -> Self {
        Self {
            address,
            asking: false,
            since: Time::default(),
            text: Vec::new(),
            request_bytes: 0,
            status: None,
            body_bytes: 0,
        }
    }

    /// The head of a request was parsed.
    pub(in crate::http) fn request(&mut self, head: &Head<'_>, now: Time) {
        let version: &[u8] = match head.version {
            Version::Http10 => b"HTTP/1.0",
            Version::Http11 => b"HTTP/1.1",
        };
        let fields = [head.field("Referer"), head.field("User-Agent")];
        self.begin(now, &[head.method, head.target, version], fields);
    }

    /// The response has this status; without a parsed head, the line has `"-"`.
    pub(in crate::http) fn status(&mut self, status: u16, now: Time) {
        if !self.asking {
            self.begin(now, &[], [None, None]);
        }
        self.status = Some(status);
    }

    fn begin(&mut self, now: Time, request: &[&[u8]], fields: [Option<&[u8]>; 2]) {
        (self.asking, self.since, self.status, self.body_bytes) = (true, now, None, 0);
        self.text.clear();
        quote(&mut self.text, request);
        self.request_bytes = self.text.len();
        for (place, field) in fields.iter().enumerate() {
            if place > 0 {
                self.text.push(b' ');
            }
            quote(&mut self.text, field.as_slice());
        }
    }

    /// Appends the line of the request, in httpd's `combined` format (httpd.apache.org/docs/2.4/logs.html) followed by
    /// the time taken, from the complete request head to the last byte of the response being handed over.
    fn write(&self, out: &mut Vec<u8>, second: u64, took: Duration) {
        let (request, fields) = self.text.split_at(self.request_bytes);
        // Writing to memory cannot fail.
        let peer = self.address.to_canonical();
        let _ = write!(out, "{peer} - - [{}] ", date::write_log(second));
        out.extend_from_slice(request);
        let status = self.status.unwrap_or(CLIENT_CLOSED);
        let _ = write!(out, " {status} {} ", self.body_bytes);
        out.extend_from_slice(fields);
        let _ = writeln!(out, " {}.{:06}", took.as_secs(), took.subsec_micros());
    }
}

/// Appends `text` in quotes, escaped so that it cannot end the field or the line: quotes and backslashes with a
/// backslash, bytes that are not visible ASCII as `\x7f`. A missing field is `"-"`.
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

impl Lines {
    /// The log of a worker, and the consumer of its lines.
    pub(super) fn new(handed: Arc<Handed>) -> (Self, Consumer<u8>) {
        let (waiting, written) = RingBuffer::new(MOST_WAITING);
        let lines = Self {
            handed,
            waiting,
            line: Vec::new(),
        };
        (lines, written)
    }

    /// The response or the connection has ended: the current request, if any, gets its line. `second` converts
    /// the worker's time to seconds since the Unix epoch.
    pub(in crate::http) fn end(&mut self, client: &mut Client, now: Time, second: impl Fn(Time) -> u64) {
        if !std::mem::take(&mut client.asking) {
            return;
        }
        let second = second(client.since);
        self.line.clear();
        client.write(&mut self.line, second, now.since(client.since));
        match self.waiting.push_entire_slice(&self.line) {
            Ok(()) => self.handed.lines.add(1),
            Err(_) => self.handed.dropped.add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        Client::new("127.0.0.1".parse().unwrap())
    }

    fn text(mut written: Consumer<u8>) -> String {
        let mut text = vec![0; written.slots()];
        written.pop_entire_slice(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_line_is_of_the_combined_format_with_the_time_taken_at_its_end() {
        let mut client = Client::new("::ffff:192.0.2.1".parse().unwrap());
        let fields = [None, Some(&b"Mozilla/5.0 \"x\\\xc3\r"[..])];
        client.begin(Time::default(), &[b"GET", b"/a?b", b"HTTP/1.1"], fields);
        (client.status, client.body_bytes) = (Some(200), 1_024);
        let mut line = Vec::new();
        client.write(&mut line, 784_111_777, Duration::from_micros(2_000_070));
        let expected = "192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b HTTP/1.1\" 200 1024 \"-\" \
                        \"Mozilla/5.0 \\\"x\\\\\\xc3\\x0d\" 2.000070\n";
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_counted() {
        let handed = Arc::<Handed>::default();
        let (mut lines, written) = Lines::new(Arc::clone(&handed));
        let mut client = client();
        // Nothing is consumed meanwhile.
        while handed.dropped.get() < 3 {
            client.status(200, Time::default());
            lines.end(&mut client, Time::default(), |_| 0);
        }
        let text = text(written);
        assert_eq!(text.lines().count() as u64, handed.lines.get());
        assert!(text.ends_with('\n') && text.len() + 200 > MOST_WAITING);
    }

    #[test]
    fn a_client_that_leaves_before_its_answer_has_a_line_of_its_own() {
        let (mut lines, written) = Lines::new(Arc::default());
        let mut client = client();
        lines.end(&mut client, Time::default(), |_| 0);
        let head =
            corelane_proto::http::request::read(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &Default::default());
        client.request(&head.unwrap().unwrap(), Time::default());
        lines.end(&mut client, Time::default(), |_| 0);
        let text = text(written);
        assert_eq!(
            text.lines().count(),
            1,
            "a connection without a request has no line: {text}"
        );
        assert!(
            text.contains("\"GET / HTTP/1.1\" 499 0 \"-\" \"-\" 0.000000"),
            "{text}"
        );
    }
}
