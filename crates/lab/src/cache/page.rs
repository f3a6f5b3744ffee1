//! The comparison for people: a row per shape and size, a column per policy, the result last.

use super::document::{CacheReport, METRICS, MISSES, Row};
use crate::columns::{self, number, words};
use crate::document::as_json;
use crate::trial::Trial as _;
use corelane_measure::metric::Show;
use corelane_measure::quantity;
use corelane_report::diff::{self, Numbers, Run};
use corelane_report::gate::Figure;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::reading::{Reading, metric, table};
use corelane_report::table::{Column, Table};

/// What the columns mean.
const LEGEND: &str = "Share of reads that hit, in percent. size: of the bytes of all items that are requested. memcached: its segmented LRU \
    alone, the reference. store: the store with all that it needs of the same memory; the others are charged 48 bytes per item. A store of less than 512 KiB has fewer segments \
    than a large one.";

impl Rendered for CacheReport {
    fn page(&self) -> Page {
        let trials = self.trials.iter().map(|trial| trial.head());
        let mut page = self.head.page_of("Hit ratios of caches", &self.plan, trials);
        page.headline = self.conclusion();
        page.origin.splice(1..1, [("requests", self.requested())]);
        page.section(Section::new("Hit ratios, medians").table(self.table()));
        page.section(Section::new("").note(LEGEND).text_note("", self.conclusion()));
        page
    }

    fn table(&self) -> Table {
        table(
            self.labels()
                .into_iter()
                .chain(METRICS.iter().map(|of| metric(of))),
            &self.rows,
        )
    }

    fn compared(&self) -> Option<Run> {
        let step = |row: &Row| diff::Step {
            key: [
                ("shape".to_owned(), row.shape.clone()),
                ("size".to_owned(), row.percent.to_string()),
            ]
            .into(),
            shape: self.labels().iter().map(|reading| reading.cell(row)).collect(),
            numbers: METRICS
                .iter()
                .map(|metric| {
                    let trials = self.trials.iter();
                    let of_row = trials.filter(|trial| trial.head.step == row.step && trial.head.is_result());
                    Numbers::of(metric, of_row, metric.name == MISSES.name)
                })
                .collect(),
        };
        Some(Run {
            asked: diff::fields_without(&as_json(&self.plan), &["rounds", "seed"]),
            shape: self.labels().iter().map(|reading| reading.column()).collect(),
            steps: self.rows.iter().map(step).collect(),
            ..self.head.compared()
        })
    }

    /// Those of the row in which the store compares worst.
    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        let worst = self.rows.iter().max_by(|row, other| {
            let [row, other] = [row, other].map(|row| MISSES.of(*row).unwrap_or(0.0));
            row.total_cmp(&other)
        });
        columns::figures(METRICS, worst)
    }
}

impl CacheReport {
    fn labels(&self) -> [Reading<'static, Row>; 2] {
        [
            words("shape", |row: &Row| row.shape.clone()),
            number(Column::right("size").unit("%"), Show::Count, |row: &Row| {
                Some(f64::from(row.percent))
            }),
        ]
    }

    fn requested(&self) -> String {
        let plan = &self.plan;
        let [requests, keys, rounds] =
            [plan.requests, plan.keys.into(), plan.rounds.into()].map(quantity::count);
        format!(
            "{requests} per trial over {keys} keys, rounds {rounds}, seed {}",
            plan.seed
        )
    }

    /// Misses of the store by those of the reference, over all rows.
    fn conclusion(&self) -> String {
        let mut misses: Vec<f64> = self.rows.iter().filter_map(|row| MISSES.of(row)).collect();
        misses.sort_by(f64::total_cmp);
        let [Some(least), Some(median), Some(most)] = [0, misses.len() / 2, misses.len().wrapping_sub(1)]
            .map(|place| misses.get(place).map(|misses| Show::Fixed(2).cell(*misses)))
        else {
            return "No shape has a result.".to_owned();
        };
        format!(
            "The store misses {median} times as often as memcached's policy in the same memory, {least} to {most} by shape and size."
        )
    }
}
