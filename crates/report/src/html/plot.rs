//! A plot as SVG: axes, lines with the range of each point, and columns.
//!
//! In: everything already placed in a unit square, x from the left and y from the bottom, so that scales and meaning
//! stay with the caller. Out: one `<svg>` that carries no colours of its own: classes name what a shape stands for, and
//! the page's style sheet colours them for light and dark.

use super::markup::{Markup, classed, element, plain};
use std::fmt::Write as _;

/// A drawing of 400 by 260 units: about as wide as a phone, so that 12-unit text stays readable there.
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 40.0;

/// Half the width of an error bar's cap.
const CAP: f64 = 4.0;

/// A place on an axis with its label.
pub struct Tick {
    /// From 0 to 1.
    pub place: f64,
    /// The label.
    pub label: String,
}

/// One measured point.
pub struct Point {
    /// From 0 to 1.
    pub x: f64,
    /// From 0 to 1.
    pub y: f64,
    /// The lowest and highest of what the point is the median of.
    pub range: Option<(f64, f64)>,
    /// Tooltip.
    pub tip: String,
}

/// Points that belong together.
pub struct Line {
    /// Classes that the style sheet knows.
    pub class: String,
    /// The points, from left to right.
    pub points: Vec<Point>,
    /// Whether each point that has a tooltip is marked; a guide line's are not.
    pub marked: bool,
}

/// A column of stacked parts.
pub struct Column {
    /// Its middle, from 0 to 1.
    pub x: f64,
    /// Its width as a share of the whole.
    pub width: f64,
    /// Parts from the bottom up: class, height as a share of the whole, and what a pointer over it shows.
    pub parts: Vec<(String, f64, String)>,
    /// The lowest and highest of what the column is the median of.
    pub range: Option<(f64, f64)>,
}

/// A whole plot.
#[derive(Default)]
pub struct Plot {
    /// Description for screen readers.
    pub description: String,
    /// Written under the x axis.
    pub x_title: String,
    /// Written above the y axis.
    pub y_title: String,
    /// Ticks of the x axis.
    pub x_ticks: Vec<Tick>,
    /// Ticks of the y axis.
    pub y_ticks: Vec<Tick>,
    /// Lines, the last on top.
    pub lines: Vec<Line>,
    /// Columns, under all lines.
    pub columns: Vec<Column>,
}

impl Plot {
    /// The plot as an `<svg>` element.
    pub fn draw(&self) -> Markup {
        let contents = self
            .axes()
            .with(self.columns.iter().map(draw_column).collect::<Markup>())
            .with(self.lines.iter().map(draw_line).collect::<Markup>());
        drawing((WIDTH, HEIGHT), &self.description, contents)
    }

    fn axes(&self) -> Markup {
        let mut axes = Markup::default();
        for tick in &self.y_ticks {
            let height = y(tick.place);
            axes.push(segment("grid", (LEFT, height), (WIDTH - RIGHT, height)));
            axes.push(label("tick end", LEFT - 6.0, height + 4.0, &tick.label));
        }
        for tick in &self.x_ticks {
            axes.push(label(
                "tick middle",
                x(tick.place),
                HEIGHT - BOTTOM + 17.0,
                &tick.label,
            ));
        }
        axes.push(segment("base", (LEFT, y(0.0)), (WIDTH - RIGHT, y(0.0))));
        axes.push(label("title", 2.0, 12.0, &self.y_title));
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        axes.push(label("title middle", middle, HEIGHT - 6.0, &self.x_title));
        axes
    }
}

fn draw_line(line: &Line) -> Markup {
    let mut path = String::new();
    for (index, point) in line.points.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{} {}", number(x(point.x)), number(y(point.y)));
    }
    let mut drawn = element("path", &[("d", path.as_str())], "");
    let marked = |point: &&Point| line.marked && !point.tip.is_empty();
    for point in line.points.iter().filter(marked) {
        drawn.push(range(point.x, point.range));
        let dot = [("cx", x(point.x)), ("cy", y(point.y)), ("r", 4.0)];
        drawn.push(shape("circle", "", &dot, plain("title", &point.tip)));
    }
    classed("g", &format!("line {}", line.class), drawn)
}

fn draw_column(column: &Column) -> Markup {
    let mut from = 0.0;
    let mut drawn = Markup::default();
    for (class, height, tip) in &column.parts {
        let to = (from + height).min(1.0);
        let left = x(column.x - column.width / 2.0);
        let size = (x(column.width) - x(0.0), y(from) - y(to));
        drawn.push(rectangle(class, (left, y(to)), size, tip));
        from = to;
    }
    drawn.with(range(column.x, column.range))
}

/// An error bar with its caps.
fn range(at: f64, range: Option<(f64, f64)>) -> Markup {
    let Some((low, high)) = range else {
        return Markup::default();
    };
    let (across, [low, high]) = (x(at), [low, high].map(y));
    let cap = |height| segment("range", (across - CAP, height), (across + CAP, height));
    segment("range", (across, low), (across, high))
        .with(cap(low))
        .with(cap(high))
}

/// A line from one point of the drawing to another.
fn segment(class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> Markup {
    shape(
        "line",
        class,
        &[("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)],
        "",
    )
}

/// An element placed by numbers; `class` may be empty.
fn shape(
    name: &'static str,
    class: &str,
    numbers: &[(&'static str, f64)],
    contents: impl Into<Markup>,
) -> Markup {
    let numbers: Vec<_> = numbers
        .iter()
        .map(|(name, value)| (*name, number(*value)))
        .collect();
    let class = Some(("class", class)).filter(|(_, class)| !class.is_empty());
    let numbers = numbers.iter().map(|(name, text)| (*name, text.as_str()));
    let attributes: Vec<_> = class.into_iter().chain(numbers).collect();
    element(name, &attributes, contents)
}

/// A drawing of this size with a description for screen readers.
pub(super) fn drawing((width, height): (f64, f64), description: &str, contents: Markup) -> Markup {
    let view = format!("0 0 {} {}", number(width), number(height));
    let attributes = [
        ("viewBox", view.as_str()),
        ("role", "img"),
        ("aria-label", description),
    ];
    element("svg", &attributes, contents)
}

/// A filled rectangle, and what a pointer over it shows.
pub(super) fn rectangle(class: &str, (x, y): (f64, f64), (width, height): (f64, f64), tip: &str) -> Markup {
    let title = match tip {
        "" => Markup::default(),
        tip => plain("title", tip),
    };
    shape(
        "rect",
        class,
        &[("x", x), ("y", y), ("width", width), ("height", height)],
        title,
    )
}

/// Text at a point of the drawing.
pub(super) fn label(class: &str, across: f64, down: f64, text: &str) -> Markup {
    shape("text", class, &[("x", across), ("y", down)], text)
}

fn x(place: f64) -> f64 {
    LEFT + place * (WIDTH - LEFT - RIGHT)
}

fn y(place: f64) -> f64 {
    HEIGHT - BOTTOM - place * (HEIGHT - BOTTOM - TOP)
}

/// A coordinate: a tenth of a unit is finer than any screen shows.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
