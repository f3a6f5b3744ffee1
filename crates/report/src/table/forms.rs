//! A table as Markdown, as CSV and as HTML.

use super::{Alignment, Cell, Column, Table, length};
use crate::html::markup::{Markup, classed, element, plain, prose};
use corelane_measure::quantity::MISSING;
use std::fmt::Write as _;

impl Table {
    /// The table in Markdown, with units behind the headers.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let escape = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|");
        let mut text = String::from("|");
        for column in &self.columns {
            let unit = if column.unit.is_empty() {
                String::new()
            } else {
                format!(" ({})", column.unit)
            };
            let _ = write!(text, " {}{} |", escape(&column.header), escape(&unit));
        }
        text.push_str("\n|");
        for column in &self.columns {
            text.push_str(match column.alignment {
                Alignment::Left => "---|",
                Alignment::Right => "--:|",
            });
        }
        for row in &self.rows {
            text.push_str("\n|");
            for cell in row {
                let _ = write!(text, " {} |", escape(&cell.shown));
            }
        }
        text.push('\n');
        text
    }

    /// The table as CSV (RFC 4180) with a header line: numbers at full precision, missing numbers empty.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let quote = |text: &str| match text.contains([',', '"', '\n']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        };
        let line = |cells: Vec<String>| cells.join(",") + "\r\n";
        let name = |column: &Column| match column.key {
            "" => quote(&column.name()),
            key => key.to_owned(),
        };
        let cell = |cell: &Cell| match cell.value {
            Some(value) => value.to_string(),
            None if cell.says_nothing() => String::new(),
            None => quote(&cell.shown),
        };
        let rows = self.rows.iter().map(|row| line(row.iter().map(cell).collect()));
        line(self.columns.iter().map(name).collect()) + &rows.collect::<String>()
    }

    /// The table for a page, without empty columns. Every number is a `<data>` element whose `value` is the number at
    /// full precision.
    #[must_use]
    pub fn to_html(&self) -> Markup {
        let table = self.clone().without_silent_columns();
        let head: Markup = table.columns.iter().map(header_cell).collect();
        let row = |row: &Vec<Cell>| {
            let cells = row.iter().zip(&table.columns).enumerate();
            plain("tr", cells.map(body_cell).collect::<Markup>())
        };
        let body: Markup = table.rows.iter().map(row).collect();
        let words_alone = table
            .columns
            .iter()
            .all(|column| column.alignment == Alignment::Left);
        let scroll = scrolled(plain("thead", plain("tr", head)).with(plain("tbody", body)));
        match words_alone {
            true => classed("div", "text", scroll),
            false => scroll,
        }
    }
}

impl Cell {
    fn html(&self) -> Markup {
        let shown = match self.value {
            Some(value) => element(
                "data",
                &[("value", value.to_string().as_str())],
                self.shown.as_str(),
            ),
            None if self.says_nothing() => classed("span", "missing", MISSING),
            None => prose(&self.shown),
        };
        if self.alarming {
            classed("strong", "bad", shown)
        } else {
            shown
        }
    }
}

/// Longest cell, in letters, that is not wrapped: longer cells leave no room for the numbers on a phone.
const LONGEST_UNBROKEN: usize = 20;

fn header_cell(column: &Column) -> Markup {
    let unit = match column.unit.as_str() {
        "" => Markup::default(),
        unit => plain("small", unit),
    };
    let attributes: &[_] = match column.alignment {
        Alignment::Left => &[("scope", "col"), ("class", "words")],
        Alignment::Right => &[("scope", "col")],
    };
    element("th", attributes, Markup::from(&column.header).with(unit))
}

fn body_cell((index, (cell, column)): (usize, (&Cell, &Column))) -> Markup {
    let long = cell.value.is_none() && length(&cell.shown) > LONGEST_UNBROKEN;
    let contents = cell.html();
    match (index, column.alignment) {
        (0, _) if long => element("th", &[("scope", "row"), ("class", "long")], contents),
        (0, _) => element("th", &[("scope", "row")], contents),
        (_, Alignment::Left) if long => classed("td", "words long", contents),
        (_, Alignment::Left) => classed("td", "words", contents),
        (_, Alignment::Right) if long => classed("td", "long", contents),
        (_, Alignment::Right) => plain("td", contents),
    }
}

/// A table that scrolls on a narrower screen; focusable, so that keys scroll it too.
fn scrolled(parts: Markup) -> Markup {
    let attributes = [
        ("class", "scroll"),
        ("tabindex", "0"),
        ("role", "region"),
        ("aria-label", "table, scrolls sideways"),
    ];
    element("div", &attributes, plain("table", parts))
}
