//! `serve http`: HTTP/1.1 with one pinned worker, one listener and one set of connections a bucket.
//!
//! In: an [`HttpPlan`]. Out: a running [`HttpServer`], whose [`HttpServed`] tells per bucket what was asked, answered and
//! refused, by cause.

mod access;
mod bucket;
mod connection;
mod context;
mod counters;
mod exchange;
mod files;
mod object;
mod output;
mod plan;
mod producer;
mod served;
mod server;
mod tls;

pub use access::{AccessLogError, AccessLogged};
pub use object::{INDEX, Object};
pub use plan::{HttpLimits, HttpPlan, HttpServeError};
pub use producer::{PATTERN_PERIOD, pattern_byte};
pub use served::{BucketHttp, HttpServed};
pub use server::HttpServer;
pub use tls::{TlsError, TlsPlan};
