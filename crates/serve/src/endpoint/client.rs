//! One client of the endpoint, from its connection to its end: a request is read, a document awaited, and the response
//! sent, all before one deadline.

use corelane_proto::http::answer;
use corelane_proto::http::request::{self, Limits, Version};
use corelane_report::exposition::{Exposed, Exposition, Format};
use nix::poll::PollFlags;
use socket2::Socket;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The path of the metrics.
pub(super) const PATH: &str = "/metrics";

/// Time limit of a request: to send it, to be given a document, and to take the response. A document takes some 20 ms,
/// and Prometheus gives up after 10 s by default. The wait for a document is the sum of [`LOOK`]s.
const DEADLINE: Duration = Duration::from_secs(2);

/// Longest time between two looks at a client that waits for a document. What a look takes longer does not count: when
/// the machine pauses, the control thread makes no document either.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Further time to read the error that a missed deadline gets.
const GRACE: Duration = Duration::from_secs(1);

/// Reads at a time of what arrives after the response.
const MOST_DISCARDS: usize = 16;

/// A scraper's request has some 300 bytes.
const LIMITS: Limits = Limits {
    line_bytes: 1_024,
    head_bytes: 8_192,
    fields: 64,
};

/// The progress of a client.
enum State {
    /// Of its request, these bytes have arrived.
    Reading(Vec<u8>),
    /// It waits for a document, in this format.
    Waiting { format: Format, with_body: bool },
    /// Its response, and the bytes of it that were sent.
    Writing { response: Vec<u8>, sent: usize },
    /// It has the response. What it still sends is discarded, because closing before would reset the connection, and
    /// with it what the client has not read yet.
    Closing,
}

/// A client.
pub(super) struct Client {
    socket: Socket,
    state: State,
    deadline: Instant,
}

impl Client {
    /// A client that has just connected; `None` if its socket cannot be used.
    pub(super) fn new(socket: Socket, now: Instant) -> Option<Self> {
        socket.set_nonblocking(true).ok()?;
        Some(Self {
            socket,
            state: State::Reading(Vec::new()),
            deadline: now + DEADLINE,
        })
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The events to wait for.
    pub(super) fn interest(&self) -> PollFlags {
        match self.state {
            State::Writing { .. } => PollFlags::POLLOUT,
            _ => PollFlags::POLLIN,
        }
    }

    /// Whether it waits for a document.
    pub(super) fn waits(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    /// Whether another client may have its place, and which of several goes first: one without a complete request before
    /// one that has its response and only stays.
    pub(super) fn leaves(&self) -> Option<u8> {
        match self.state {
            State::Reading(_) => Some(0),
            State::Closing => Some(1),
            State::Waiting { .. } | State::Writing { .. } => None,
        }
    }

    /// A look took this long.
    pub(super) fn looked(&mut self, took: Duration) {
        if self.waits() {
            self.deadline += took.saturating_sub(LOOK);
        }
    }

    /// Prepares the response if it waits for a document.
    pub(super) fn answer(&mut self, document: &dyn Exposed) {
        if let State::Waiting { format, with_body } = self.state {
            let body = Exposition::of(document, format);
            self.respond(200, format.content_type(), &body, with_body);
        }
    }

    /// Advances as far as possible; false if it is done with.
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        if now >= self.deadline && !self.expire() {
            return false;
        }
        let advanced = match &mut self.state {
            State::Reading(_) => self.read(),
            State::Waiting { .. } | State::Writing { .. } => Ok(()),
            State::Closing => self.discard(),
        };
        let advanced = advanced.and_then(|()| self.write());
        match advanced {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// The deadline has passed; false if nothing can be said about it any more.
    fn expire(&mut self) -> bool {
        match self.state {
            State::Reading(_) => self.refuse(408, "the request was not complete in time"),
            State::Waiting { .. } => self.refuse(503, "the counts were not available in time: try again"),
            State::Writing { .. } | State::Closing => return false,
        }
        self.deadline += GRACE;
        true
    }

    /// Reads until the request is complete or invalid.
    fn read(&mut self) -> io::Result<()> {
        let State::Reading(request) = &mut self.state else {
            return Ok(());
        };
        let mut part = [0; 1024];
        loop {
            let bytes = self.socket.read(&mut part)?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            request.extend_from_slice(&part[..bytes]);
            match asked(request) {
                Ok(None) => continue,
                Ok(Some(waiting)) => self.state = waiting,
                Err((status, why)) => self.refuse(status, &why),
            }
            return Ok(());
        }
    }

    fn refuse(&mut self, status: u16, why: &str) {
        // A response to HEAD has no body, whatever its status (RFC 9110, 9.3.2).
        let with_body = match &self.state {
            State::Reading(request) => !request.trim_ascii_start().starts_with(b"HEAD "),
            State::Waiting { with_body, .. } => *with_body,
            State::Writing { .. } | State::Closing => true,
        };
        self.respond(
            status,
            "text/plain; charset=utf-8",
            &format!("{why}\n"),
            with_body,
        );
    }

    fn respond(&mut self, status: u16, content_type: &str, body: &str, with_body: bool) {
        let mut response = Vec::with_capacity(body.len() + 256);
        answer::begin(&mut response, status);
        answer::field(&mut response, "Content-Type", content_type.as_bytes());
        answer::number(&mut response, "Content-Length", body.len() as u64);
        if status == 405 {
            answer::field(&mut response, "Allow", b"GET, HEAD");
        }
        answer::connection(&mut response, Version::Http11, false);
        answer::end(&mut response);
        if with_body {
            response.extend_from_slice(body.as_bytes());
        }
        self.state = State::Writing { response, sent: 0 };
    }

    /// Sends what is left of the response.
    fn write(&mut self) -> io::Result<()> {
        let State::Writing { response, sent } = &mut self.state else {
            return Ok(());
        };
        while *sent < response.len() {
            *sent += self.socket.write(&response[*sent..])?;
        }
        self.socket.shutdown(Shutdown::Write)?;
        self.state = State::Closing;
        Ok(())
    }

    /// Discards a bounded part of what it still sends, so that neither other clients nor its deadline wait for it.
    fn discard(&mut self) -> io::Result<()> {
        let mut part = [0; 1024];
        for _ in 0..MOST_DISCARDS {
            if self.socket.read(&mut part)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

/// What a request waits for, or the status and the reason of its refusal; `None` if it is incomplete.
fn asked(request: &[u8]) -> Result<Option<State>, (u16, String)> {
    let read = request::read(request, &LIMITS);
    let Some(head) = read.map_err(|error| (error.status(), error.to_string()))? else {
        return Ok(None);
    };
    let path = head.path_and_query().split(|byte| *byte == b'?').next();
    if path != Some(PATH.as_bytes()) {
        return Err((404, format!("the metrics are at {PATH}")));
    }
    if head.method != b"GET" && head.method != b"HEAD" {
        return Err((405, "metrics are only read: use GET or HEAD".to_owned()));
    }
    let accept = head
        .field("accept")
        .and_then(|accept| std::str::from_utf8(accept).ok());
    Ok(Some(State::Waiting {
        format: Format::preferred(accept),
        with_body: head.method == b"GET",
    }))
}
