//! Horizontal bars, each under its own label, so that long names fit a narrow screen.

use super::markup::Markup;
use super::plot::{drawing, label, rectangle};

const WIDTH: f64 = 400.0;
const ROW: f64 = 40.0;
const BAR_TOP: f64 = 18.0;
const BAR_HEIGHT: f64 = 14.0;

/// One bar.
pub struct Bar {
    /// Written above it on the left.
    pub label: String,
    /// Written above it on the right.
    pub value: String,
    /// Parts from the left: class, width as a share of the whole, and what a pointer over it shows.
    pub parts: Vec<(String, f64, String)>,
}

/// The bars as an `<svg>` element, described by its labels and values.
pub fn draw(bars: &[Bar]) -> Markup {
    let readings: Vec<String> = bars
        .iter()
        .map(|bar| format!("{}: {}", bar.label, bar.value))
        .collect();
    let rows: Markup = (bars.iter().enumerate())
        .map(|(index, bar)| row(index, bar))
        .collect();
    drawing((WIDTH, ROW * bars.len() as f64), &readings.join("; "), rows)
}

fn row(index: usize, bar: &Bar) -> Markup {
    let top = ROW * index as f64;
    let mut drawn =
        label("label", 0.0, top + 12.0, &bar.label).with(label("label end", WIDTH, top + 12.0, &bar.value));
    let top = top + BAR_TOP;
    drawn.push(rectangle("track", (0.0, top), (WIDTH, BAR_HEIGHT), ""));
    let mut from = 0.0;
    for (class, width, tip) in &bar.parts {
        let to = (from + width.max(0.0) * WIDTH).min(WIDTH);
        drawn.push(rectangle(class, (from, top), (to - from, BAR_HEIGHT), tip));
        from = to;
    }
    drawn
}
