//! Well-formed HTML by construction: text is escaped when it becomes [`Markup`], and every element is closed.

use std::fmt::Write as _;

/// A piece of finished HTML.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Markup(String);

impl Markup {
    /// Trusted HTML of this crate, such as a style sheet. It must not contain external data.
    pub fn trusted(html: &'static str) -> Self {
        Self(html.to_owned())
    }

    /// Appends another piece.
    #[must_use]
    pub fn with(mut self, other: impl Into<Self>) -> Self {
        self.push(other);
        self
    }

    /// Appends another piece.
    pub fn push(&mut self, other: impl Into<Self>) {
        self.0.push_str(&other.into().0);
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The HTML.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl<Text: AsRef<str>> From<Text> for Markup {
    fn from(text: Text) -> Self {
        let text = text.as_ref();
        let mut escaped = String::with_capacity(text.len());
        for letter in text.chars() {
            match letter {
                '&' => escaped.push_str("&amp;"),
                '<' => escaped.push_str("&lt;"),
                '>' => escaped.push_str("&gt;"),
                '"' => escaped.push_str("&quot;"),
                // HTML allows no control characters beyond white space, not even as references.
                '\t' | '\n' => escaped.push(letter),
                letter if letter.is_control() => escaped.push('\u{fffd}'),
                letter => escaped.push(letter),
            }
        }
        Self(escaped)
    }
}

impl FromIterator<Self> for Markup {
    fn from_iter<Pieces: IntoIterator<Item = Self>>(pieces: Pieces) -> Self {
        Self(pieces.into_iter().map(|piece| piece.0).collect())
    }
}

/// An element with attributes and contents.
pub fn element(
    name: &'static str,
    attributes: &[(&'static str, &str)],
    contents: impl Into<Markup>,
) -> Markup {
    let mut html = open(name, attributes);
    html.push_str(&contents.into().0);
    let _ = write!(html, "</{name}>");
    // A line break after blocks keeps the file readable, and no renderer shows it.
    if BLOCKS.contains(&name) {
        html.push('\n');
    }
    Markup(html)
}

/// An element without attributes.
pub fn plain(name: &'static str, contents: impl Into<Markup>) -> Markup {
    element(name, &[], contents)
}

/// An element with a class and contents.
pub fn classed(name: &'static str, class: &str, contents: impl Into<Markup>) -> Markup {
    element(name, &[("class", class)], contents)
}

/// Words to be read: a number stays on one line with its unit, and so does a flag.
pub fn prose(text: impl AsRef<str>) -> Markup {
    let mut prose = Markup::default();
    let mut before = None;
    for next in text.as_ref().split(' ') {
        if let Some(before) = before {
            prose.push(if is_measure(before, next) { "\u{a0}" } else { " " });
        }
        let (bracket, word) = next.split_at(usize::from(next.starts_with('(')));
        prose.push(bracket);
        prose.push(match word.strip_prefix("--") {
            Some(flag) if flag.starts_with(char::is_alphabetic) => {
                let end = word.trim_end_matches(['.', ',', ';', ':', ')']).len();
                classed("code", "flag", &word[..end]).with(&word[end..])
            }
            _ => Markup::from(word),
        });
        before = Some(next);
    }
    prose
}

/// Units, without what they are per.
const UNITS: [&str; 27] = [
    "%", "k", "M", "G", "T", "ns", "\u{b5}s", "ms", "s", "B", "KiB", "MiB", "GiB", "TiB", "bit", "kbit",
    "Mbit", "Gbit", "Tbit", "Gb", "Hz", "MHz", "GHz", "CPU", "CPUs", "seconds", "times",
];

/// Whether two words are a number and its unit, or its prefix and its unit: `68.7 k requests/s` are both; or a sign and its
/// number.
fn is_measure(before: &str, after: &str) -> bool {
    let trimmed = after.trim_end_matches(['.', ',', ';', ':', ')']);
    let unit = trimmed.split('/').next().unwrap_or_default();
    let is_number = before.ends_with(|letter: char| letter.is_ascii_digit());
    (is_number && (UNITS.contains(&unit) || trimmed.ends_with("/s")))
        || (["k", "M", "G", "T"].contains(&before) && after.contains('/'))
        || before == "\u{b1}"
}

/// An element that HTML never closes, such as `meta`.
pub fn void(name: &'static str, attributes: &[(&'static str, &str)]) -> Markup {
    Markup(open(name, attributes) + "\n")
}

const BLOCKS: [&str; 20] = [
    "html", "head", "body", "main", "header", "footer", "section", "div", "p", "h1", "h2", "h3", "table",
    "thead", "tbody", "tr", "figure", "svg", "ul", "details",
];

fn open(name: &str, attributes: &[(&str, &str)]) -> String {
    let mut html = format!("<{name}");
    for (attribute, value) in attributes {
        let _ = write!(html, " {attribute}=\"{}\"", Markup::from(*value).0);
    }
    html.push('>');
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_its_unit_are_never_on_two_lines() {
        let of = |text: &str| prose(text).into_string();
        assert_eq!(
            of("does 68.7 k requests/s on 2 buckets"),
            "does 68.7\u{a0}k\u{a0}requests/s on 2 buckets"
        );
        assert_eq!(
            of("(0 % idle, 12 ms; 1.2 Gb/s)"),
            "(0\u{a0}% idle, 12\u{a0}ms; 1.2\u{a0}Gb/s)"
        );
        assert_eq!(
            of("500 requests/s \u{b1} 0.1, 0.02 CPU seconds of 2 buckets"),
            "500\u{a0}requests/s \u{b1}\u{a0}0.1, 0.02\u{a0}CPU seconds of 2 buckets"
        );
        assert_eq!(of("k requests"), "k requests");
        assert_eq!(
            of("a < --quick, 5 -- b (--steering)"),
            "a &lt; <code class=\"flag\">--quick</code>, 5 -- b (<code class=\"flag\">--steering</code>)"
        );
    }

    #[test]
    fn text_and_attributes_cannot_open_a_tag() {
        let made = element("a", &[("title", "\"><script>")], "<b> & \u{1b}");
        assert_eq!(
            made.into_string(),
            "<a title=\"&quot;&gt;&lt;script&gt;\">&lt;b&gt; &amp; \u{fffd}</a>"
        );
    }
}
