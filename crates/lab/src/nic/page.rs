//! What was found as people read it: each model, each setting, and all frames together last.

use super::document::{ModelReport, NicReport, RoundReport, TypeReport, Verdict};
use corelane_measure::metric::Show;
use corelane_report::gate::Figure;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::reading::{Reading, table};
use corelane_report::table::{Cell, Column, Table};

impl Rendered for NicReport {
    fn page(&self) -> Page {
        let mut page = self.head.page("NIC proof");
        let verdict = &self.verdict;
        let passed = if verdict.passed { "passed" } else { "FAILED" };
        page.headline = format!("RSS of emulated NICs, frame by frame: {passed}");
        page.verdict = format!(
            "{} frames of {} sent: {} with the hash, {} by the queue, {} on the CPU that was computed: {passed}",
            verdict.frames, verdict.sent, verdict.right_hash, verdict.right_queue, verdict.right_cpu,
        );
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
        let mut rows = Vec::new();
        for model in &self.models {
            let rounds = model.probed.iter().flat_map(|probed| &probed.rounds);
            for (round, found) in rounds.enumerate() {
                let of_types = found.types.iter();
                rows.extend(of_types.map(|(name, of_type)| Row {
                    model: &model.model,
                    round: round as u64,
                    name,
                    of_type: *of_type,
                }));
            }
        }
        let model = Reading::new(Column::left("model"), |row: &Row<'_>| row.model.to_owned());
        let round = Reading::new(Column::right("round"), |row: &Row<'_>| Cell::count(row.round));
        table([model, round].into_iter().chain(type_columns()), &rows)
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        let figure = |name, about, of: fn(&Verdict) -> u64| {
            let show = Show::Count;
            (Figure { name, show, about }, Some(of(&self.verdict) as f64))
        };
        vec![
            figure("sent", "Frames sent.", |verdict| verdict.sent),
            figure("frames", "Frames received.", |verdict| verdict.frames),
            figure(
                "right_hash",
                "Frames with the hash that was computed.",
                |verdict| verdict.right_hash,
            ),
            figure(
                "right_queue",
                "Frames by the queue that was computed.",
                |verdict| verdict.right_queue,
            ),
            figure("right_cpu", "Frames on the CPU that was computed.", |verdict| {
                verdict.right_cpu
            }),
        ]
    }

    fn proved(&self) -> Result<(), String> {
        match self.verdict.passed {
            true => Ok(()),
            false => Err("the device does not do as computed: see the counts".to_owned()),
        }
    }
}

fn model_section(model: &ModelReport) -> Section {
    let mut section = Section::new("");
    if let Some(reason) = &model.skipped {
        section = section.note(format!("{}: skipped: {reason}", model.model));
    }
    if let Some(probed) = &model.probed {
        section = section.note(format!(
            "{}: driver {}, Linux {}, {} queues",
            model.model, probed.driver, probed.kernel, probed.queues
        ));
    }
    section
}

fn round_section(number: usize, round: &RoundReport) -> Section {
    let title = format!(
        "round {number}: key {}\u{2026}, entries by queue {:?}, reads back: {}",
        round.key.get(..16).unwrap_or(&round.key),
        round.entries_by_queue,
        if round.reads_back { "yes" } else { "NO" }
    );
    let rows = round.types.iter().map(|(name, of_type)| Row {
        model: "",
        round: number as u64,
        name,
        of_type: *of_type,
    });
    let queues = round.frames_by_queue.iter();
    let queues: Vec<String> = queues
        .map(|(queue, frames)| format!("{frames} by queue {queue}"))
        .collect();
    Section::new(title)
        .table(table(type_columns(), &rows.collect::<Vec<_>>()))
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

/// The frames of one hash type in one round of one model.
struct Row<'a> {
    model: &'a str,
    round: u64,
    name: &'a str,
    of_type: TypeReport,
}

fn type_columns<'a>() -> impl Iterator<Item = Reading<'static, Row<'a>>> {
    let count = |header: &str, key, of: fn(&TypeReport) -> u64| {
        Reading::new(Column::right(header).key(key), move |row: &Row<'a>| {
            Cell::from(of(&row.of_type).to_string())
        })
    };
    let columns = [
        Reading::new(Column::left("hash type").key("hash_type"), |row: &Row<'a>| {
            Cell::from(row.name)
        }),
        count("frames", "frames", |of_type| of_type.frames),
        count("right hash", "right_hash", |of_type| of_type.right_hash),
        count("right queue", "right_queue", |of_type| of_type.right_queue),
    ];
    columns.into_iter()
}
