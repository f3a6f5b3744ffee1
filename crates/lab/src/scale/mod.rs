//! Scaling experiments, over datagrams and over connections. What they share: the document with its steps, the
//! implementation of `Experiment`, the page, the form of a limit and the scaling law.

pub mod datagrams;
pub mod experiment;
pub mod limit;
pub(crate) mod page;
pub mod plan;
pub(crate) mod quota;
pub mod steps;
pub mod streams;
