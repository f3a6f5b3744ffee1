//! Columns of the tables of all experiments.

use corelane_measure::metric::{Measured, Metric, Show};
use corelane_report::gate::Figure;
use corelane_report::reading::Reading;
use corelane_report::table::{Cell, Column};

/// A column of words.
pub(crate) fn words<'a, Row, C: Into<Cell>>(header: &str, read: impl Fn(&Row) -> C + 'a) -> Reading<'a, Row> {
    Reading::new(Column::left(header), read)
}

/// Each metric as a figure for gates, with its value in a row.
pub(crate) fn figures<T, Row: Measured>(
    metrics: &[&'static Metric<T>],
    row: Option<&Row>,
) -> Vec<(Figure, Option<f64>)> {
    let figure = |of: &&'static Metric<T>| (Figure::of(of), row.and_then(|row| of.of(row)));
    metrics.iter().map(figure).collect()
}

/// Each metric of a verdict as a figure for gates.
pub(crate) fn of_verdict<T>(
    metrics: &'static [Metric<T>],
    verdict: Option<&T>,
) -> Vec<(Figure, Option<f64>)> {
    let figure = |of: &Metric<T>| (Figure::of(of), verdict.and_then(|verdict| of.of_trial(verdict)));
    metrics.iter().map(figure).collect()
}

/// A column of whole numbers that are sizes or names: without separators.
pub(crate) fn plain<'a, Row>(header: &str, read: impl Fn(&Row) -> usize + 'a) -> Reading<'a, Row> {
    Reading::new(Column::right(header), move |row| Cell::plain(read(row) as u64))
}

/// A column of numbers.
pub(crate) fn number<'a, Row>(
    column: Column,
    show: Show,
    read: impl Fn(&Row) -> Option<f64> + 'a,
) -> Reading<'a, Row> {
    Reading::new(column, move |row| Cell::number(read(row), show))
}

/// A column of counts, which CSV names as documents do.
pub(crate) fn count<'a, Row>(
    header: &str,
    key: &'static str,
    read: impl Fn(&Row) -> u64 + 'a,
) -> Reading<'a, Row> {
    Reading::new(Column::right(header).key(key), move |row| Cell::count(read(row)))
}

/// The column that has half the range of a metric over its median, in percent; empty where one trial gives none.
pub(crate) fn half_range<'a, T, Row: Measured>(metric: &'static Metric<T>) -> Reading<'a, Row> {
    number(Column::right("\u{b1}").unit("%"), Show::Fixed(0), |row: &Row| {
        let several = metric.range(row).filter(|spread| spread.count > 1);
        several.map(|spread| spread.relative * 50.0)
    })
}
