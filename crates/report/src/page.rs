//! The model of a report, rendered as terminal text, Markdown, or one self-contained HTML page.
//!
//! An experiment fills a [`Page`] once; all forms are rendered from it. Some blocks appear in one form only: figures
//! and folded documents appear in HTML only.

use crate::date;
use crate::diff::Run;
use crate::gate::Figure;
use crate::html::document;
use crate::html::markup::{Markup, classed, element, plain, prose};
use crate::html::section::{folded, section};
use crate::html::tiles::{Tile, bear_in_mind, tile_row};
use crate::table::{Table, clean};
use crate::text::{Width, sentence_case, wrapped};
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

/// A section of a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    title: String,
    blocks: Vec<(Form, Block)>,
    /// Whether pages show it after the others.
    last: bool,
}

/// The forms that show a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Every,
    Text,
    Page,
}

#[derive(Debug, Clone, PartialEq)]
enum Block {
    Table(Table),
    /// A paragraph with a hanging label, which may be empty.
    Paragraph(String, String),
    Figures(Vec<Markup>),
    Fold(String, Table),
    /// Only a title, for the sections that follow.
    Heading,
}

impl Section {
    /// Creates an empty section.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            blocks: Vec::new(),
            last: false,
        }
    }

    /// Creates a title for the sections that follow.
    #[must_use]
    pub fn heading(title: impl Into<String>) -> Self {
        Self::new(title).with(Form::Every, Block::Heading)
    }

    /// Moves the section to the end of HTML pages: what supports the results, and is none.
    #[must_use]
    pub fn last_on_page(mut self) -> Self {
        self.last = true;
        self
    }

    /// Adds a table, unless it is empty.
    #[must_use]
    pub fn table(self, table: Table) -> Self {
        self.with(Form::Every, Block::Table(table))
    }

    /// Adds a table that HTML pages show folded, because it has many rows.
    #[must_use]
    pub fn folded(self, summary: impl Into<String>, table: Table) -> Self {
        self.with(Form::Text, Block::Table(table.clone()))
            .page_folded(summary, table)
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn note(self, words: impl Into<String>) -> Self {
        self.labelled("", words)
    }

    /// Adds one paragraph per sentence.
    #[must_use]
    pub fn notes<Words: Into<String>>(self, all: impl IntoIterator<Item = Words>) -> Self {
        self.labelled_notes("", all)
    }

    /// Adds one paragraph per sentence, each with this hanging label.
    #[must_use]
    pub fn labelled_notes<Words: Into<String>>(
        self,
        label: &str,
        all: impl IntoIterator<Item = Words>,
    ) -> Self {
        all.into_iter()
            .fold(self, |section, words| section.labelled(label, words))
    }

    /// Adds a paragraph with a hanging label.
    #[must_use]
    pub fn labelled(self, label: impl Into<String>, words: impl Into<String>) -> Self {
        self.with(Form::Every, Block::Paragraph(label.into(), words.into()))
    }

    /// Adds figures, unless all are empty.
    #[must_use]
    pub fn figures(self, figures: impl IntoIterator<Item = Markup>) -> Self {
        let drawn = figures.into_iter().filter(|figure| !figure.is_empty());
        self.with(Form::Page, Block::Figures(drawn.collect()))
    }

    /// Adds a table to HTML pages only.
    #[must_use]
    pub fn page_table(self, table: Table) -> Self {
        self.with(Form::Page, Block::Table(table))
    }

    /// Adds a folded table to HTML pages only.
    #[must_use]
    pub fn page_folded(self, summary: impl Into<String>, table: Table) -> Self {
        self.with(Form::Page, Block::Fold(summary.into(), table))
    }

    /// Adds a paragraph to HTML pages only.
    #[must_use]
    pub fn page_note(self, words: impl Into<String>) -> Self {
        self.with(Form::Page, Block::Paragraph(String::new(), words.into()))
    }

    /// Adds a paragraph to text only; HTML pages show its content in another form.
    #[must_use]
    pub fn text_note(self, label: impl Into<String>, words: impl Into<String>) -> Self {
        self.with(Form::Text, Block::Paragraph(label.into(), words.into()))
    }

    fn with(mut self, form: Form, block: Block) -> Self {
        let empty = match &block {
            Block::Table(table) | Block::Fold(_, table) => table.is_empty(),
            Block::Paragraph(_, words) => words.is_empty(),
            Block::Figures(figures) => figures.is_empty(),
            Block::Heading => false,
        };
        if !empty {
            self.blocks.push((form, block));
        }
        self
    }

    fn blocks(&self, form: Form) -> impl Iterator<Item = &Block> {
        let shown = move |(of, _): &&(Form, Block)| *of == Form::Every || *of == form;
        self.blocks.iter().filter(shown).map(|(_, block)| block)
    }
}

