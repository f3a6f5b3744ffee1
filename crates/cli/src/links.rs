//! Errors and fault counts of links, for all verbs that open links.

use crate::outcome::{cannot_run, usage};
use corelane_link::LinkError;
use corelane_measure::quantity::count;
use corelane_report::text::counted;
use std::collections::BTreeMap;

/// Converts a link error; `what` names the argument at fault.
pub fn refused_link(what: &str, error: &LinkError) -> anyhow::Error {
    match error {
        LinkError::Unavailable(_) => cannot_run(format!("{what}: {error}")),
        error => usage(what, error),
    }
}

/// One line with the fault counts of a link; empty for a link without fault injection.
pub fn faults(link: &str, faults: Option<&BTreeMap<String, u64>>) -> String {
    faults.map_or_else(String::new, |faults| {
        format!("faults of {link}: {}\n", counted(faults))
    })
}

/// A line about frames that arrived on a link but were invalid; empty if there are none.
pub fn invalid(link: &str, frames: u64) -> String {
    match frames {
        0 => String::new(),
        frames => format!(
            "not received from {link}: {} frames, too long, of a link layer that cannot be read, or cut off\n",
            count(frames)
        ),
    }
}
