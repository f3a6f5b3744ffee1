//! Horizontal bars, each under its own label, so that long names fit a narrow screen.

use super::markup::{Markup, element, plain};
use super::plot::number;

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
    let description = readings.join("; ");
    let view = format!("0 0 {} {}", number(WIDTH), number(ROW * bars.len() as f64));
    let rows: Markup = bars
        .iter()
        .enumerate()
        .map(|(index, bar)| row(index, bar))
        .collect();
    element(
        "svg",
        &[
            ("viewBox", view.as_str()),
            ("role", "img"),
            ("aria-label", &description),
        ],
        rows,
    )
}

fn row(index: usize, bar: &Bar) -> Markup {
    let top = ROW * index as f64;
    let mut drawn =
        text("label", 0.0, top + 12.0, &bar.label).with(text("label end", WIDTH, top + 12.0, &bar.value));
    drawn.push(rectangle("track", (0.0, WIDTH), top + BAR_TOP, ""));
    let mut from = 0.0;
    for (class, width, tip) in &bar.parts {
        let to = (from + width.max(0.0) * WIDTH).min(WIDTH);
        drawn.push(rectangle(class, (from, to), top + BAR_TOP, tip));
        from = to;
    }
    drawn
}

fn rectangle(class: &str, (from, to): (f64, f64), top: f64, tip: &str) -> Markup {
    let place = [from, top, to - from, BAR_HEIGHT].map(number);
    let [left, top, width, height] = place.each_ref().map(String::as_str);
    let title = if tip.is_empty() {
        Markup::default()
    } else {
        plain("title", tip)
    };
    let attributes = [
        ("class", class),
        ("x", left),
        ("y", top),
        ("width", width),
        ("height", height),
    ];
    element("rect", &attributes, title)
}

fn text(class: &str, across: f64, down: f64, words: &str) -> Markup {
    let (across, down) = (number(across), number(down));
    element(
        "text",
        &[("class", class), ("x", across.as_str()), ("y", down.as_str())],
        words,
    )
}
