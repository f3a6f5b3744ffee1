//! Tables that pages share.

use crate::documents::conditions;
use corelane_report::html::markup::{Markup, classed};
use corelane_report::html::tables::{Heading, table};

/// All conditions, worst first.
pub(crate) fn conditions(snapshot: &serde_json::Value) -> Markup {
    let all = conditions::worst_first(snapshot);
    if all.is_empty() {
        return Markup::default();
    }
    let headings: [Heading; 5] = [
        ("", ""),
        ("condition", ""),
        ("value", ""),
        ("why it matters", ""),
        ("source", ""),
    ];
    let rows = all.into_iter().map(|condition| {
        let word = condition.severity.word();
        let mend = condition.mend.map(|mend| format!(" Mend: {mend}"));
        vec![
            Some(classed("span", &format!("pill {word}"), word)),
            Some(condition.name.into()),
            condition.value.map(Markup::from),
            Some(sentence(&condition.why).with(mend.unwrap_or_default())),
            Some(condition.source.into()),
        ]
    });
    classed("div", "text", table(&headings, headings.len(), rows))
}

/// Words with one full stop at their end.
fn sentence(words: &str) -> Markup {
    match words.trim_end_matches('.') {
        "" => Markup::default(),
        words => format!("{words}.").into(),
    }
}
