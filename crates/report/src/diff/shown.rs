//! A comparison as text, page, CSV and figures of gates.

use super::{Diff, Row, Verdict};
use crate::gate::Figure;
use crate::page::{Page, Rendered, Section};
use crate::table::{Cell, Rows, Table};
use corelane_measure::metric::Show;
use corelane_measure::quantity::or_missing;
use corelane_measure::statistics::Spread;

impl Row {
    /// The median of a run in words.
    fn median(&self, run: Option<Spread>) -> String {
        or_missing(run, |spread| self.numbers.show.words(spread.median))
    }
}

impl Diff {
    fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    fn changes(&self) -> String {
        let of = |verdict| self.count(verdict);
        let changes = match (of(Verdict::Better), of(Verdict::Worse)) {
            _ if self.rows.is_empty() => "No step is in both runs, so nothing was compared.".to_owned(),
            (0, 0) => "Nothing changed beyond the spread of the rounds.".to_owned(),
            (better, worse) => {
                format!(
                    "Beyond the spread of the rounds: {better} better, {worse} worse; all else is no change."
                )
            }
        };
        match of(Verdict::NoSpread) {
            0 => changes,
            _ => {
                changes
                    + " With one trial per run, changes cannot be distinguished from noise: run more rounds."
            }
        }
    }

    fn summary(&self) -> String {
        let mut sentences = vec![self.changes()];
        for (count, which) in [(self.only_before, "before"), (self.only_after, "after")] {
            if count > 0 {
                let steps = if count == 1 { "step is" } else { "steps are" };
                sentences.push(format!("{count} {steps} only in the run {which}."));
            }
        }
        sentences.join(" ")
    }

    /// The largest change for the worse beyond the spread, as a share of the earlier median; infinite from a median of 0.
    fn worst(&self) -> f64 {
        let worse = self.rows.iter().filter(|row| row.verdict == Verdict::Worse);
        worse
            .map(|row| row.change.map_or(f64::INFINITY, f64::abs))
            .fold(0.0, f64::max)
    }

    fn changed_table(&self) -> Table {
        let shown =
            |row: &&Row| row.numbers.always || matches!(row.verdict, Verdict::Better | Verdict::Worse);
        self.of_steps(self.rows.iter().filter(shown))
            .left("what", |row| row.numbers.label)
            .right("before", |row| row.median(row.before))
            .right("after", |row| row.median(row.after))
            .right("change", |row| {
                or_missing(row.change, |change| format!("{:+.1} %", change * 100.0))
            })
            .left("verdict", |row| row.verdict.words())
            .table()
    }

    /// A table of these rows that begins with the columns by which steps differ.
    fn of_steps<'r>(&self, rows: impl IntoIterator<Item = &'r Row>) -> Rows<'r, Row> {
        let cell = |row: &Row, place: usize| row.cells.get(place).cloned().unwrap_or_default();
        let columns = self.columns.iter().enumerate();
        columns.fold(Rows::of(rows), |table, (place, column)| {
            table.column(column.clone(), |row| cell(row, place))
        })
    }
}

impl Rendered for Diff {
    fn page(&self) -> Page {
        let mut head = Section::new("")
            .labelled("before  ", &self.before)
            .labelled("after   ", &self.after);
        for (label, all) in [("asked   ", &self.asked), ("differs ", &self.facts)] {
            for one in all {
                head = head.labelled(label, one.line(usize::MAX));
            }
        }
        let mut page = Page {
            subject: "comparison".to_owned(),
            headline: self.changes(),
            ..Page::default()
        };
        page.section(head);
        page.section(Section::new("").table(self.changed_table()));
        page.section(Section::new("").note(self.summary()));
        page
    }

    fn table(&self) -> Table {
        let median =
            |row: &Row, run: Option<Spread>| Cell::number(run.map(|spread| spread.median), row.numbers.show);
        self.of_steps(&self.rows)
            .left("metric", |row| row.metric)
            .right("before", |row| median(row, row.before))
            .right("after", |row| median(row, row.after))
            .right("change", |row| Cell::number(row.change, Show::Share))
            .left("verdict", |row| row.verdict.words())
            .table()
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        let judged = [Verdict::None, Verdict::Better, Verdict::Worse];
        let judged: usize = judged.into_iter().map(|verdict| self.count(verdict)).sum();
        let number = |verdict| self.count(verdict) as f64;
        let values = [number(Verdict::Better), number(Verdict::Worse), self.worst()];
        // Without a row that can be judged, nothing is known to be better, worse or unchanged.
        let values = values.map(|value| (judged > 0).then_some(value));
        FIGURES.into_iter().zip(values).collect()
    }
}

/// What a gate can be about.
pub const FIGURES: [Figure; 3] = [
    Figure {
        name: "better",
        show: Show::Count,
        about: "Number of changes for the better beyond the spread.",
        most: f64::INFINITY,
    },
    Figure {
        name: "worse",
        show: Show::Count,
        about: "Number of changes for the worse beyond the spread.",
        most: f64::INFINITY,
    },
    Figure {
        name: "worst",
        show: Show::Share,
        about: "Largest change for the worse beyond the spread, as a share.",
        most: f64::INFINITY,
    },
];
