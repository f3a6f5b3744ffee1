//! The comparison for people: hashes by tuple, ways to move datagrams, what was left out, the best ways last.

use super::document::{
    EnginesReport, HASH_METRICS, NS_PER_HASH, PER_CPU_SECOND, RATIO_TO_BASIC, RATIO_TO_ORACLE, ToeplitzWay,
    UDP_METRICS, UdpWay,
};
use super::ways::ORACLE;
use crate::columns::{self, half_range, number, words};
use crate::trial::Trial;
use corelane_measure::metric::{Measured, Show, Values};
use corelane_measure::quantity;
use corelane_report::gate::Figure;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::reading::{Reading, metric, table, with_range};
use corelane_report::table::{Cell, Column, Table};

impl Rendered for EnginesReport {
    fn page(&self) -> Page {
        let hashes = self.toeplitz_trials.iter().map(Trial::head);
        let datagrams = self.udp_trials.iter().map(Trial::head);
        let trials = hashes.chain(datagrams);
        let mut page = self.head.page_of("Hashes and engines", &self.plan, trials);
        page.headline = self.conclusion();
        page.section(self.hashes_section());
        page.section(self.udp_section());
        page.section(self.remarks());
        page
    }

    fn table(&self) -> Table {
        let hashes = self
            .toeplitz
            .iter()
            .map(|way| Row(&way.values, &way.name, Some(way)));
        let udp = self.udp.iter().map(|way| Row(&way.values, &way.name, None));
        let rows: Vec<Row<'_>> = hashes.chain(udp).collect();
        let readings = [
            words("way", |row: &Row<'_>| row.1.to_owned()),
            words("tuple", |row: &Row<'_>| {
                row.2.map_or("", |way| &way.tuple).to_owned()
            }),
            number(Column::right("batch"), Show::Count, |row: &Row<'_>| {
                Some(row.2?.batch as f64)
            }),
            metric(&NS_PER_HASH),
            metric(&RATIO_TO_ORACLE),
            metric(&PER_CPU_SECOND),
            metric(&RATIO_TO_BASIC),
        ];
        table(readings, &rows)
    }

    /// Those of the best way of each kind.
    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        let mut figures = columns::figures(HASH_METRICS, self.fastest_hash());
        figures.extend(columns::figures(UDP_METRICS, self.cheapest_udp()));
        figures
    }
}

/// A way of either kind: its metrics, its name, and what only a way to hash has.
struct Row<'a>(&'a Values, &'a str, Option<&'a ToeplitzWay>);

impl Measured for Row<'_> {
    fn values(&self) -> &Values {
        self.0
    }
}

impl EnginesReport {
    fn hashes_section(&self) -> Section {
        let batch = self.toeplitz.iter().map(|way| way.batch).max().unwrap_or(1);
        let batched = |way: &ToeplitzWay| {
            let same = |other: &&ToeplitzWay| {
                (&other.tuple, &other.name) == (&way.tuple, &way.name) && other.batch > 1
            };
            self.toeplitz.iter().find(same)
        };
        let batches = Column::right(&format!("batches of {batch}")).unit("ns/hash");
        let time = with_range(&NS_PER_HASH, 2);
        let in_batches = |way: &ToeplitzWay| match batched(way) {
            Some(way) => time.cell(way),
            None => Cell::number(None, Show::Fixed(2)),
        };
        let readings = [
            words("tuple", |way: &ToeplitzWay| way.tuple.clone()),
            words("way", |way: &ToeplitzWay| way.name.clone()),
            with_range(&NS_PER_HASH, 2),
            Reading::new(faster_column(), |way: &ToeplitzWay| faster(Some(way))),
            Reading::new(batches, in_batches),
            Reading::new(faster_column(), |way: &ToeplitzWay| faster(batched(way))),
        ];
        let alone = self.toeplitz.iter().filter(|way| way.batch == 1);
        let rounds = self.plan.rounds;
        let title = format!("Toeplitz hash, medians of {rounds} rounds\u{b1}half the range");
        Section::new(title).table(table(readings, alone))
    }

    fn udp_section(&self) -> Section {
        if self.udp.is_empty() {
            return Section::default();
        }
        let cost = |way: &UdpWay| PER_CPU_SECOND.of(way).map(|rate| 1e9 / rate);
        let moved = Column::left("datagrams are moved").may_shrink();
        let readings = [
            words("way", |way: &UdpWay| way.name.clone()),
            Reading::new(moved, |way: &UdpWay| way.describe.clone()),
            metric(&PER_CPU_SECOND),
            half_range(&PER_CPU_SECOND),
            number(Column::right("CPU ns").unit("/datagram"), Show::Fixed(0), cost),
            with_range(&RATIO_TO_BASIC, 2),
        ];
        let plan = &self.plan;
        let what = format!(
            "UDP echo of {} bytes, {} on the way, by CPU time of the server (CPU {}, client on CPU {}), medians of {} \
             rounds of {}",
            plan.payload_bytes,
            plan.outstanding,
            plan.server_cpu,
            plan.client_cpu,
            plan.rounds,
            quantity::duration(plan.duration_s * 1e9),
        );
        Section::new("").note(what).table(table(readings, &self.udp))
    }

    /// What was left out and why, and the best ways, which a page has as its headline.
    fn remarks(&self) -> Section {
        let left_out = self.left_out.iter();
        let left_out = left_out.map(|way| format!("{}: {}", way.name, way.because));
        let unknown = |way: &UdpWay| Some(format!("{}: {}", way.name, way.unknown_because.as_ref()?));
        Section::new("")
            .labelled_notes("left out ", left_out)
            .labelled_notes("unknown  ", self.udp.iter().filter_map(unknown))
            .text_note("", self.conclusion())
    }
}

fn faster_column() -> Column {
    Column::right("faster").unit("x oracle")
}

/// How many times as fast as the oracle.
fn faster(way: Option<&ToeplitzWay>) -> Cell {
    let times = way.and_then(|way| Some(1.0 / RATIO_TO_ORACLE.of(way)?));
    match way {
        Some(way) if way.name == ORACLE => Cell::count(1),
        _ => Cell::number(times, Show::Fixed(1)),
    }
}
