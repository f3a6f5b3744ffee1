//! The model of a report, rendered as terminal text, Markdown, or one self-contained HTML page.
//!
//! An experiment fills a [`Page`] once; all forms are rendered from it. Some blocks appear in one form only: figures
//! and folded documents appear in HTML only.

pub use crate::sections::Section;

use crate::date;
use crate::diff::Run;
use crate::gate::Figure;
use crate::html::document;
use crate::html::markup::{Markup, classed, element, plain, prose};
use crate::html::section::section;
use crate::html::tiles::{Tile, bear_in_mind, tile_row};
use crate::sections::{self, Block, Form};
use crate::table::{Table, clean};
use crate::text::{Width, sentence_case, wrapped};
use corelane_measure::quantity::MISSING;
use std::fmt::Write as _;

/// A whole report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Name of the experiment, in two or three words: `UDP scaling`.
    pub subject: String,
    /// The result, in one line.
    pub headline: String,
    /// The last line of the text: the verdict and the limit.
    pub verdict: String,
    /// The sentence under the headline of Markdown and pages; empty for the verdict, if the headline does not have it.
    pub lead: String,
    /// The measurements that support the verdict, one per line.
    pub evidence: Vec<String>,
    /// Name and version of the program, and the start of the run in seconds since 1970-01-01 00:00 UTC.
    pub written_by: (String, Option<u64>),
    /// Facts about the run: label and value, in display order.
    pub origin: Vec<(&'static str, String)>,
    /// Key numbers.
    pub tiles: Vec<Tile>,
    /// Caveats about the numbers, worst first.
    pub caveats: Vec<Caveat>,
    /// The sections, in display order.
    pub sections: Vec<Section>,
    /// The command that repeats the run.
    pub command: String,
    /// Documents that describe the run: title and text.
    pub documents: Vec<(&'static str, String)>,
}

/// A caveat about the numbers: subject and sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caveat {
    /// The subject; empty if the sentence names it.
    pub about: String,
    /// The sentence.
    pub sentence: String,
    /// Whether it spoils the numbers; otherwise it is a routine note on them.
    pub spoils: bool,
}

impl Page {
    /// Adds a section, unless it is empty.
    pub fn section(&mut self, section: Section) {
        if !section.is_empty() {
            self.sections.push(section);
        }
    }

