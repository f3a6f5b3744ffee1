//! A simulation as people read it in a terminal: 100 columns, the conclusion last.

use super::{SimulateReport, Step};
use corelane_measure::quantity;
use corelane_measure::statistics::Spread;
use corelane_report::table::{Column, Table, clean};
use corelane_report::text::{WIDTH, paragraph};

/// What the columns mean.
const LEGEND: &str = "fullest: load of the fullest bucket over the mean, 1 when all are level. random: the same, had \
    each flow fallen on an entry drawn at random. of ideal: mean over fullest, what the buckets carry together when the \
    fullest is busy. rebalanced: after moving so many entries of the table. least: no table is below it, since an entry \
    moves whole. flow: the largest flow over the mean.";

/// The simulation as text: what was drawn, one table a table size, and the conclusions.
#[must_use]
pub fn render(report: &SimulateReport) -> String {
    let mut sections = vec![heading(report)];
    let mut steps = &report.steps[..];
    while let Some(first) = steps.first() {
        let same = steps
            .iter()
            .take_while(|step| step.table_size == first.table_size);
        let (of_one_table, rest) = steps.split_at(same.count());
        sections.push(table_section(report, first.table_size, of_one_table));
        steps = rest;
    }
    let mut words = String::new();
    paragraph(&mut words, "", LEGEND);
    if report.interrupted {
        paragraph(
            &mut words,
            "",
            "The run was ended early: what it says rests on the rounds that were complete.",
        );
    }
    sections.push(words);
    let mut conclusions = String::new();
    for sentence in &report.conclusions {
        paragraph(&mut conclusions, "", &clean(sentence));
    }
    sections.push(conclusions);
    sections.join("\n")
}

fn heading(report: &SimulateReport) -> String {
    let plan = &report.plan;
    let mut text = String::new();
    let mut entry = |name: &str, value: &str| paragraph(&mut text, &format!("{name:<9}"), value);
    entry("tool", &format!("{} {}", report.tool.name, report.tool.version));
    entry(
        "bed",
        "none: tuples were drawn, hashed and looked up, and no packet was sent",
    );
    let flows = format!(
        "{}, sizes {}, {} datagrams in all",
        quantity::count(plan.flows as u64),
        plan.sizes,
        quantity::count(plan.datagrams)
    );
    entry("flows", &flows);
    entry(
        "tuples",
        &format!(
            "from {} to {}, hashed as {}",
            plan.clients, plan.server, plan.hash_fields
        ),
    );
    entry("key", &plan.key);
    let rounds = report
        .trials
        .iter()
        .map(|trial| trial.round + 1)
        .max()
        .unwrap_or(0);
    entry(
        "rounds",
        &format!(
            "{rounds}, each with flows of its own, seed {}; median±half the range",
            plan.seed
        ),
    );
    entry("command", &report.command_line.join(" "));
    text
}

/// The steps of one table size, and for how many buckets that is too small.
fn table_section(report: &SimulateReport, size: usize, steps: &[Step]) -> String {
    let count = |number: usize| quantity::count(number as u64);
    let mut text = format!(
        "table of {} entries\n{}",
        count(size),
        steps_table(steps).render(WIDTH)
    );
    let left_out = report.plan.left_out.iter().filter(|pair| pair.table_size == size);
    let buckets: Vec<String> = left_out.map(|pair| count(pair.buckets)).collect();
    if !buckets.is_empty() {
        let line = format!(
            "{} buckets are left out: some would have no entry.",
            buckets.join("; ")
        );
        paragraph(&mut text, "", &line);
    }
    text
}

fn steps_table(steps: &[Step]) -> Table {
    let mut table = Table::new(vec![
        Column::right("buckets"),
        Column::right("fullest").unit("/mean"),
        Column::right("random").unit("/mean"),
        Column::right("of ideal").unit("%"),
        Column::right("rebalanced").unit("/mean"),
        Column::right("of ideal").unit("%"),
        Column::right("moves"),
        Column::right("least").unit("/mean"),
        Column::right("flow").unit("/mean"),
    ]);
    for step in steps {
        table.row([
            quantity::count(step.buckets as u64),
            step.imbalance.display(2),
            step.random_imbalance.display(2),
            percent(&step.throughput_share),
            step.rebalanced_imbalance.display(2),
            percent(&step.rebalanced_throughput_share),
            quantity::fixed(step.moves.median, 0),
            quantity::fixed(step.least_imbalance.median, 2),
            quantity::fixed(step.largest_flow_imbalance.median, 2),
        ]);
    }
    table
}

fn percent(share: &Spread) -> String {
    quantity::percent_number(share.median)
}
