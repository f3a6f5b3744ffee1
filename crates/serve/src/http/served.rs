//! What an HTTP server was asked and answered, per bucket: the document that `serve http` ends with.

use super::access::AccessLogged;
use corelane_rss::Steering;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The counts of an HTTP server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HttpServed {
    /// `corelane/served-http/1`.
    pub schema: String,
    /// Where it listened.
    pub address: SocketAddr,
    /// The engine that ran.
    pub engine: String,
    /// Why it is not the engine asked for.
    pub engine_reason: Option<String>,
    /// What both ends must agree on.
    pub steering: Steering,
    /// One entry a bucket, in order.
    pub buckets: Vec<BucketHttp>,
    /// What became of the lines of the access log, where one is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_log: Option<AccessLogged>,
}

/// The counts of one bucket.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct BucketHttp {
    /// The bucket.
    pub bucket: u16,
    /// Where its worker runs.
    pub cpu: u32,
    /// Connections that came.
    pub accepted: u64,
    /// Connections that are open.
    pub open: u64,
    /// TLS handshakes that were complete, with a certificate.
    #[serde(default)]
    pub handshakes_full: u64,
    /// TLS handshakes that resumed an earlier session.
    #[serde(default)]
    pub handshakes_resumed: u64,
    /// Requests whose head was read.
    pub requests: u64,
    /// Answers by status, `100 Continue` among them. `requests` and the refusals of heads make up all others.
    pub answers: BTreeMap<u16, u64>,
    /// Requests' bodies that were read to their end.
    pub bodies: u64,
    /// Their bytes.
    pub body_bytes: u64,
    /// Of the bodies echoed, those that were the pattern.
    pub pattern_bodies: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Connections closed for having been idle.
    pub idle_closed: u64,
    /// Requests refused and connections given up, by cause.
    pub errors: BTreeMap<String, u64>,
    /// Connections that could not be accepted, by cause.
    pub accept_failed: BTreeMap<String, u64>,
    /// Connections that ended otherwise than closed, by cause.
    pub broken: BTreeMap<String, u64>,
}

impl HttpServed {
    /// Requests of all buckets.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.requests).sum()
    }

    /// Connections open in all buckets.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.open).sum()
    }

    /// Errors of all buckets: `errors`, `accept_failed` and `broken`.
    #[must_use]
    pub fn errors(&self) -> BTreeMap<String, u64> {
        let mut sum = BTreeMap::new();
        for bucket in &self.buckets {
            let kinds = [&bucket.errors, &bucket.accept_failed, &bucket.broken];
            for (cause, count) in kinds.into_iter().flatten() {
                *sum.entry(cause.clone()).or_default() += count;
            }
        }
        sum
    }
}
