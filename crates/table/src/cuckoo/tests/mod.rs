//! The protocol in every interleaving, and the table against a plain map.

mod model;
mod oracle;

pub(crate) use model::{ModelWord, Table as ModelTable, key as model_key};
