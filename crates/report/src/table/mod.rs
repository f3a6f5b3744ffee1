//! The one model of a table: columns and rows come in, and lines for a terminal, Markdown, CSV or HTML go out.
//!
//! A cell is never wrapped and a number never cut. When the natural width is too much, the gaps shrink first, then the
//! columns marked [`Column::may_shrink`] lose their ends to `…`; when that is not enough, the table is split into several
//! below each other, or each row is written as a short list of `name: value`, the only form that is wrapped. Control
//! characters in cells become spaces, so that no text from outside reaches the terminal as an escape sequence. One
//! character is taken to be one column wide.

mod fit;
mod forms;
mod rows;

pub use fit::{clean, cut, wrap};
pub use rows::Rows;

use corelane_measure::metric::Show;
use corelane_measure::quantity::MISSING;
use fit::length;
use std::fmt::Write as _;

/// Before the further lines of a value.
const HANGING: &str = "  ";

/// The smallest width of a shrunk column.
const NARROWEST_SHRUNK: usize = 8;

/// Columns to which a cell is padded at most. One cell of a megabyte does not make every row as long.
const MOST_PADDED: usize = 1_000;

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// One column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    header: String,
    unit: String,
    alignment: Alignment,
    shrinks: bool,
    wide: bool,
    key: &'static str,
}

impl Column {
    /// A column of text.
    #[must_use]
    pub fn left(header: &str) -> Self {
        Self::new(header, Alignment::Left)
    }

    /// A column of numbers.
    #[must_use]
    pub fn right(header: &str) -> Self {
        Self::new(header, Alignment::Right)
    }

    /// Adds the unit, shown under the header.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        self.unit = clean(unit);
        self
    }

    /// Allows truncated cells if the table is too wide.
    #[must_use]
    pub fn may_shrink(mut self) -> Self {
        self.shrinks = true;
        self
    }

    /// Omits the column from text of 100 columns; pages and files show it.
    #[must_use]
    pub fn wide(mut self) -> Self {
        self.wide = true;
        self
    }

    /// Sets the column name in CSV, with the unit in the name. The default is the header.
    #[must_use]
    pub fn key(mut self, key: &'static str) -> Self {
        self.key = key;
        self
    }

    fn new(header: &str, alignment: Alignment) -> Self {
        Self {
            header: clean(header),
            unit: String::new(),
            alignment,
            shrinks: false,
            wide: false,
            key: "",
        }
    }

    /// Header and unit in one line.
    fn name(&self) -> String {
        format!("{} {}", self.header, self.unit).trim().to_owned()
    }
}

/// A cell: text, and the number it shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    shown: String,
    value: Option<f64>,
    alarming: bool,
}

impl Cell {
    /// A number; [`MISSING`] if there is none.
    #[must_use]
    pub fn number(value: Option<f64>, show: Show) -> Self {
        Self::shown(value, |value| show.cell(value))
    }

    /// A number with its own format.
    #[must_use]
    pub fn shown(value: Option<f64>, show: impl FnOnce(f64) -> String) -> Self {
        match value.filter(|value| value.is_finite()) {
            Some(number) => Self {
                shown: show(number),
                value: Some(number),
                alarming: false,
            },
            None => Self::from(MISSING),
        }
    }

    /// A whole number.
    #[must_use]
    pub fn count(number: u64) -> Self {
        Self::number(Some(number as f64), Show::Count)
    }

    /// A whole number without separators: a size, a port, a CPU.
    #[must_use]
    pub fn plain(number: u64) -> Self {
        Self::shown(Some(number as f64), |_| number.to_string())
    }

    /// The same cell, marked as an error.
    #[must_use]
    pub fn alarming(mut self) -> Self {
        self.alarming = true;
        self
    }

    /// What the cell shows.
    pub(crate) fn words(&self) -> &str {
        &self.shown
    }

    fn says_nothing(&self) -> bool {
        ["", MISSING].contains(&self.shown.as_str())
    }
}

impl<Text: AsRef<str>> From<Text> for Cell {
    fn from(text: Text) -> Self {
        Self {
            shown: clean(text.as_ref()),
            ..Self::default()
        }
    }
}

