//! Parts that pages share.

pub mod classify;
mod tables;
mod verdict;

use crate::document::Tool;
use corelane_report::date;
use corelane_report::html::markup::{Markup, classed, element, plain};
use corelane_report::html::section;

/// The command that repeats a run, the documents that describe it, and what wrote the page.
fn repetition(command: &str, documents: Markup, tool: &Tool, started_unix_s: u64) -> Markup {
    let command = element("pre", &[("class", "command")], plain("code", command));
    let tool = format!(
        "Written by {} {} on {}.",
        tool.name,
        tool.version,
        date::utc(started_unix_s)
    );
    section(
        "Repeat it",
        command.with(documents).with(classed("p", "note", tool)),
    )
}
