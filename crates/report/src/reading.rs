//! Columns that read their cell from a row. A table is a list of such columns and the rows.
//!
//! ```
//! use corelane_report::reading::{Reading, table};
//! use corelane_report::table::{Cell, Column};
//!
//! struct Bucket { number: u64, frames: u64 }
//!
//! let readings = [
//!     Reading::new(Column::right("bucket"), |bucket: &Bucket| Cell::count(bucket.number)),
//!     Reading::new(Column::right("frames"), |bucket: &Bucket| Cell::count(bucket.frames)),
//! ];
//! let text = table(readings, &[Bucket { number: 0, frames: 1_700 }]).render(100);
//! assert_eq!(text, "bucket  frames\n     0   1,700\n");
//! ```

use crate::table::{Cell, Column, Rows, Table};
use corelane_measure::histogram::Summary;
use corelane_measure::metric::{Measured, Metric, Show};

/// One column of a table whose rows are `Row`s.
pub struct Reading<'a, Row> {
    column: Column,
    read: Box<dyn Fn(&Row) -> Cell + 'a>,
}

impl<'a, Row> Reading<'a, Row> {
    /// Creates a column and the function that reads its cell from a row.
    #[must_use]
    pub fn new<C: Into<Cell>>(column: Column, read: impl Fn(&Row) -> C + 'a) -> Self {
        Self {
            column,
            read: Box::new(move |row| read(row).into()),
        }
    }

    /// Its column.
    #[must_use]
    pub fn column(&self) -> Column {
        self.column.clone()
    }

    /// The cell of a row.
    #[must_use]
    pub fn cell(&self, row: &Row) -> Cell {
        (self.read)(row)
    }

    /// The same column, omitted from text of 100 columns.
    #[must_use]
    pub fn wide(mut self) -> Self {
        self.column = self.column.wide();
        self
    }
}

/// Builds the table of these columns and rows.
#[must_use]
pub fn table<'a, 'r, Row: 'r>(
    readings: impl IntoIterator<Item = Reading<'a, Row>>,
    rows: impl IntoIterator<Item = &'r Row>,
) -> Table {
    let add = |rows: Rows<'r, Row>, reading: Reading<'a, Row>| {
        rows.column(reading.column.clone(), |row| reading.cell(row))
    };
    readings.into_iter().fold(Rows::of(rows), add).table()
}

/// The column of a metric.
#[must_use]
pub fn metric<'a, T, Row: Measured>(metric: &'static Metric<T>) -> Reading<'a, Row> {
    named(metric, metric.header, metric.unit)
}

/// The column of a metric under another header.
#[must_use]
pub fn named<'a, T, Row: Measured>(metric: &'static Metric<T>, header: &str, unit: &str) -> Reading<'a, Row> {
    let column = Column::right(header).unit(unit).key(metric.name);
    Reading::new(column, |row: &Row| Cell::number(metric.of(row), metric.show))
}

/// The column of a metric with its range over the trials: `0.98±0.02`.
#[must_use]
pub fn with_range<'a, T, Row: Measured>(metric: &'static Metric<T>, decimals: usize) -> Reading<'a, Row> {
    let column = Column::right(metric.header).unit(metric.unit).key(metric.name);
    Reading::new(column, move |row: &Row| {
        Cell::shown(metric.of(row), |value| match metric.range(row) {
            Some(spread) => spread.display(decimals),
            None => Show::Fixed(decimals).cell(value),
        })
    })
}

/// The range of a metric divided by its median, in percent; empty with a single trial.
#[must_use]
pub fn relative_range<'a, T, Row: Measured>(metric: &'static Metric<T>, header: &str) -> Reading<'a, Row> {
    Reading::new(Column::right(header).unit("%"), |row: &Row| {
        let several = metric.range(row).filter(|spread| spread.count > 1);
        Cell::number(several.map(|spread| spread.relative), Show::Share)
    })
}

/// The column of one percentile of durations.
#[must_use]
pub fn percentile<'a, T, Row: Measured>(
    metric: &'static Metric<T>,
    header: &str,
    unit: &str,
    of: fn(&Summary) -> u64,
) -> Reading<'a, Row> {
    Reading::new(Column::right(header).unit(unit), move |row: &Row| {
        let time = metric.durations(row).map(|summary| of(summary) as f64);
        Cell::number(time, Show::Nanoseconds)
    })
}

/// The columns of durations: median, 90th, 99th and 99.9th percentile, and the longest.
#[must_use]
pub fn percentiles<'a, T, Row: Measured>(
    metric: &'static Metric<T>,
    first: (&str, &str),
) -> Vec<Reading<'a, Row>> {
    vec![
        percentile(metric, first.0, first.1, |summary| summary.p50_ns),
        percentile(metric, "p90", "", |summary| summary.p90_ns),
        percentile(metric, "p99", "", |summary| summary.p99_ns),
        percentile(metric, "p99.9", "", |summary| summary.p999_ns),
        percentile(metric, "longest", "", |summary| summary.max_ns),
    ]
}
