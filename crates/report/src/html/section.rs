//! Parts of a page, and contents that a phone shows after a tap.

use super::markup::{Markup, classed, plain, prose, void};
use crate::text::sentence_case;

/// A titled part of a page, which a phone folds unless it is `open`.
pub fn section(title: &str, contents: Markup, open: bool) -> Markup {
    match title {
        "" => plain("section", contents),
        title if open || contents.is_empty() => {
            plain("section", plain("h2", prose(sentence_case(title))).with(contents))
        }
        title => {
            let title = plain("h2", prose(sentence_case(title)));
            classed("section", "folds", title.with(folded("Show", contents)))
        }
    }
}

/// Contents that a phone shows after a tap, without a script; other screens and paper show them at once.
pub fn folded(words: &str, contents: Markup) -> Markup {
    if contents.is_empty() {
        return contents;
    }
    let attributes = [("type", "checkbox"), ("class", "more"), ("aria-label", words)];
    void("input", &attributes).with(classed("div", "folded", contents))
}
