//! Tables of rows that are there already, column by column.

use super::{Cell, Column, Table};
use corelane_measure::metric::Metric;

/// A table that gets its rows first and then its columns, each with how a row gives its cell.
///
/// ```
/// use corelane_report::table::Rows;
///
/// let table = Rows::of(&[("a", 1_700), ("b", 3)])
///     .left("name", |row| row.0)
///     .count("frames", |row| row.1)
///     .table();
/// assert_eq!(table.render(100), "name  frames\na      1,700\nb          3\n");
/// ```
pub struct Rows<'r, Row> {
    rows: Vec<&'r Row>,
    table: Table,
}

impl<'r, Row> Rows<'r, Row> {
    /// The rows, without a column.
    pub fn of(rows: impl IntoIterator<Item = &'r Row>) -> Self {
        let rows: Vec<&Row> = rows.into_iter().collect();
        let mut table = Table::new(Vec::new());
        table.rows.resize_with(rows.len(), Vec::new);
        Self { rows, table }
    }

    /// Adds a column.
    #[must_use]
    pub fn column<C: Into<Cell>>(mut self, column: Column, read: impl Fn(&'r Row) -> C) -> Self {
        self.table.columns.push(column);
        for (row, cells) in self.rows.iter().zip(&mut self.table.rows) {
            cells.push(read(row).into());
        }
        self
    }

    /// Adds a column of text.
    #[must_use]
    pub fn left<C: Into<Cell>>(self, header: &str, read: impl Fn(&'r Row) -> C) -> Self {
        self.column(Column::left(header), read)
    }

    /// Adds a column of text that is cut where lines would be too long.
    #[must_use]
    pub fn shrinking<C: Into<Cell>>(self, header: &str, read: impl Fn(&'r Row) -> C) -> Self {
        self.column(Column::left(header).may_shrink(), read)
    }

    /// Adds a column of numbers in their own forms.
    #[must_use]
    pub fn right<C: Into<Cell>>(self, header: &str, read: impl Fn(&'r Row) -> C) -> Self {
        self.column(Column::right(header), read)
    }

    /// Adds a column of whole numbers.
    #[must_use]
    pub fn count(self, header: &str, read: impl Fn(&'r Row) -> u64) -> Self {
        self.column(Column::right(header), |row| Cell::count(read(row)))
    }

    /// Adds the columns of metrics of each row, or of a part of it; each cell has its unit.
    #[must_use]
    pub fn metrics<T>(self, metrics: &[&Metric<T>], of: impl Fn(&'r Row) -> &'r T) -> Self {
        metrics.iter().fold(self, |rows, metric| {
            rows.column(Column::right(metric.header), |row| {
                let value = metric.numbers([of(row)]).first().copied();
                Cell::shown(value, |value| metric.words_with_unit(value))
            })
        })
    }

    /// The table.
    #[must_use]
    pub fn table(self) -> Table {
        self.table
    }
}
