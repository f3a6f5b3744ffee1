//! Which steps of `lab scale http` and `lab scale tcp` are measured.

use super::shape::{Server, Traffic};
use crate::scale::plan;
use serde::Serialize;

/// What selects steps: as [`plan::Selection`], and what only streams have.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Selection {
    /// Models of our server; empty with a subject.
    pub servers: Vec<Server>,
    /// Traffic modes, measured one after the other; only requests for HTTP.
    pub traffics: Vec<Traffic>,
    /// Sizes of requested objects, in bytes.
    pub object_bytes: Vec<u64>,
    /// Bytes per write, for byte streams.
    pub write_bytes: Vec<u64>,
    /// Total connections.
    pub connections: Vec<u64>,
    /// Numbers of active buckets; `None` for 1 to all.
    pub active: Option<Vec<usize>>,
    /// Descriptors that one table may hold.
    pub descriptor_limit: usize,
    /// The common part.
    #[serde(flatten)]
    pub common: plan::Selection,
}
