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
    number: u8,
    /// Whether it is being made: until then, the redirect is not complete.
    pub(super) is_made: bool,
    pub(super) head: String,
    method: String,
    target: String,
    /// Whether it has the body of the request that was redirected.
    pub(super) has_body: bool,
}

impl<O: ConnectionOutput> Turn<'_, Http, O> {
    /// The response in progress is a redirect with this `Location`: it is followed once it is complete, if it may be.
    pub(super) fn redirected(&mut self, location: Option<&[u8]>) {
        let before = self.exchange.hop.as_deref();
        let asked = &self.terms.requests.request(*self.request).planned;
        let scheme = match self.terms.pool.tls {
            Some(_) => Scheme::Https,
            None => Scheme::Http,
        };
        let may_follow = before.is_none_or(|hop| hop.number < self.terms.requests.follow);
        // A request that is still being written is not abandoned.
        let location = location.filter(|_| may_follow && !self.exchange.writing);
        let next = location.and_then(|location| {
            let location = std::str::from_utf8(location).ok()?;
            Hop::after(asked, before, self.exchange.status, location, scheme)
        });
        if let Some(next) = next {
            self.exchange.hop = Some(Box::new(next));
        }
    }
}

impl Hop {
    /// The request for `location` after an answer with this status to the planned request, or to the hop before; `None`
    /// if it is not on the same server, or not valid.
    fn after(
        asked: &PlannedRequest,
        before: Option<&Self>,
        status: u16,
        location: &str,
        scheme: Scheme,
    ) -> Option<Self> {
        let (method, target) =
            before.map_or((&asked.method, &asked.target), |hop| (&hop.method, &hop.target));
        let (_, host) = asked
            .fields()
            .find(|(name, _)| name.eq_ignore_ascii_case("host"))?;
        let base: Url = format!("{scheme}://{host}{target}").parse().ok()?;
        let url = base.join(location).ok()?;
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
        let of_bodies = |name: &str| OF_BODIES.iter().any(|field| name.eq_ignore_ascii_case(field));
        let mut head = format!("{method} {} HTTP/1.1\r\n", url.target);
        for (name, value) in asked.fields().filter(|(name, _)| has_body || !of_bodies(name)) {
            head.extend([name, ": ", value, "\r\n"]);
        }
        Some(Self {
            number: before.map_or(0, |hop| hop.number) + 1,
            is_made: false,
            head: head + "\r\n",
            method: method.to_owned(),
            target: url.target,
            has_body,
        })
    }
}
