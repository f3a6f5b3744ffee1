//! The sections of a report: blocks that forms show or leave out.

use crate::html::markup::{Markup, classed, plain, prose};
use crate::html::section::{folded, section};
use crate::table::Table;
use crate::text::{Width, wrapped};

/// A section of a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    pub(crate) title: String,
    blocks: Vec<(Form, Block)>,
    /// Whether pages show it after the others.
    last: bool,
}

/// The forms that show a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Every,
    Text,
    Page,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
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

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(crate) fn blocks(&self, form: Form) -> impl Iterator<Item = &Block> {
        let shown = move |(of, _): &&(Form, Block)| *of == Form::Every || *of == form;
        self.blocks.iter().filter(shown).map(|(_, block)| block)
    }

    /// The section as text of this width.
    pub(crate) fn text(&self, width: Width) -> String {
        let mut blocks = self.blocks(Form::Text).peekable();
        let mut text = match self.title.as_str() {
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
}

/// The sections of a page; one without a title belongs to the one before it. A phone folds all but the first with a
/// figure.
pub(crate) fn html(sections: &[Section], has_tiles: bool) -> Markup {
    let (last, others): (Vec<_>, Vec<_>) = sections.iter().partition(|section| section.last);
    let mut parts: Vec<Vec<&Section>> = Vec::new();
    for section in others.into_iter().chain(last) {
        if section.blocks(Form::Page).next().is_none() {
            continue;
        }
        match parts.last_mut().filter(|_| section.title.is_empty()) {
            Some(part) => part.push(section),
            None => parts.push(vec![section]),
        }
    }
    let open = parts
        .iter()
        .position(|part| first(part, Block::is_figures).is_some());
    let open = open.unwrap_or(0);
    let part = |(place, part): (usize, &Vec<&Section>)| {
        let contents = match place == open {
            true => opened(part, has_tiles),
            false => part
                .iter()
                .map(|section| part_html(section.blocks(Form::Page)))
                .collect(),
        };
        section(&part[0].title, contents, place == open)
    };
    parts.iter().enumerate().map(part).collect()
}

/// The part that a phone does not fold: up to its first figure. Without figures the key numbers are enough, or the first
/// table of a page that has none.
fn opened(part: &[&Section], has_tiles: bool) -> Markup {
    let mut left = match (first(part, Block::is_figures), has_tiles) {
        (Some(figures), _) => figures + 1,
        (None, true) => 0,
        (None, false) => first(part, Block::is_table).map_or(usize::MAX, |table| table + 1),
    };
    let (mut shown, mut rest, mut figures) = (Markup::default(), Markup::default(), None);
    for section in part {
        let mut blocks: Vec<&Block> = section.blocks(Form::Page).collect();
        let others = blocks.split_off(left.min(blocks.len()));
        left -= blocks.len();
        if let Some(Block::Figures(drawn)) = blocks.last() {
            figures = drawn.split_first();
            blocks.pop();
        }
        shown.push(part_html(blocks));
        rest.push(part_html(others));
    }
    let more = |rest| folded("Show more", rest);
    match figures {
        Some((first, others)) => {
            let rest = others.iter().cloned().chain([rest]).collect();
            shown.with(classed("div", "figures", first.clone().with(more(rest))))
        }
        None => shown.with(more(rest)),
    }
}

/// The place of the first such block on the page of a part.
fn first(part: &[&Section], is: fn(&Block) -> bool) -> Option<usize> {
    let mut blocks = part.iter().flat_map(|section| section.blocks(Form::Page));
    blocks.position(is)
}

impl Block {
    fn is_figures(&self) -> bool {
        matches!(self, Self::Figures(_))
    }

    fn is_table(&self) -> bool {
        matches!(self, Self::Table(_))
    }
}

/// Blocks of one section.
fn part_html<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> Markup {
    match blocks.into_iter().map(block_html).collect::<Markup>() {
        none if none.is_empty() => none,
        blocks => classed("div", "part", blocks),
    }
}

fn block_html(block: &Block) -> Markup {
    match block {
        Block::Table(table) => table.to_html(),
        Block::Paragraph(label, words) => {
            let label = match label.trim() {
                "" => Markup::default(),
                label => plain("strong", label).with(" "),
            };
            classed("p", "note", label.with(prose(words)))
        }
        Block::Figures(figures) => classed("div", "figures", figures.iter().cloned().collect::<Markup>()),
        Block::Heading => Markup::default(),
        Block::Fold(summary, table) => plain("details", plain("summary", summary).with(table.to_html())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;
    use crate::table::{Column, Table};

    fn figure(name: &str) -> Markup {
        plain("figure", name)
    }

    fn table(cell: &str) -> Table {
        let mut table = Table::new(vec![Column::left("column")]);
        table.row([cell]);
        table
    }

    /// What a phone shows of these sections at once.
    fn on_a_phone(tiles: &[(&'static str, &str)], sections: impl IntoIterator<Item = Section>) -> String {
        let tiles = tiles
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned(), None));
        let mut page = Page {
            tiles: tiles.collect(),
            ..Page::default()
        };
        sections.into_iter().for_each(|section| page.section(section));
        let html = page.to_html();
        let body = html.split("</header>").nth(1).unwrap();
        body.split("<input").next().unwrap().to_owned()
    }

    #[test]
    fn a_phone_shows_key_numbers_and_one_figure_and_folds_the_rest() {
        let sections = || {
            let figures = Section::new("growth")
                .note("before")
                .figures([figure("one"), figure("two")]);
            [
                Section::new("terms"),
                figures.table(table("cell")),
                Section::new("").note("after"),
                Section::new("more").figures([figure("three")]),
            ]
        };
        for tiles in [&[("rate", "1 k/s")][..], &[]] {
            let shown = on_a_phone(tiles, sections());
            assert!(shown.contains("Growth") && shown.contains("before"), "{shown}");
            assert!(
                shown.ends_with("<div class=\"figures\"><figure>one</figure>\n"),
                "{shown}"
            );
        }
        let without = || [Section::new("").note("a note").table(table("cell")).note("after")];
        let shown = on_a_phone(&[("rate", "1 k/s")], without());
        assert!(!shown.contains("note"), "the key numbers are enough: {shown}");
        let shown = on_a_phone(&[], without());
        assert!(
            shown.contains("a note") && shown.contains("cell") && !shown.contains("after"),
            "{shown}"
        );
        let shown = on_a_phone(&[], [Section::new("").note("a note").note("after")]);
        assert!(shown.contains("after"), "{shown}");
    }
}
