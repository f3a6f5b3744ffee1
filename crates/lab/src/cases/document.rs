//! The document.

use super::row::{Row, Trial};
use super::scenario::Asked;
use crate::document::{Document, Head};
use serde::{Deserialize, Serialize};

/// The whole document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report<R> {
    /// What all documents begin with.
    #[serde(flatten)]
    pub head: Head,
    /// What was run.
    pub plan: R,
    /// One per case, in order.
    pub rows: Vec<Row>,
    /// Every trial as it was counted.
    pub trials: Vec<Trial>,
    /// Sentences; the first one is the result.
    pub conclusions: Vec<String>,
}

impl<R: Asked> Document for Report<R> {
    const SCHEMAS: &'static [&'static str] = &[R::SCHEMA];

    fn head(&self) -> &Head {
        &self.head
    }

    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }
}
