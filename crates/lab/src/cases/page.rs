//! The cases for people: what was sent, a table with a row per case, what the columns mean, and what follows.

use super::document::Report;
use super::row::{Row, Trial};
use super::scenario::Asked;
use crate::columns::{self, number, words};
use crate::trial::Trial as _;
use corelane_measure::metric::Show;
use corelane_measure::quantity;
use corelane_report::diff::{self, Numbers, Run};
use corelane_report::gate::Figure;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::reading::{Reading, metric, table};
use corelane_report::table::{Column, Table};
use corelane_serve::bridge::Dispatched;

impl<R: Asked> Rendered for Report<R> {
    fn page(&self) -> Page {
        let trials = self.trials.iter().map(Trial::head);
        let (subject, scenario) = (self.plan.subject(), self.plan.scenario());
        let mut page = self.head.page_of(&subject, &self.plan, trials);
        let (result, others) = match self.conclusions.split_first() {
            Some((first, others)) => (first.as_str(), others),
            None => ("Not every case has a result.", &[][..]),
        };
        result.clone_into(&mut page.headline);
        page.origin.splice(1..1, self.sent());
        let title = format!("{}, medians", self.plan.title());
        page.section(Section::new(title).table(self.table()));
        page.section(Section::new("").note(scenario.legend));
        for row in &self.rows {
            let dispatch = self.trials(row).last().and_then(|trial| trial.dispatch.as_ref());
            let name = scenario.labels.iter().map(|(label, _)| row.label(label));
            let title = format!("{}: netstat -Q", name.collect::<Vec<_>>().join(", "));
            let tables = dispatch.into_iter().flat_map(Dispatched::tables);
            // As text those beside a post's.
            page.section(tables.fold(
                Section::new(title),
                |section, (title, table)| match row.published {
                    Some(_) => section.folded(title, table),
                    None => section.page_folded(title, table),
                },
            ));
        }
        let published = self.rows.iter().filter_map(|row| row.published.as_ref());
        let mut posts: Vec<&str> = published.map(|published| &*published.post).collect();
        posts.dedup();
        let source = |post| {
            format!("published elsewhere: \u{201c}{post}\u{201d}, another machine and system: context.")
        };
        page.section(Section::new("").notes(posts.into_iter().map(source)));
        page.section(Section::new("").notes(others).text_note("", result));
        page
    }

    fn table(&self) -> Table {
        let scenario = self.plan.scenario();
        let figures = scenario.metrics.iter().enumerate();
        let figures = figures.map(|(place, of)| match place < scenario.in_text {
            true => metric(of),
            false => metric(of).wide(),
        });
        let has_published = self.rows.iter().any(|row| row.published.is_some());
        let elsewhere = |row: &Row| {
            row.published
                .as_ref()
                .map_or(String::new(), |row| row.figure.clone())
        };
        let column = Column::left("published elsewhere").key("published");
        let published = has_published.then(|| Reading::new(column, elsewhere));
        table(self.labels().chain(figures).chain(published), &self.rows)
    }

    fn compared(&self) -> Option<Run> {
        let numbers = |row: &Row| {
            let (metrics, main) = (self.plan.scenario().metrics, self.plan.main().name);
            let numbers = metrics
                .iter()
                .map(|metric| Numbers::of(metric, self.trials(row), metric.name == main));
            numbers.collect()
        };
        let step = |row: &Row| diff::Step {
            key: row.labels.clone(),
            shape: self.labels().map(|reading| reading.cell(row)).collect(),
            numbers: numbers(row),
        };
        let plan = crate::document::as_json(&self.plan);
        Some(Run {
            asked: diff::fields_without(&plan, &["rounds", "seed"]),
            shape: self.labels().map(|reading| reading.column()).collect(),
            steps: self.rows.iter().map(step).collect(),
            ..self.head.compared()
        })
    }

    /// Those of one row.
    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        columns::figures(self.plan.scenario().metrics, self.plan.of_whole(&self.rows))
    }
}

impl<R: Asked> Report<R> {
    /// The results of a row.
    fn trials(&self, row: &Row) -> impl Iterator<Item = &Trial> + use<'_, R> {
        let step = row.step;
        let of_row = move |trial: &&Trial| trial.head.step == step && trial.head.is_result();
        self.trials.iter().filter(of_row)
    }

    /// The columns that name a row.
    fn labels(&self) -> impl Iterator<Item = Reading<'static, Row>> {
        let column = |(name, unit): &(&'static str, &'static str)| match (*name, *unit) {
            (name, "") => words(name, move |row: &Row| row.label(name).to_owned()),
            (name, unit) => {
                let column = Column::right(name).unit(unit);
                number(column, Show::Count, move |row: &Row| row.label(name).parse().ok())
            }
        };
        self.plan.scenario().labels.iter().map(column)
    }

    /// What was sent, as the head of the text has it.
    fn sent(&self) -> [(&'static str, String); 2] {
        let (plan, (rounds, seed)) = (&self.plan, self.plan.turns());
        let rounds = format!("{}, seed {seed}", quantity::count(rounds.into()));
        [("traffic", (plan.scenario().traffic)(plan)), ("rounds", rounds)]
    }
}
