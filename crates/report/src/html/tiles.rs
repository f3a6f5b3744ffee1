//! The top of a page: key numbers and caveats.

use super::markup::{Markup, classed, element, plain};

/// A box of caveats; empty without any.
#[must_use]
pub fn bear_in_mind(lines: Vec<Markup>) -> Markup {
    if lines.is_empty() {
        return Markup::default();
    }
    let title = "Read the numbers with this in mind";
    let list: Markup = lines.into_iter().map(|line| plain("li", line)).collect();
    let contents = plain("h2", title).with(plain("ul", list));
    element("section", &[("class", "spoilers")], contents)
}

/// A key number: its name, its value, and a word beside it.
pub type Tile = (&'static str, String, Option<String>);

/// Key numbers in a row.
#[must_use]
pub fn tile_row(tiles: impl IntoIterator<Item = Tile>) -> Markup {
    let tile = |(name, value, note): Tile| {
        let name = classed("span", "name", name);
        let value = classed("span", "value", value);
        let note = note.map(|note| classed("span", "aside", note));
        plain("li", name.with(value).with(note.unwrap_or_default()))
    };
    classed("ul", "tiles", tiles.into_iter().map(tile).collect::<Markup>())
}
