//! A comparison as text, page, CSV and figures of gates.

use super::{Diff, Numbers, Row, Samples, Verdict};
use crate::gate::Figure;
use crate::page::{Page, Rendered, Section};
use crate::table::{Cell, Rows, Table};
use corelane_measure::metric::Show;
use corelane_measure::quantity::or_missing;
use corelane_measure::statistics::Spread;

/// What is not known of numbers without a range, by what they are of.
const ONE_ROUND: &str =
    " With one trial per run, changes cannot be distinguished from noise: run more rounds.";
const ONE_VALUE: &str = " Whether figures with one value per run changed is unknown.";

/// What the range of parts of one run does not say.
const NOT_ROUNDS: &str = "Parts of one run are not independent rounds: what differs from run to run is not in their spread, so \
                          repeat both runs before relying on a change.";

impl Row {
    /// The median of a run in words.
    fn median(&self, run: Option<Spread>) -> String {
        let Numbers { show, unit, .. } = self.numbers;
        or_missing(run, |spread| show.words_with_unit(spread.median, unit))
    }

    /// Whether both runs have a range, so that a change can be distinguished from noise.
    fn has_spread(&self) -> bool {
        [self.before, self.after]
            .iter()
            .all(|run| run.is_some_and(|spread| spread.count > 1))
    }
}

impl Diff {
    fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    fn changes(&self) -> String {
        let of = |verdict| self.count(verdict);
        let (spread, others, alone) = match self.samples {
            Samples::Rounds => ("of the rounds", "; all else is no change", ONE_ROUND),
            Samples::Parts => ("within each run", "", ONE_VALUE),
        };
        let changes = match (of(Verdict::Better), of(Verdict::Worse)) {
            _ if self.rows.is_empty() => "No step is in both runs, so nothing was compared.".to_owned(),
            (0, 0) => format!("Nothing changed beyond the spread {spread}."),
            (better, worse) => format!("Beyond the spread {spread}: {better} better, {worse} worse{others}."),
        };
        match of(Verdict::NoSpread) {
            0 => changes,
            _ => changes + alone,
        }
    }

    fn summary(&self) -> String {
        let mut sentences = vec![self.changes()];
        if self.samples == Samples::Parts {
            sentences.push(NOT_ROUNDS.to_owned());
        }
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
        let judged = self.rows.iter().any(Row::has_spread);
        let number = |verdict| self.count(verdict) as f64;
        let values = [number(Verdict::Better), number(Verdict::Worse), self.worst()];
        // Without a row that can be judged, nothing is known to be better, worse or unchanged.
        let values = values.map(|value| judged.then_some(value));
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
