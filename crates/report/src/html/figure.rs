//! A drawing with its title, caption and legend.

use super::axis::Linear;
use super::markup::{Markup, classed, element, plain, prose};
use super::plot::Tick;

/// The ticks of a linear axis.
#[must_use]
pub fn linear_ticks(scale: &Linear, show: impl Fn(f64) -> String) -> Vec<Tick> {
    scale
        .ticks
        .iter()
        .map(|tick| Tick {
            place: scale.place(*tick),
            label: show(*tick),
        })
        .collect()
}

/// The legend under a drawing: class and words of each entry.
#[must_use]
pub fn legend(entries: impl Iterator<Item = (String, String)>) -> Markup {
    let entry = |(class, words): (String, String)| {
        let swatch = classed("span", &format!("swatch {class}"), "");
        plain("li", swatch.with(prose(words)))
    };
    classed("ul", "legend", entries.map(entry).collect::<Markup>())
}

/// A drawing under its title and caption.
#[must_use]
pub fn figure(title: &str, caption: &str, drawing: Markup) -> Markup {
    let heading = plain("h3", prose(title)).with(plain("p", prose(caption)));
    element("figure", &[], plain("figcaption", heading).with(drawing))
}