/// Columns and rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(columns: Vec<Column>) -> Self {
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row. Missing cells are empty, and cells beyond the last column are dropped.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let mut row: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        row.resize(self.columns.len(), Cell::default());
        self.rows.push(row);
    }

    /// The same with a further column of the same cell in every row.
    #[must_use]
    pub fn column(mut self, column: Column, cell: &Cell) -> Self {
        self.columns.push(column);
        self.rows.iter_mut().for_each(|row| row.push(cell.clone()));
        self
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table without the columns whose cells are all empty or [`MISSING`].
    #[must_use]
    pub fn without_silent_columns(self) -> Self {
        let speaks =
            |index: usize| self.rows.is_empty() || self.rows.iter().any(|row| !row[index].says_nothing());
        self.only(|index, _| speaks(index))
    }

    fn only(&self, keep: impl Fn(usize, &Column) -> bool) -> Self {
        let kept: Vec<usize> = (0..self.columns.len())
            .filter(|index| keep(*index, &self.columns[*index]))
            .collect();
        let row = |row: &Vec<Cell>| kept.iter().map(|index| row[*index].clone()).collect();
        Self {
            columns: kept.iter().map(|index| self.columns[*index].clone()).collect(),
            rows: self.rows.iter().map(row).collect(),
        }
    }

    /// Renders lines of at most `width` characters, each ending in a newline. Only a longer single word exceeds the
    /// width.
    #[must_use]
    pub fn render(&self, width: usize) -> String {
        let table = self.only(|_, column| !column.wide);
        let fitted = table.fitted(width).or_else(|| table.parts(width));
        fitted.unwrap_or_else(|| table.records(width))
    }

    /// One table whose lines fit; `None` if there is none.
    fn fitted(&self, width: usize) -> Option<String> {
        let natural = self.natural_widths();
        let lines = |gap| Some(self.lines(&self.fit(&natural, gap, width)?, gap));
        [2, 1].into_iter().find_map(lines)
    }

    /// Several tables below each other, each with the columns that name a row; `None` if those and one more do not fit.
    fn parts(&self, width: usize) -> Option<String> {
        let count = self.columns.len();
        let is_name = |column: &&Column| column.alignment == Alignment::Left;
        let names = self.columns.iter().take_while(is_name).count().max(1);
        let (mut text, mut from) = (String::new(), names);
        while from < count {
            let (to, lines) = (from + 1..=count).rev().find_map(|to| {
                let part = self.only(|index, _| index < names || (from..to).contains(&index));
                Some((to, part.fitted(width)?))
            })?;
            if from > names {
                text.push('\n');
            }
            text.push_str(&lines);
            from = to;
        }
        (count > names).then_some(text)
    }

    fn natural_widths(&self) -> Vec<usize> {
        let widest = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().map(|row| length(&row[index].shown));
            cells
                .chain([length(&column.header), length(&column.unit)])
                .max()
                .unwrap_or(0)
        };
        self.columns.iter().enumerate().map(widest).collect()
    }

    /// Column widths that fit, shrinking the widest shrinkable columns first; `None` if nothing fits.
    fn fit(&self, natural: &[usize], gap: usize, width: usize) -> Option<Vec<usize>> {
        let floor = |column: &Column| NARROWEST_SHRUNK.max(length(&column.header));
        let gaps = gap * natural.len().saturating_sub(1);
        if natural.iter().sum::<usize>() + gaps <= width {
            return Some(natural.to_vec());
        }
        // No column that shrinks stays wider than everything may be: a long cell costs no step per letter.
        let widest = |(natural, column): (&usize, &Column)| match column.shrinks {
            true => (*natural).min(width.max(floor(column))),
            false => *natural,
        };
        let mut widths: Vec<usize> = natural.iter().zip(&self.columns).map(widest).collect();
        while widths.iter().sum::<usize>() + gaps > width {
            let shrinks = |(index, width): &(usize, &usize)| {
                let column = &self.columns[*index];
                column.shrinks && **width > floor(column)
            };
            let widths_by_column = widths.iter().enumerate().filter(shrinks);
            let (widest, _) = widths_by_column.max_by_key(|(_, width)| **width)?;
            widths[widest] -= 1;
        }
        Some(widths)
    }

    fn lines(&self, widths: &[usize], gap: usize) -> String {
        let mut text = String::new();
        let headers: Vec<&str> = self.columns.iter().map(|column| column.header.as_str()).collect();
        self.line(&mut text, &headers, widths, gap);
        if self.columns.iter().any(|column| !column.unit.is_empty()) {
            let units: Vec<&str> = self.columns.iter().map(|column| column.unit.as_str()).collect();
            self.line(&mut text, &units, widths, gap);
        }
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(|cell| cell.shown.as_str()).collect();
            self.line(&mut text, &cells, widths, gap);
        }
        text
    }

    fn line(&self, text: &mut String, cells: &[&str], widths: &[usize], gap: usize) {
        let start = text.len();
        for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
            if index > 0 {
                text.extend(std::iter::repeat_n(' ', gap));
            }
            let cell = cut(cell, *width);
            // Not by a format's width, which is 65,535 at most.
            let padding = (*width).min(MOST_PADDED).saturating_sub(length(&cell));
            let padding = std::iter::repeat_n(' ', padding);
            match self.columns[index].alignment {
                Alignment::Left => text.extend(cell.chars().chain(padding)),
                Alignment::Right => text.extend(padding.chain(cell.chars())),
            }
        }
        let end = text.trim_end_matches(' ').len();
        text.truncate(end.max(start));
        text.push('\n');
    }

    /// One `name: value` per paragraph, a blank line between rows.
    fn records(&self, width: usize) -> String {
        let names: Vec<String> = self.columns.iter().map(Column::name).collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            for (name, cell) in names.iter().zip(row).filter(|(_, cell)| !cell.shown.is_empty()) {
                let words = format!("{name}: {}", cell.shown);
                let lines = wrap(&words, width.saturating_sub(HANGING.len()));
                let _ = writeln!(text, "{}", lines.join(&format!("\n{HANGING}")));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Table {
        let mut table = Table::new(vec![
            Column::left("cause").may_shrink(),
            Column::right("frames"),
            Column::right("share").unit("%"),
        ]);
        table.row(["dropped due to full socket buffers", "1,634,117,674", "24.1"]);
        table.row(["dropped due to no socket", "17,450,880", "0.3"]);
        table
    }

    #[test]
    fn a_table_lines_up() {
        let expected = "\
cause                                      frames  share
                                                       %
dropped due to full socket buffers  1,634,117,674   24.1
dropped due to no socket               17,450,880    0.3
";
        assert_eq!(sample().render(100), expected);
    }

    #[test]
    fn a_table_too_wide_cuts_text_and_never_numbers() {
        let expected = "\
cause                      frames  share
                                       %
dropped due to fu…  1,634,117,674   24.1
dropped due to no…     17,450,880    0.3
";
        assert_eq!(sample().render(40), expected);
    }

    #[test]
    fn a_table_with_many_columns_is_split_and_each_part_names_its_rows() {
        let text = sample().render(26);
        assert_eq!(text.matches("cause").count(), 2, "{text}");
        assert!(
            text.contains("\n\ncause") && text.contains("1,634,117,674"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 26), "{text}");
    }

    #[test]
    fn a_table_far_too_wide_becomes_a_list() {
        let expected = "\
cause: dropped due
  to full socket
  buffers
frames:
  1,634,117,674
share %: 24.1

cause: dropped due
  to no socket
frames: 17,450,880
share %: 0.3
";
        assert_eq!(sample().render(20), expected);
    }

    #[test]
    fn markdown_names_units_and_escapes_bars() {
        let mut table = Table::new(vec![Column::left("name"), Column::right("rate").unit("/s")]);
        table.row(["a|b", "1.72 M"]);
        assert_eq!(
            table.to_markdown(),
            "| name | rate (/s) |\n|---|--:|\n| a\\|b | 1.72 M |\n"
        );
    }

    #[test]
    fn columns_that_say_nothing_are_left_out() {
        let mut table = Table::new(vec![Column::left("a"), Column::left("b"), Column::left("c")]);
        table.row(["1", MISSING, ""]);
        table.row(["2", "", "x"]);
        assert_eq!(table.without_silent_columns().render(100), "a  c\n1\n2  x\n");
    }

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        let mut table = Table::new(vec![Column::left("name")]);
        table.row(["\u{1b}[31mred\n"]);
        assert_eq!(table.render(100), "name\n [31mred\n");
    }

    #[test]
    fn a_cell_of_any_length_is_shown_whole_in_a_file_and_cut_on_a_terminal() {
        let long = "x".repeat(70_000);
        let mut table = Table::new(vec![Column::left("stage").may_shrink(), Column::right("ok")]);
        table.row([long.as_str(), "1"]);
        table.row(["short", "2"]);
        table.row(["short", &long]);
        let padded = |cell: &str| format!("{cell:>MOST_PADDED$}");
        let expected = [
            format!("{:<MOST_PADDED$}  {}", "stage", padded("ok")),
            format!("{long}  {}", padded("1")),
            format!("{:<MOST_PADDED$}  {}", "short", padded("2")),
            format!("{:<MOST_PADDED$}  {long}", "short"),
        ];
        assert!(table.render(usize::MAX).lines().eq(expected), "not as expected");

        let mut table = Table::new(vec![Column::left("stage").may_shrink(), Column::right("ok")]);
        table.row([long.as_str(), "1"]);
        assert_eq!(table.render(12), "stage     ok\nxxxxxxx…   1\n");
    }

    #[test]
    fn words_wrap_at_the_width() {
        assert_eq!(wrap("one two  three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("unbreakable", 4), ["unbreakable"]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_asked(
            rows in proptest::collection::vec(proptest::collection::vec("\\PC{0,30}", 4), 0..6),
            width in 60usize..120,
        ) {
            let mut table = Table::new(vec![
                Column::left("name").may_shrink(), Column::right("a"), Column::right("b").unit("/s"), Column::left("c"),
            ]);
            for row in &rows {
                table.row(row);
            }
            for line in table.render(width).lines() {
                prop_assert!(line.chars().count() <= width, "{line:?}");
            }
        }
    }
}
