//! A comparison as text, page, CSV and figures of gates.

use super::{Diff, Row, Verdict};
use crate::gate::Figure;
use crate::page::{Page, Rendered, Section};
use crate::table::{Cell, Column, Table};
use corelane_measure::metric::Show;
use corelane_measure::quantity::or_missing;
use corelane_measure::statistics::Spread;

impl Row {
    /// Label, both medians, the signed change of the median in percent, and the verdict.
    fn words(&self) -> [String; 5] {
        let [before, after] = [self.before, self.after].map(|spread| {
            or_missing(spread.map(|spread| spread.median), |median| {
                self.numbers.show.words(median)
            })
        });
        [
            self.numbers.label.to_owned(),
            before,
            after,
            or_missing(self.change, |change| format!("{:+.1} %", change * 100.0)),
            self.verdict.words().to_owned(),
        ]
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
        let compared = [
            Column::left("what"),
            Column::right("before"),
            Column::right("after"),
            Column::right("change"),
            Column::left("verdict"),
        ];
        let mut table = Table::new(self.columns.iter().cloned().chain(compared).collect());
        let shown =
            |row: &&Row| row.numbers.always || matches!(row.verdict, Verdict::Better | Verdict::Worse);
        for row in self.rows.iter().filter(shown) {
            table.row(row.cells.iter().cloned().chain(row.words().map(Cell::from)));
        }
        table
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
        let columns = [
            Column::left("metric"),
            Column::right("before"),
            Column::right("after"),
            Column::right("change"),
            Column::left("verdict"),
        ];
        let mut table = Table::new(self.columns.iter().cloned().chain(columns).collect());
        for row in &self.rows {
            let median =
                |spread: Option<Spread>| Cell::number(spread.map(|spread| spread.median), row.numbers.show);
            let cells = [
                Cell::from(row.metric),
                median(row.before),
                median(row.after),
                Cell::number(row.change, Show::Share),
                Cell::from(row.verdict.words()),
            ];
            table.row(row.cells.iter().cloned().chain(cells));
        }
        table
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
    },
    Figure {
        name: "worse",
        show: Show::Count,
        about: "Number of changes for the worse beyond the spread.",
    },
    Figure {
        name: "worst",
        show: Show::Share,
        about: "Largest change for the worse beyond the spread, as a share.",
    },
];