    /// Renders text of the usual width: 100 columns, the verdict last.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.text(Width::USUAL)
    }

    /// Renders text of this width, the verdict last.
    #[must_use]
    pub fn text(&self, width: Width) -> String {
        let mut head = String::new();
        for (label, value) in &self.origin {
            wrapped(&mut head, &format!("{label:<9}"), value, width.words);
        }
        let mut parts = vec![head];
        parts.extend(self.sections.iter().map(|section| section.text(width)));
        let mut end = String::new();
        for line in &self.evidence {
            wrapped(&mut end, "  - ", line, width.words);
        }
        wrapped(&mut end, "", &self.verdict, width.verdict);
        parts.push(end);
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }

    /// Renders Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n", self.headline, clean(self.lead()));
        let evidence: Vec<String> = self.evidence.iter().map(|line| clean(line)).collect();
        let origin = self
            .origin
            .iter()
            .map(|(label, value)| format!("{label}: {value}"));
        for list in [
            evidence,
            origin.collect(),
            self.caveats.iter().map(Caveat::line).collect(),
        ] {
            for (index, item) in list.into_iter().enumerate() {
                let gap = if index == 0 { "\n" } else { "" };
                let _ = writeln!(text, "{gap}- {item}");
            }
        }
        for section in &self.sections {
            if section.blocks(Form::Text).next().is_none() {
                continue;
            }
            if !section.title.is_empty() {
                let _ = writeln!(text, "\n## {}", clean(&section.title));
            }
            for block in section.blocks(Form::Text) {
                let _ = match block {
                    Block::Table(table) => write!(text, "\n{}", table.to_markdown()),
                    Block::Paragraph(label, words) => {
                        writeln!(text, "\n{}", clean(&format!("{} {words}", label.trim())).trim())
                    }
                    Block::Figures(_) | Block::Fold(..) | Block::Heading => Ok(()),
                };
            }
        }
        text
    }

    /// Renders one HTML page without network access or scripts.
    #[must_use]
    pub fn to_html(&self) -> String {
        let caveats = |spoil: bool| {
            let of_kind = self.caveats.iter().filter(move |caveat| caveat.spoils == spoil);
            of_kind.map(Caveat::html).collect()
        };
        let body = self
            .banner()
            .with(bear_in_mind(
                "spoilers",
                "Read the numbers with this in mind",
                caveats(true),
            ))
            .with(bear_in_mind("notes", "Notes", caveats(false)))
            .with(sections::html(&self.sections, !self.tiles.is_empty()))
            .with(self.repetition());
        document(&self.headline, self.written_by.1, plain("main", body))
    }

    fn banner(&self) -> Markup {
        let when = self.written_by.1.map(date::utc);
        let origin = [Some("corelane".to_owned()), Some(self.subject.clone()), when];
        let origin: Vec<String> = origin
            .into_iter()
            .flatten()
            .filter(|part| !part.is_empty())
            .collect();
        let mut header =
            classed("p", "origin", origin.join(" \u{b7} ")).with(plain("h1", prose(&self.headline)));
        if !self.lead().is_empty() {
            header.push(classed("p", "limit", prose(sentence_case(self.lead()))));
        }
        if !self.evidence.is_empty() {
            let lines: Markup = self
                .evidence
                .iter()
                .map(|line| plain("li", prose(line)))
                .collect();
            header.push(classed("ul", "evidence", lines));
        }
        let place = self.origin.iter().filter_map(|(label, value)| match *label {
            // They are at the end of the page.
            "tool" | "command" => None,
            "machine" => Some(value.clone()),
            label => Some(format!("{label}: {value}")),
        });
        let place: Vec<String> = place.collect();
        header.push(classed("p", "machine", prose(place.join(" \u{b7} "))));
        let known = self.tiles.iter().filter(|(_, value, _)| value != MISSING);
        header.push(tile_row(known.cloned()));
        plain("header", header)
    }

    /// The command that repeats a run, the documents that describe it, and what wrote the page.
    fn repetition(&self) -> Markup {
        let document = |(title, text): &(&str, String)| {
            plain("details", plain("summary", *title).with(plain("pre", text)))
        };
        let when = self.written_by.1.map(|when| format!(" on {}", date::utc(when)));
        let tool = format!("Written by {}{}.", self.written_by.0, when.unwrap_or_default());
        let command = element("pre", &[("class", "command")], plain("code", &self.command));
        let contents = command
            .with(self.documents.iter().map(document).collect::<Markup>())
            .with(classed("p", "note", tool));
        section("Repeat it", contents, false)
    }

    fn lead(&self) -> &str {
        match self.lead.as_str() {
            "" => &self.verdict,
            lead => lead,
        }
    }
}

impl From<String> for Caveat {
    fn from(sentence: String) -> Self {
        Self {
            about: String::new(),
            sentence,
            spoils: false,
        }
    }
}

impl Caveat {
    /// The same as one that spoils the numbers.
    #[must_use]
    pub fn spoiling(self) -> Self {
        Self { spoils: true, ..self }
    }

    fn html(&self) -> Markup {
        match self.about.as_str() {
            "" => prose(&self.sentence),
            about => plain("strong", prose(about))
                .with(": ")
                .with(prose(&self.sentence)),
        }
    }

    fn line(&self) -> String {
        match self.about.as_str() {
            "" => self.sentence.clone(),
            about => format!("{about}: {}", self.sentence),
        }
    }
}

/// A document of a run that can be rendered in every form.
pub trait Rendered {
    /// The report.
    fn page(&self) -> Page;

    /// One table with all measurements at full precision, for CSV.
    fn table(&self) -> Table;

    /// The run for comparisons; `None` if runs of this kind cannot be compared.
    fn compared(&self) -> Option<Run> {
        None
    }

    /// The figures available to gates, with their values.
    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        Vec::new()
    }

    /// The value of a figure, or of a percentile such as `p99.95`.
    fn figure(&self, name: &str) -> Option<f64> {
        let mut figures = self.figures().into_iter();
        figures.find(|(figure, _)| figure.name == name)?.1
    }

    /// Checks whether the run proves what it has to.
    ///
    /// # Errors
    /// What is not proved.
    fn proved(&self) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_number_that_is_not_known_has_no_tile() {
        let page = Page {
            tiles: vec![("linearity", MISSING.to_owned(), None)],
            ..Page::default()
        };
        assert!(!page.to_html().contains("<ul class=\"tiles\""));
    }
}
