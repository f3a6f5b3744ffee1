//! The comparison as people read it in a terminal: 100 columns, the best ways in the last line.

use super::{EnginesReport, ORACLE, ToeplitzWay, UdpWay};
use crate::documents::text::{Heading, conditions_section, heading};
use corelane_measure::quantity::{self, or_missing};
use corelane_measure::statistics::Spread;
use corelane_report::table::{Column, Table};
use corelane_report::text::{WIDTH, command, paragraph};

/// The whole report as text: conditions, hashes by tuple, ways to move datagrams, what was left out, the best.
#[must_use]
pub fn render(report: &EnginesReport) -> String {
    let mut sections = vec![
        heading(&Heading {
            tool: &report.tool,
            conditions: &report.conditions,
            bed: report.bed.as_ref(),
            command: command(&report.command_line),
        }),
        conditions_section(&report.conditions),
        toeplitz_section(report),
        udp_section(report),
        remarks(report),
    ];
    sections.retain(|section| !section.is_empty());
    let mut text = sections.join("\n");
    paragraph(&mut text, "", &report.conclusion());
    text
}

fn toeplitz_section(report: &EnginesReport) -> String {
    if report.toeplitz.is_empty() {
        return String::new();
    }
    let batch = report.toeplitz.iter().map(|way| way.batch).max().unwrap_or(1);
    let mut table = Table::new(vec![
        Column::left("tuple"),
        Column::left("way"),
        Column::right("one at a time").unit("ns/hash"),
        Column::right("faster").unit("x oracle"),
        Column::right(&format!("batches of {batch}")).unit("ns/hash"),
        Column::right("faster").unit("x oracle"),
    ]);
    for way in report.toeplitz.iter().filter(|way| way.batch == 1) {
        let same =
            |other: &&ToeplitzWay| (&other.tuple, &other.name) == (&way.tuple, &way.name) && other.batch > 1;
        let batched = report.toeplitz.iter().find(same);
        let (time, times) = figures(Some(way));
        let (batch_time, batch_times) = figures(batched);
        table.row([&way.tuple, &way.name, &time, &times, &batch_time, &batch_times]);
    }
    let rounds = report.plan.rounds;
    format!(
        "Toeplitz hash, medians of {rounds} rounds\u{b1}half the range\n{}",
        table.render(WIDTH)
    )
}

/// Nanoseconds a hash, and how many times as fast as the oracle.
fn figures(way: Option<&ToeplitzWay>) -> (String, String) {
    let time = |way: &ToeplitzWay| way.ns_per_hash_spread.display(2);
    let faster = |way: &ToeplitzWay| match way.name.as_str() {
        ORACLE => "1".to_owned(),
        _ => quantity::fixed(1.0 / way.ratio_to_oracle, 1),
    };
    (or_missing(way, time), or_missing(way, faster))
}

fn udp_section(report: &EnginesReport) -> String {
    if report.udp.is_empty() {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::left("way"),
        Column::left("datagrams are moved").may_shrink(),
        Column::right("datagrams").unit("/CPU s"),
        Column::right("\u{b1}").unit("%"),
        Column::right("CPU ns").unit("/datagram"),
        Column::right("rate").unit("x basic"),
    ]);
    for way in &report.udp {
        table.row(udp_row(way));
    }
    let plan = &report.plan;
    let mut text = String::new();
    let what = format!(
        "UDP echo of {} bytes, {} on the way, by CPU time of the server (CPU {}, client on CPU {}), medians of {} rounds \
         of {}",
        plan.payload_bytes,
        plan.outstanding,
        plan.server_cpu,
        plan.client_cpu,
        plan.rounds,
        quantity::duration(plan.duration_s * 1e9),
    );
    paragraph(&mut text, "", &what);
    text + &table.render(WIDTH)
}

fn udp_row(way: &UdpWay) -> [String; 6] {
    let half_range = |spread: Spread| quantity::fixed(spread.relative * 50.0, 0);
    let several = way
        .datagrams_per_cpu_second_spread
        .filter(|spread| spread.count > 1);
    [
        way.name.clone(),
        way.describe.clone(),
        or_missing(way.datagrams_per_cpu_second, quantity::metric),
        or_missing(several, half_range),
        or_missing(way.datagrams_per_cpu_second, |rate| {
            quantity::fixed(1e9 / rate, 0)
        }),
        or_missing(way.ratio_to_basic_spread, |spread| spread.display(2)),
    ]
}

fn remarks(report: &EnginesReport) -> String {
    let mut text = String::new();
    for left_out in &report.left_out {
        let line = format!("{}: {}", left_out.name, left_out.because);
        paragraph(&mut text, "left out ", &line);
    }
    for way in &report.udp {
        if let Some(because) = &way.unknown_because {
            paragraph(&mut text, "unknown  ", &format!("{}: {because}", way.name));
        }
    }
    if report.interrupted {
        let line = "The run was ended early: what it says rests on the trials that were complete.";
        paragraph(&mut text, "", line);
    }
    text
}
