//! A simulation for people: what was drawn, one table for each table size, and the conclusions.

use super::document::{METRICS, SimulateReport, Step, Trial};
use crate::columns::{self, count};
use crate::trial::Trial as _;
use corelane_measure::metric::Metric;
use corelane_measure::quantity;
use corelane_report::gate::Figure;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::reading::{Reading, metric, table, with_range};
use corelane_report::table::Table;

/// What the columns mean.
const LEGEND: &str = "fullest: load of the fullest bucket over the mean, 1 when all are level. random: the same, had each \
    flow fallen on an entry drawn at random. of ideal: mean over fullest, what the buckets carry together when the \
    fullest is busy. rebalanced: after moving so many entries of the table. least: no table is below it, since an entry \
    moves whole. flow: the largest flow over the mean.";

impl Rendered for SimulateReport {
    fn page(&self) -> Page {
        let trials = self.trials.iter().map(Trial::head);
        let mut page = self.head.page_of("RSS simulation", &self.plan, trials);
        let request = &self.plan.request;
        let flows = quantity::count(request.flows as u64);
        page.headline = format!(
            "{flows} flows, sizes {}, hashed as {}",
            request.sizes, request.hash_fields
        );
        page.origin.splice(1..1, self.drawn());
        for steps in self.steps.chunk_by(|one, next| one.table_size == next.table_size) {
            page.section(self.table_section(steps));
        }
        page.section(Section::new("").note(LEGEND));
        page.section(Section::new("").notes(&self.conclusions));
        page
    }

    fn table(&self) -> Table {
        let size = count("table", "table_size", |step: &Step| step.table_size as u64);
        table([size].into_iter().chain(columns()), &self.steps)
    }

    /// Those of the last step: the largest table, the most buckets.
    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        columns::figures(METRICS, self.steps.last())
    }
}

fn columns() -> impl Iterator<Item = Reading<'static, Step>> {
    let buckets = count("buckets", "buckets", |step: &Step| step.buckets as u64);
    let column = |of: &&'static Metric<Trial>| match of.name {
        "imbalance" | "random_imbalance" | "rebalanced_imbalance" => with_range(of, 2),
        _ => metric(of),
    };
    std::iter::once(buckets).chain(METRICS.iter().map(column))
}

impl SimulateReport {
    /// What was drawn, as the head of the text has it.
    fn drawn(&self) -> [(&'static str, String); 5] {
        let request = &self.plan.request;
        let flows = format!(
            "{}, sizes {}, {} datagrams in all",
            quantity::count(request.flows as u64),
            request.sizes,
            quantity::count(request.datagrams)
        );
        let tuples = format!(
            "from {} to {}, hashed as {}",
            request.clients, request.server, request.hash_fields
        );
        let rounds = self
            .trials
            .iter()
            .map(|trial| trial.head.round.saturating_add(1))
            .max();
        let rounds = format!(
            "{}, each with flows of its own, seed {}; median\u{b1}half the range",
            rounds.unwrap_or(0),
            request.seed
        );
        let bed = "none: tuples were drawn, hashed and looked up, and no packet was sent";
        [
            ("bed", bed.to_owned()),
            ("flows", flows),
            ("tuples", tuples),
            ("key", request.key.to_string()),
            ("rounds", rounds),
        ]
    }

    /// The steps of one table size, and for how many buckets that is too small.
    fn table_section(&self, steps: &[Step]) -> Section {
        let counted = |number: usize| quantity::count(number as u64);
        let size = steps.first().map_or(0, |step| step.table_size);
        let title = format!("table of {} entries", counted(size));
        let section = Section::new(title).table(table(columns(), steps));
        let left_out = self.plan.left_out.iter().filter(|pair| pair.table_size == size);
        let buckets: Vec<String> = left_out.map(|pair| counted(pair.buckets)).collect();
        let buckets = Some(buckets.join("; ")).filter(|buckets| !buckets.is_empty());
        section.notes(
            buckets.map(|buckets| format!("{buckets} buckets are left out: some would have no entry.")),
        )
    }
}
