//! What verbs that open links say about them.

use crate::outcome::{cannot_run, usage};
use corelane_link::LinkError;
use corelane_report::text::counted;
use std::collections::BTreeMap;

/// The refusal of a link; `what` names the argument that it comes from.
pub fn refused_link(what: &str, error: &LinkError) -> anyhow::Error {
    match error {
        LinkError::NotPermitted { .. } | LinkError::Unsupported { .. } => {
            cannot_run(format!("{what}: {error}"))
        }
        error => usage(what, error),
    }
}

/// A line of what befell a link's frames; nothing for a link without faults.
pub fn faults(link: &str, faults: Option<&BTreeMap<String, u64>>) -> String {
    faults.map_or_else(String::new, |faults| {
        format!("faults of {link}: {}\n", counted(faults))
    })
}
