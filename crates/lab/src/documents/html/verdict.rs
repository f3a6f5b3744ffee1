//! What spoils the numbers of a page.

use crate::documents::conditions::{self, Severity};
use corelane_report::html::markup::{Markup, plain};

/// Said of a run that was interrupted.
pub(super) const ENDED_EARLY: &str =
    "The run was ended early; the numbers rest on the trials that were complete.";

/// The conditions that spoil a result, a line each.
pub(super) fn spoiling_conditions(snapshot: &serde_json::Value) -> Vec<Markup> {
    conditions::worst_first(snapshot)
        .into_iter()
        .filter(|condition| condition.severity == Severity::Spoils)
        .map(|condition| {
            let value = condition.value.unwrap_or_default();
            let mend = condition.mend.map(|mend| format!(" Mend: {mend}"));
            let why = format!(": {}.", condition.why.trim_end_matches('.'));
            plain("strong", format!("{} = {value}", condition.name))
                .with(why)
                .with(mend.unwrap_or_default())
        })
        .collect()
}
