//! A simulation as people read it: what was drawn, one table for each table size, and the conclusions.

use super::document::{SimulateReport, Step};
use corelane_measure::metric::Show;
use corelane_measure::quantity;
use corelane_measure::statistics::Spread;
use corelane_report::gate::Figure;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::reading::{Reading, table};
use corelane_report::table::{Cell, Column, Table};

/// What the columns mean.
const LEGEND: &str = "fullest: load of the fullest bucket over the mean, 1 when all are level. random: the same, had each \
    flow fallen on an entry drawn at random. of ideal: mean over fullest, what the buckets carry together when the \
    fullest is busy. rebalanced: after moving so many entries of the table. least: no table is below it, since an entry \
    moves whole. flow: the largest flow over the mean.";

/// A quantity of a step.
struct Quantity {
    header: &'static str,
    unit: &'static str,
    /// Whether text shows the range over the rounds.
    ranged: bool,
    figure: Figure,
    of: fn(&Step) -> &Spread,
}

const fn over_mean(
    (header, ranged): (&'static str, bool),
    name: &'static str,
    about: &'static str,
    of: fn(&Step) -> &Spread,
) -> Quantity {
    let show = Show::Fixed(2);
    Quantity {
        header,
        unit: "/mean",
        ranged,
        figure: Figure { name, show, about },
        of,
    }
}

const fn of_ideal(name: &'static str, about: &'static str, of: fn(&Step) -> &Spread) -> Quantity {
    let show = Show::Share;
    Quantity {
        header: "of ideal",
        unit: "%",
        ranged: false,
        figure: Figure { name, show, about },
        of,
    }
}

/// Every quantity, in the order of columns.
static QUANTITIES: [Quantity; 8] = [
    over_mean(
        ("fullest", true),
        "imbalance",
        "Load of the fullest bucket over the mean.",
        |step| &step.imbalance,
    ),
    over_mean(
        ("random", true),
        "random_imbalance",
        "The same with an ideal hash.",
        |step| &step.random_imbalance,
    ),
    of_ideal(
        "throughput_share",
        "What the buckets carry together when the fullest is busy.",
        |step| &step.throughput_share,
    ),
    over_mean(
        ("rebalanced", true),
        "rebalanced_imbalance",
        "Load of the fullest bucket over the mean with the rebalanced table.",
        |step| &step.rebalanced_imbalance,
    ),
    of_ideal(
        "rebalanced_throughput_share",
        "What the buckets carry together with the rebalanced table.",
        |step| &step.rebalanced_throughput_share,
    ),
    Quantity {
        header: "moves",
        unit: "",
        ranged: false,
        figure: Figure {
            name: "moves",
            show: Show::Fixed(0),
            about: "Entries that rebalancing moved.",
        },
        of: |step| &step.moves,
    },
    over_mean(
        ("least", false),
        "least_imbalance",
        "A lower bound of the imbalance of all tables.",
        |step| &step.least_imbalance,
    ),
    over_mean(
        ("flow", false),
        "largest_flow_imbalance",
        "The largest flow over the mean of the buckets.",
        |step| &step.largest_flow_imbalance,
    ),
];

impl Rendered for SimulateReport {
    fn page(&self) -> Page {
        let mut page = self.head.page("RSS simulation");
        let plan = &self.plan;
        let flows = quantity::count(plan.flows as u64);
        page.headline = format!(
            "{flows} flows, sizes {}, hashed as {}",
            plan.sizes, plan.hash_fields
        );
        page.origin.splice(1..1, self.drawn());
        // A value that came from JSON always goes back to it.
        let pretty = serde_json::to_string_pretty(plan).unwrap_or_default();
        page.documents = vec![("Plan", pretty)];
        for steps in self.steps.chunk_by(|one, next| one.table_size == next.table_size) {
            page.section(self.table_section(steps));
        }
        let mut words = Section::new("").note(LEGEND);
        if self.head.interrupted {
            words =
                words.note("The run was ended early: what it says rests on the rounds that were complete.");
        }
        page.section(words);
        page.section(Section::new("").notes(&self.conclusions));
        page
    }

    fn table(&self) -> Table {
        let size = Reading::new(Column::right("table").key("table_size"), |step: &Step| {
            Cell::count(step.table_size as u64)
        });
        table([size].into_iter().chain(columns()), &self.steps)
    }

    /// Those of the last step: the largest table, the most buckets.
    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        let median = |of: fn(&Step) -> &Spread| self.steps.last().map(|step| of(step).median);
        let figures = QUANTITIES.iter();
        figures
            .map(|quantity| (quantity.figure, median(quantity.of)))
            .collect()
    }
}

fn columns() -> impl Iterator<Item = Reading<'static, Step>> {
    let buckets = Reading::new(Column::right("buckets").key("buckets"), |step: &Step| {
        Cell::count(step.buckets as u64)
    });
    let column = |quantity: &'static Quantity| {
        let column = Column::right(quantity.header)
            .unit(quantity.unit)
            .key(quantity.figure.name);
        Reading::new(column, |step: &Step| {
            let spread = (quantity.of)(step);
            Cell::shown(Some(spread.median), |median| match quantity.ranged {
                true => spread.display(2),
                false => quantity.figure.show.cell(median),
            })
        })
    };
    [buckets].into_iter().chain(QUANTITIES.iter().map(column))
}

impl SimulateReport {
    /// What was drawn, as the head of the text has it.
    fn drawn(&self) -> [(&'static str, String); 5] {
        let plan = &self.plan;
        let flows = format!(
            "{}, sizes {}, {} datagrams in all",
            quantity::count(plan.flows as u64),
            plan.sizes,
            quantity::count(plan.datagrams)
        );
        let tuples = format!(
            "from {} to {}, hashed as {}",
            plan.clients, plan.server, plan.hash_fields
        );
        let rounds = self.trials.iter().map(|trial| trial.round + 1).max();
        let rounds = format!(
            "{}, each with flows of its own, seed {}; median\u{b1}half the range",
            rounds.unwrap_or(0),
            plan.seed
        );
        let bed = "none: tuples were drawn, hashed and looked up, and no packet was sent";
        [
            ("bed", bed.to_owned()),
            ("flows", flows),
            ("tuples", tuples),
            ("key", plan.key.clone()),
            ("rounds", rounds),
        ]
    }

    /// The steps of one table size, and for how many buckets that is too small.
    fn table_section(&self, steps: &[Step]) -> Section {
        let count = |number: usize| quantity::count(number as u64);
        let size = steps.first().map_or(0, |step| step.table_size);
        let section =
            Section::new(format!("table of {} entries", count(size))).table(table(columns(), steps));
        let left_out = self.plan.left_out.iter().filter(|pair| pair.table_size == size);
        let buckets: Vec<String> = left_out.map(|pair| count(pair.buckets)).collect();
        match buckets.is_empty() {
            true => section,
            false => section.note(format!(
                "{} buckets are left out: some would have no entry.",
                buckets.join("; ")
            )),
        }
    }
}
