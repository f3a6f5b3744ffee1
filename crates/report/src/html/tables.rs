//! The tables of a page. Every number is a `<data>` element whose `value` is the JSON's number in full, so that what
//! is read and what is written can be held against each other.

use super::markup::{Markup, classed, element, plain};
use corelane_measure::quantity::{self, MISSING};

/// A heading of a column: its words and its unit.
pub type Heading = (&'static str, &'static str);

/// What a cell holds; `None` where there is nothing to say.
pub type Cell = Option<Markup>;

/// A table whose first `texts` columns lean left. Columns in which no row says anything are left out.
#[must_use]
pub fn table(headings: &[Heading], texts: usize, rows: impl Iterator<Item = Vec<Cell>>) -> Markup {
    let mut rows: Vec<Vec<Cell>> = rows.collect();
    let speaks: Vec<bool> = (0..headings.len())
        .map(|index| rows.iter().any(|row| row[index].is_some()))
        .collect();
    let heads = headings.iter().enumerate().filter(|(index, _)| speaks[*index]);
    let head: Markup = heads
        .map(|(index, (words, unit))| header_leaning(words, unit, index < texts))
        .collect();
    for row in &mut rows {
        let mut kept = speaks.iter();
        row.retain(|_| kept.next().copied().unwrap_or(false));
    }
    let body: Markup = rows.into_iter().map(|row| body_row(row, texts)).collect();
    scrolled(plain("thead", plain("tr", head)).with(plain("tbody", body)))
}

/// A heading that leans right.
#[must_use]
pub fn header(words: &str, unit: &str) -> Markup {
    header_leaning(words, unit, false)
}

fn header_leaning(words: &str, unit: &str, left: bool) -> Markup {
    let unit = if unit.is_empty() {
        Markup::default()
    } else {
        plain("small", unit)
    };
    let attributes: &[_] = if left {
        &[("scope", "col"), ("class", "words")]
    } else {
        &[("scope", "col")]
    };
    element("th", attributes, Markup::from(words).with(unit))
}

/// Letters up to which a cell stays on one line: more of them leave no room for the numbers on a phone.
const LONGEST_UNBROKEN: usize = 20;

/// A row whose first `texts` cells lean left.
#[must_use]
pub fn body_row(cells: Vec<Cell>, texts: usize) -> Markup {
    let cell = |(index, cell): (usize, Cell)| {
        let cell = cell.unwrap_or_else(|| classed("span", "missing", MISSING));
        match index {
            0 if cell.is_text_over(LONGEST_UNBROKEN) => {
                element("th", &[("scope", "row"), ("class", "long")], cell)
            }
            0 => element("th", &[("scope", "row")], cell),
            index if index < texts => classed("td", "words", cell),
            _ if cell.is_text_over(LONGEST_UNBROKEN) => classed("td", "long", cell),
            _ => plain("td", cell),
        }
    };
    plain("tr", cells.into_iter().enumerate().map(cell).collect::<Markup>())
}

/// A table that scrolls by itself where the screen is narrower; focusable, so that keys scroll it too.
#[must_use]
pub fn scrolled(parts: Markup) -> Markup {
    let attributes = [
        ("class", "scroll"),
        ("tabindex", "0"),
        ("role", "region"),
        ("aria-label", "table, scrolls sideways"),
    ];
    element("div", &attributes, plain("table", parts))
}

/// A number as it reads, with the JSON's in full.
#[must_use]
pub fn number(value: Option<f64>, show: impl Fn(f64) -> String) -> Cell {
    let value = value.filter(|value| value.is_finite())?;
    data(value, show(value))
}

/// A whole number as it reads.
#[must_use]
pub fn whole(value: u64) -> Cell {
    data(value, quantity::count(value))
}

/// What is shown, with the JSON's value.
#[must_use]
pub fn data(value: impl std::fmt::Display, shown: String) -> Cell {
    Some(element("data", &[("value", value.to_string().as_str())], shown))
}

/// A number with two decimals.
#[must_use]
pub fn two_decimals(value: f64) -> String {
    quantity::fixed(value, 2)
}
