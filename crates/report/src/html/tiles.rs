//! The top of a page: key numbers and caveats.

use super::markup::{Markup, classed, plain, prose};

/// A box of caveats; empty without any.
#[must_use]
pub fn bear_in_mind(class: &str, title: &str, lines: Vec<Markup>) -> Markup {
    if lines.is_empty() {
        return Markup::default();
    }
    let list: Markup = lines.into_iter().map(|line| plain("li", line)).collect();
    classed("section", class, plain("h2", title).with(plain("ul", list)))
}

/// A key number: its name, its value, and a word beside it.
pub type Tile = (&'static str, String, Option<String>);

/// Key numbers in a row; empty without any.
#[must_use]
pub fn tile_row(tiles: impl IntoIterator<Item = Tile>) -> Markup {
    let tile = |(name, value, note): Tile| {
        let name = classed("span", "name", name);
        let value = classed("span", "value", value);
        let note = note.map(|note| classed("span", "aside", prose(note)));
        plain("li", name.with(value).with(note.unwrap_or_default()))
    };
    match tiles.into_iter().map(tile).collect::<Markup>() {
        none if none.is_empty() => none,
        tiles => classed("ul", "tiles", tiles),
    }
}
