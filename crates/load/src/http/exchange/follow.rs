//! Redirects: the request that an answer asks for, on the same server.

use crate::http::plan::{Http, PlannedRequest};
use crate::streams::{ConnectionOutput, Turn};
use corelane_proto::http::url::{Scheme, Url};

/// Fields that describe a body; a request without it does not have them (RFC 9110 15.4).
const OF_BODIES: [&str; 5] = [
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "expect",
];

/// The request that follows a redirect.
#[derive(Debug)]
pub(super) struct Hop {
    /// Its number in the chain, from 1.
    pub(super) number: u8,
    pub(super) head: String,
    pub(super) method: String,
    pub(super) target: String,
    /// Whether it has the body of the request that was redirected.
    pub(super) has_body: bool,
}

/// The redirects of a request.
#[derive(Debug, Default)]
pub(super) struct Hops {
    /// The request sent last.
    current: Option<Hop>,
    /// The one that the response in progress asks for.
    next: Option<Hop>,
}

impl Hops {
    /// The request sent last, if it follows a redirect.
    pub(super) fn current(&self) -> Option<&Hop> {
        self.current.as_ref()
    }

    /// Makes the next request the current one; returns whether there is one.
    pub(super) fn advance(&mut self) -> bool {
        let next = self.next.take();
        let has_next = next.is_some();
        self.current = next.or(self.current.take());
        has_next
    }
}

impl<O: ConnectionOutput> Turn<'_, Http, O> {
    /// The response in progress is a redirect with this `Location`: it is followed once it is complete, if it may be.
    pub(super) fn redirected(&mut self, location: Option<&[u8]>) {
        let (before, status) = (self.exchange.hop(), self.exchange.status);
        if before.is_some_and(|hop| hop.number >= self.terms.requests.follow) {
            return;
        }
        let asked = &self.terms.requests.request(*self.request).planned;
        let scheme = match self.terms.pool.tls {
            Some(_) => Scheme::Https,
            None => Scheme::Http,
        };
        let next = location.and_then(|location| Hop::after(asked, before, status, location, scheme));
        if next.is_some() {
            self.exchange.hops.get_or_insert_default().next = next;
        }
    }
}

impl Hop {
    /// The request for `location` after an answer with this status to the planned request, or to the hop before; `None`
    /// if it is not on the same server, or not valid.
    pub(super) fn after(
        asked: &PlannedRequest,
        before: Option<&Self>,
        status: u16,
        location: &[u8],
        scheme: Scheme,
    ) -> Option<Self> {
        let (method, target) = match before {
            Some(hop) => (&hop.method, &hop.target),
            None => (&asked.method, &asked.target),
        };
        let fields = asked.head.split("\r\n").skip(1).filter(|line| !line.is_empty());
        let host = fields.clone().find_map(|line| field(line, "host"))?;
        let base: Url = format!("{scheme}://{host}{target}").parse().ok()?;
        let url = base.join(std::str::from_utf8(location).ok()?).ok()?;
        if (url.scheme, &url.host, url.port) != (base.scheme, &base.host, base.port) {
            return None;
        }
        // RFC 9110 15.4.2 to 15.4.4: a POST becomes a GET as in all clients; 307 and 308 change nothing.
        let becomes_get = match status {
            303 => method != "HEAD",
            301 | 302 => method == "POST",
            _ => false,
        };
        let has_body = !becomes_get && before.is_none_or(|hop| hop.has_body);
        let method = if becomes_get { "GET" } else { method };
        let is_kept = |line: &&str| has_body || OF_BODIES.iter().all(|name| field(line, name).is_none());
        let mut head = format!("{method} {} HTTP/1.1\r\n", url.target);
        for line in fields.filter(is_kept) {
            head.extend([line, "\r\n"]);
        }
        Some(Self {
            number: before.map_or(0, |hop| hop.number) + 1,
            head: head + "\r\n",
            method: method.to_owned(),
            target: url.target,
            has_body,
        })
    }
}

/// The value of a field line with this name.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (found, value) = line.split_once(':')?;
    found.eq_ignore_ascii_case(name).then(|| value.trim())
}
