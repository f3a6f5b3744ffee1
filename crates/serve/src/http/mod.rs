//! `serve http`: HTTP/1.1 with one pinned worker, one listener and one set of connections per bucket.
//!
//! In: an [`HttpPlan`]. Out: a running [`HttpServer`], whose [`HttpServed`] has requests, responses and errors by
//! cause, per bucket.

mod access;
mod bucket;
mod connection;
mod context;
mod error;
mod exchange;
mod files;
pub mod metrics;
mod object;
mod output;
mod plan;
mod producer;
mod protocol;

pub use access::{AccessLogError, AccessLogged};
pub use error::HttpError;
pub use plan::{HttpLimits, HttpPlan};
pub use protocol::{BucketHttp, HttpOwn, HttpServed, HttpServer};