impl Page {
    /// Adds a section, unless it is empty.
    pub fn section(&mut self, section: Section) {
        if !section.blocks.is_empty() {
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
        parts.extend(self.sections.iter().map(|section| section_text(section, width)));
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
            .with(self.sections_html())
            .with(self.repetition());
        document(&self.headline, self.written_by.1, plain("main", body))
    }

    /// The sections of a page; one without a title belongs to the one before it. A phone shows the first figure, and folds
    /// what follows it.
    fn sections_html(&self) -> Markup {
        let (last, first): (Vec<_>, Vec<_>) = self.sections.iter().partition(|section| section.last);
        let mut parts: Vec<Vec<&Section>> = Vec::new();
        for section in first.into_iter().chain(last) {
            if section.blocks(Form::Page).next().is_none() {
                continue;
            }
            match parts.last_mut().filter(|_| section.title.is_empty()) {
                Some(part) => part.push(section),
                None => parts.push(vec![section]),
            }
        }
        let has_figures = |part: &Vec<&Section>| {
            let mut blocks = part.iter().flat_map(|section| section.blocks(Form::Page));
            blocks.any(|block| matches!(block, Block::Figures(_)))
        };
        let open = parts.iter().position(has_figures).unwrap_or(0);
        let part = |(place, part): (usize, &Vec<&Section>)| {
            let contents: Markup = part
                .iter()
                .map(|section| section_html(section, place == open))
                .collect();
            section(&part[0].title, contents, place == open)
        };
        parts.iter().enumerate().map(part).collect()
    }

    fn lead(&self) -> &str {
        match self.lead.as_str() {
            "" => &self.verdict,
            lead => lead,
        }
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
        // Tool and command are at the end of the page.
        let own = |label: &str| !["tool", "command"].contains(&label);
        let place = self.origin.iter().filter(|(label, _)| own(label));
        let place: Vec<&str> = place.map(|(_, value)| value.as_str()).collect();
        header.push(classed("p", "machine", prose(place.join(" \u{b7} "))));
        if !self.tiles.is_empty() {
            header.push(tile_row(self.tiles.iter().cloned()));
        }
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

fn section_text(section: &Section, width: Width) -> String {
    let mut blocks = section.blocks(Form::Text).peekable();
    let mut text = match section.title.as_str() {
        title if !title.is_empty() && blocks.peek().is_some() => {
            let mut line = String::new();
            for part in title.lines() {
                wrapped(&mut line, "", part, width.verdict);
            }
            line
        }
        _ => String::new(),
    };
    for block in blocks {
        match block {
            Block::Table(table) => text.push_str(&table.render(width.tables)),
            Block::Paragraph(label, words) => wrapped(&mut text, label, words, width.words),
            Block::Figures(_) | Block::Fold(..) | Block::Heading => {}
        }
    }
    text
}

/// The blocks of a section; of its figures, a phone shows the first at once.
fn section_html(section: &Section, open: bool) -> Markup {
    let blocks: Markup = (section.blocks(Form::Page))
        .map(|block| block_html(block, open))
        .collect();
    classed("div", "part", blocks)
}

fn block_html(block: &Block, open: bool) -> Markup {
    match block {
        Block::Table(table) => table.to_html(),
        Block::Paragraph(label, words) => {
            let label = match label.trim() {
                "" => Markup::default(),
                label => plain("strong", label).with(" "),
            };
            classed("p", "note", label.with(prose(words)))
        }
        Block::Figures(figures) if open && figures.len() > 1 => {
            let others = figures[1..].iter().cloned().collect();
            classed(
                "div",
                "figures",
                figures[0].clone().with(folded("Show more figures", others)),
            )
        }
        Block::Figures(figures) => classed("div", "figures", figures.iter().cloned().collect::<Markup>()),
        Block::Heading => Markup::default(),
        Block::Fold(summary, table) => plain("details", plain("summary", summary).with(table.to_html())),
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
