//! Experiments that are cases, each with labels and figures: what `lab path` and `lab cache` have in common.
//!
//! In: a request that implements [`Asked`]. Out: a [`Report`]: one row per case, which the same frame renders for all. What differs
//! is data: the schema and titles of the request, and its [`Scenario`]: cases, figures, what columns mean, what follows from rows.

mod document;
mod page;
mod row;
mod run;
mod scenario;

pub use document::Report;
pub(crate) use row::Figures;
pub use row::{Published, Row, Trial};
pub use run::Cases;
pub use scenario::{Asked, Case, Run, Scenario};
pub(crate) use scenario::{counted, figure};
