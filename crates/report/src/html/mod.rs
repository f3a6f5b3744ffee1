//! The frame of self-contained HTML pages: sections, figures, tables, tiles; no network, no script.
//!
//! Light and dark follow the reader's system; wide tables scroll separately on a phone.

pub mod axis;
pub mod bars;
pub mod curves;
pub mod figure;
pub mod markup;
pub mod plot;
pub mod section;
pub mod tiles;

use crate::date;
use markup::{Markup, element, plain, void};

/// The style sheet. It contains no URL, so nothing is fetched.
const STYLE: &str = include_str!("style.css");

/// Renders a page with this title and body.
#[must_use]
pub fn document(headline: &str, started_unix_s: Option<u64>, body: Markup) -> String {
    let when = started_unix_s.map(|when| format!(" \u{2013} {}", date::utc(when)));
    let title = format!("{headline}{}", when.unwrap_or_default());
    let html = element("html", &[("lang", "en")], head(title).with(plain("body", body)));
    format!("<!DOCTYPE html>\n{}", html.into_string())
}

fn head(title: String) -> Markup {
    let meta = |name, content| void("meta", &[("name", name), ("content", content)]);
    let parts = void("meta", &[("charset", "utf-8")])
        .with(meta("viewport", "width=device-width, initial-scale=1"))
        .with(meta("color-scheme", "light dark"))
        .with(plain("title", title))
        .with(plain("style", Markup::trusted(STYLE)));
    plain("head", parts)
}
