//! Joined documents for people: one table with a row for each cell.

use super::document::{Joined, Part};
use corelane_measure::metric::Show;
use corelane_measure::quantity;
use corelane_report::gate::Figure;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::table::{Cell, Column, Rows, Table};

/// What a gate can be about.
pub const FIGURES: [Figure; 1] = [Figure {
    name: "unexplained",
    show: Show::Count,
    about: "Number of frames that nothing explains.",
    most: f64::INFINITY,
}];

/// A row of the table.
struct Row<'a> {
    part: &'a str,
    cell: String,
    frames: i64,
    /// Whether it is shown when nothing is in it.
    always: bool,
}

impl Rendered for Joined {
    fn page(&self) -> Page {
        let entered = self.parts.first().map_or(0, |part| part.entered);
        let received = self.parts.last().and_then(|part| part.ended.get("received"));
        let counts = [entered, received.copied().unwrap_or_default(), self.unexplained()];
        let [entered, received, unexplained] = counts.map(quantity::count);
        let mut page = Page {
            subject: "Joined documents".to_owned(),
            headline: format!("{received} of {entered} frames were received"),
            verdict: match self.unexplained() {
                0 => "every frame is accounted for".to_owned(),
                _ => format!("{unexplained} frames are unexplained"),
            },
            ..Page::default()
        };
        page.section(Section::new("").table(self.rows(false)));
        let streams = Rows::of(&self.streams)
            .right("stream", |stream| stream.stream.to_string())
            .count("sent", |stream| stream.sent)
            .count("received", |stream| stream.received)
            .right("lost", |stream| quantity::signed_count(stream.lost))
            .count("again", |stream| stream.duplicated)
            .count("reordered", |stream| stream.reordered)
            .count("too late", |stream| stream.too_late);
        page.section(Section::new("").table(streams.table()));
        page
    }

    fn table(&self) -> Table {
        self.rows(true)
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        let [unexplained] = FIGURES;
        vec![(unexplained, Some(self.unexplained() as f64))]
    }

    fn proved(&self) -> Result<(), String> {
        match self.impossible() {
            found if found.is_empty() => Ok(()),
            found => Err(format!(
                "{}: give documents of one run, without other senders",
                found.join("; ")
            )),
        }
    }
}

impl Joined {
    /// A row for each cell, or for each that has frames.
    fn rows(&self, all: bool) -> Table {
        let mut rows = Vec::new();
        for (place, part) in self.parts.iter().enumerate() {
            if place > 0 {
                rows.push(row("on the way", "unexplained", -part.unexplained_before, true));
            }
            part.rows(place + 1 < self.parts.len(), &mut rows);
        }
        let rows = rows.iter().filter(|row| all || row.always || row.frames != 0);
        let frames = |row: &Row| {
            let cell = Cell::shown(Some(row.frames as f64), |_| signed(row));
            match row.cell == "unexplained" && row.frames != 0 {
                true => cell.alarming(),
                false => cell,
            }
        };
        let mut last = "";
        let rows: Vec<&Row> = rows.collect();
        let names = rows.iter().map(
            |row| match std::mem::replace(&mut last, row.part) == row.part && !all {
                true => "",
                false => row.part,
            },
        );
        let named: Vec<(&str, &Row)> = names.zip(rows.iter().copied()).collect();
        Rows::of(&named)
            .shrinking("part", |named| named.0)
            .left("cell", |named| named.1.cell.as_str())
            .column(Column::right("frames"), |named| frames(named.1))
            .table()
    }
}

impl Part {
    fn rows<'a>(&'a self, goes_on: bool, rows: &mut Vec<Row<'a>>) {
        let name = &self.part;
        rows.push(row(name, "entered", self.entered as i64, true));
        let added = self
            .added
            .iter()
            .map(|(cause, count)| row(name, cause, *count as i64, false));
        rows.extend(added);
        let ended = self
            .ended
            .iter()
            .map(|(cause, count)| row(name, cause, -(*count as i64), false));
        rows.extend(ended);
        rows.push(row(name, "unexplained", -self.unexplained, false));
        if goes_on {
            rows.push(row(name, "left", self.left as i64, true));
        }
    }
}

fn row<'a>(part: &'a str, cell: &str, frames: i64, always: bool) -> Row<'a> {
    Row {
        part,
        cell: cell.to_owned(),
        frames,
        always,
    }
}

/// What enters and leaves is a number, all else a change of it.
fn signed(row: &Row<'_>) -> String {
    match row.cell.as_str() {
        "entered" | "left" => quantity::count(row.frames as u64),
        _ => quantity::signed_count(row.frames),
    }
}
