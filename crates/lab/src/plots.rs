//! What the plots of all experiments share.

use corelane_measure::metric::{Measured, Metric};
use corelane_report::html::axis::Linear;
use corelane_report::html::plot::{Line, Point};

/// Ticks of a y axis: about as many as stay apart on a phone.
pub(crate) const Y_STEPS: usize = 4;

/// Labels of an x axis, for the same reason.
pub(crate) const MOST_X_LABELS: usize = 8;

/// The line of a metric, with the range of the rounds; `at` gives the place and the tip of a row and its value.
pub(crate) fn line<T, Row: Measured>(
    class: String,
    metric: &Metric<T>,
    rows: &[&Row],
    scale: &Linear,
    at: impl Fn(&Row, f64) -> (f64, String),
) -> Line {
    let point = |row: &&Row| {
        let value = metric.of(*row)?;
        let (x, tip) = at(row, value);
        // One round has no range.
        let range = metric.range(*row).filter(|spread| spread.count > 1);
        Some(Point {
            x,
            y: scale.place(value),
            range: range.map(|spread| (scale.place(spread.minimum), scale.place(spread.maximum))),
            tip,
        })
    };
    Line {
        class,
        points: rows.iter().filter_map(point).collect(),
        marked: true,
    }
}
