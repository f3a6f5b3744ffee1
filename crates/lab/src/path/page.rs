//! A scenario for people: what was sent, a table with a row per case, what the columns mean, and what follows.

use super::document::{PathReport, Row, Trial};
use super::list;
use super::scenario::Scenario;
use crate::columns;
use crate::trial::Trial as _;
use corelane_measure::quantity;
use corelane_report::diff::{self, Numbers, Run};
use corelane_report::gate::Figure;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::reading::{Reading, metric, table};
use corelane_report::table::{Cell, Column, Table};
use corelane_serve::bridge::Dispatched;

impl Rendered for PathReport {
    fn page(&self) -> Page {
        let trials = self.trials.iter().map(Trial::head);
        let subject = format!("Path of frames: {}", self.plan.scenario);
        let (mut page, scenario) = (self.head.page_of(&subject, &self.plan, trials), self.scenario());
        let (result, others) = match self.conclusions.split_first() {
            Some((first, others)) => (first.as_str(), others),
            None => ("Not every case has a result.", &[][..]),
        };
        result.clone_into(&mut page.headline);
        page.origin.splice(1..1, self.sent());
        let title = format!("{}, medians", self.plan.scenario);
        page.section(Section::new(title).table(self.table()));
        page.section(Section::new("").note(scenario.legend));
        for row in &self.rows {
            let dispatch = self.trials(row).last().and_then(|trial| trial.dispatch.as_ref());
            let name = scenario.labels.iter().map(|label| row.label(label));
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
        let scenario = self.scenario();
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
            let metrics = self.scenario().metrics.iter().enumerate();
            metrics
                .map(|(place, metric)| Numbers::of(metric, self.trials(row), place == 0))
                .collect()
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

    /// Those of the last row.
    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        columns::figures(self.scenario().metrics, self.rows.last())
    }
}

impl PathReport {
    fn scenario(&self) -> &'static Scenario {
        list::scenario(self.plan.scenario)
    }

    /// The results of a row.
    fn trials(&self, row: &Row) -> impl Iterator<Item = &Trial> + use<'_> {
        let step = row.step;
        let of_row = move |trial: &&Trial| trial.head.step == step && trial.head.is_result();
        self.trials.iter().filter(of_row)
    }

    fn labels(&self) -> impl Iterator<Item = Reading<'static, Row>> {
        let column = |name: &&'static str| {
            let name = *name;
            Reading::new(Column::left(name), move |row: &Row| Cell::from(row.label(name)))
        };
        self.scenario().labels.iter().map(column)
    }

    /// What was sent, as the head of the text has it.
    fn sent(&self) -> [(&'static str, String); 2] {
        let plan = &self.plan;
        let rounds = format!("{}, seed {}", quantity::count(plan.rounds.into()), plan.seed);
        [("traffic", (self.scenario().traffic)(plan)), ("rounds", rounds)]
    }
}
