//! Scaling experiments, over datagrams, over connections and of caches. What they share: the document with its steps, the
//! implementation of `Experiment`, the page, the form of a limit and the scaling law.

pub mod counts;
pub mod datagrams;
pub mod experiment;
pub mod limit;
pub mod memcached;
pub(crate) mod page;
pub mod plan;
pub(crate) mod quota;
pub(crate) mod sides;
pub mod steps;
pub mod streams;
