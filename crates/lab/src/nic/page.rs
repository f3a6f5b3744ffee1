//! What was found for people: each model, each setting, and all frames together last.

use super::document::{ModelReport, NicReport, RoundReport, TypeReport, Verdict};
use crate::columns::{self, count, number, words};
use crate::document::set_aside;
use crate::trial::Trial;
use corelane_measure::metric::{Metric, Read, Sample, Show};
use corelane_report::gate::Figure;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::reading::{Reading, table};
use corelane_report::table::{Column, Table};

impl Rendered for NicReport {
    fn page(&self) -> Page {
        let mut page = self.head.page("NIC proof");
        let verdict = &self.verdict;
        let passed = if verdict.passed { "passed" } else { "FAILED" };
        page.headline = format!("RSS of emulated NICs, frame by frame: {passed}");
        let because = match verdict.faults.is_empty() {
            true => String::new(),
            false => format!(": {}", verdict.faults.join("; ")),
        };
        page.verdict = format!("{}: {passed}{because}", verdict.counts());
        let set_aside = set_aside(&self.head, self.models.iter().map(Trial::head), &mut page);
        page.section(set_aside);
        for model in &self.models {
            page.section(model_section(model));
            let rounds = model.probed.iter().flat_map(|probed| &probed.rounds);
            for (number, round) in rounds.enumerate() {
                page.section(round_section(number, round));
            }
        }
        page
    }

    fn table(&self) -> Table {
        let rounds = self.models.iter().flat_map(|model| {
            let rounds = model.probed.iter().flat_map(|probed| &probed.rounds);
            (0..)
                .zip(rounds)
                .map(|(number, round)| (model.model.as_str(), number, round))
        });
        let rows: Vec<Row<'_>> = rounds.flat_map(type_rows).collect();
        let readings = [
            words("model", |row: &Row<'_>| row.0.to_owned()),
            count("round", "round", |row: &Row<'_>| row.1),
        ];
        table(readings.into_iter().chain(type_columns()), &rows)
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        columns::of_verdict(METRICS, Some(&self.verdict))
    }

    fn proved(&self) -> Result<(), String> {
        let verdict = &self.verdict;
        let faults = verdict.faults.join("; ");
        match verdict.passed {
            true => Ok(()),
            false if faults.is_empty() => {
                Err("the device does not do as computed: see the counts".to_owned())
            }
            false if self.head.interrupted => Err(format!("the run was interrupted: {faults}")),
            false => Err(faults),
        }
    }
}

static METRICS: &[Metric<Verdict>] = &[
    frames("sent", "Frames sent.", |of| Sample::count(of.sent)),
    frames("frames", "Frames received.", |of| Sample::count(of.frames)),
    frames("right_hash", "Frames with the computed hash.", |of| {
        Sample::count(of.right_hash)
    }),
    frames("right_queue", "Frames on the computed queue.", |of| {
        Sample::count(of.right_queue)
    }),
    frames(
        "right_program",
        "Frames for which the steering program returns the computed queue.",
        |of| of.right_program.and_then(Sample::count),
    ),
    frames("right_cpu", "Frames on the computed CPU.", |of| {
        Sample::count(of.right_cpu)
    }),
];

const fn frames(name: &'static str, about: &'static str, read: Read<Verdict>) -> Metric<Verdict> {
    Metric::explaining(name, name, Show::Count)
        .about(about)
        .read(read)
}

fn model_section(model: &ModelReport) -> Section {
    let name = &model.model;
    let skipped = model.skipped.as_ref();
    let probed = model.probed.as_ref().map(|probed| {
        let (driver, kernel, queues) = (&probed.driver, &probed.kernel, probed.queues);
        format!("{name}: driver {driver}, Linux {kernel}, {queues} queues")
    });
    Section::new("")
        .notes(skipped.map(|reason| format!("{name}: skipped: {reason}")))
        .notes(probed)
}

fn round_section(number: usize, round: &RoundReport) -> Section {
    let title = format!(
        "round {number}: key {}\u{2026}, entries by queue {:?}, reads back: {}",
        round.key.get(..16).unwrap_or(&round.key),
        round.entries_by_queue,
        if round.reads_back { "yes" } else { "NO" }
    );
    let rows: Vec<Row<'_>> = type_rows(("", number as u64, round)).collect();
    let queues = round.frames_by_queue.iter();
    let queues: Vec<String> = queues
        .map(|(queue, frames)| format!("{frames} by queue {queue}"))
        .collect();
    Section::new(title)
        .table(table(type_columns(), &rows))
        .note(format!(
            "{}; {} on the CPU that explain names",
            queues.join(", "),
            round.right_cpu
        ))
        .note(format!(
            "held to a wrong key: {} misplaced; to a wrong table: {} misplaced",
            round.wrong_key.misplaced, round.wrong_table.misplaced
        ))
}

/// The frames of one hash type in one round of one model: model, round, hash type, counts.
type Row<'a> = (&'a str, u64, &'a str, TypeReport);

fn type_rows<'a>((model, number, round): (&'a str, u64, &'a RoundReport)) -> impl Iterator<Item = Row<'a>> {
    let types = round.types.iter();
    types.map(move |(name, of_type)| (model, number, name.as_str(), *of_type))
}

fn type_columns<'a>() -> [Reading<'static, Row<'a>>; 5] {
    let name = Column::left("hash type").key("hash_type");
    let program = Column::right("right program").key("right_program");
    [
        Reading::new(name, |row: &Row<'a>| row.2.to_owned()),
        count("frames", "frames", |row: &Row<'a>| row.3.frames),
        count("right hash", "right_hash", |row: &Row<'a>| row.3.right_hash),
        count("right queue", "right_queue", |row: &Row<'a>| row.3.right_queue),
        number(program, Show::Count, |row: &Row<'a>| {
            row.3.right_program.map(|right| right as f64)
        }),
    ]
}
