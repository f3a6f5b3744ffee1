//! The page of a run: every phase, the decisions and the verdict.

use super::document::{Phase, Rebalancing, Verdict};
use crate::columns::{self, count, number};
use crate::trial::{self, Trial};
use corelane_measure::counters::Counters;
use corelane_measure::metric::{Metric, Show};
use corelane_measure::quantity::{self, fixed};
use corelane_report::gate::Figure;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::reading::{Reading, table};
use corelane_report::table::{Column, Table};

/// Largest accepted load of the fullest bucket, relative to the best possible assignment.
const MOST_OVER_BEST: f64 = 1.05;

impl Rendered for Rebalancing {
    fn page(&self) -> Page {
        let trials = self.phases.iter().map(Trial::head);
        let mut page = self.head.page_of("Rebalancing", &self.request, trials);
        page.headline = self.load();
        page.verdict = match &self.verdict {
            Some(verdict) => format!(
                "{} lost per million under {} changes/min, {} without",
                fixed(verdict.during_lost_per_million, 1),
                quantity::count(verdict.changes_a_minute as u64),
                fixed(verdict.static_lost_per_million, 1)
            ),
            None if self.head.interrupted => "ended early: no verdict".to_owned(),
            None => "not every phase has a result: no verdict".to_owned(),
        };
        let fullest = self.verdict.as_ref().map(|verdict| {
            format!(
                "fullest bucket {} of the mean after rebalancing, {} without",
                fixed(verdict.after_fullest_over_mean, 3),
                fixed(verdict.static_fullest_over_mean, 3)
            )
        });
        page.section(
            Section::new(self.load())
                .table(self.table())
                .notes(self.decided())
                .notes(fullest),
        );
        page
    }

    fn table(&self) -> Table {
        let changes = |phase: &Phase| (phase.table_changes > 0).then(|| phase.changes_a_minute.trunc());
        let fullest = Column::right("fullest").unit("of mean").key("fullest_over_mean");
        let p99 = Column::right("p99").unit("\u{b5}s").key("round_trip_p99_us");
        let a_minute = Column::right("changes").unit("/min").key("changes_a_minute");
        let buckets = Column::left("buckets")
            .unit("%")
            .key("bucket_shares")
            .may_shrink();
        let readings = [
            count("round", "round", |phase: &Phase| phase.head.round as u64 + 1),
            Reading::new(Column::left("phase").key("name"), |phase: &Phase| {
                phase.name.to_string()
            }),
            count("sent", "sent", |phase: &Phase| phase.sent),
            count("returned", "returned", |phase: &Phase| phase.returned).wide(),
            count("lost", "lost", |phase: &Phase| phase.lost),
            count("refused", "refused", |phase: &Phase| phase.refused).wide(),
            count("reordered", "reordered", |phase: &Phase| phase.reordered).wide(),
            number(fullest, Show::Fixed(3), |phase: &Phase| phase.fullest_over_mean),
            number(p99, Show::Fixed(0), |phase: &Phase| phase.round_trip_p99_us),
            number(a_minute, Show::Count, changes),
            count("moved", "entries_moved", |phase: &Phase| phase.entries_moved),
            Reading::new(buckets, shares),
        ];
        table(readings, &self.phases)
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        columns::of_verdict(METRICS, self.verdict.as_ref())
    }

    fn proved(&self) -> Result<(), String> {
        let failure = match &self.verdict {
            Some(verdict) if !verdict.nothing_lost => "datagrams were lost while the table changed",
            Some(verdict) if verdict.decided_over_best > MOST_OVER_BEST => {
                "the fullest bucket stays more than 5 % above the best possible"
            }
            None if !self.head.interrupted && !self.phases.is_empty() => "not every phase has a result",
            _ => return Ok(()),
        };
        Err(failure.to_owned())
    }
}

static METRICS: &[Metric<Verdict>] = &[
    Metric::less("during_lost_per_million", "lost", Show::Fixed(1))
        .about("Lost while the table changed, per million sent.")
        .read(|verdict| trial::number(Some(verdict.during_lost_per_million))),
    Metric::less("after_fullest_over_mean", "fullest", Show::Fixed(3))
        .about("The fullest bucket over the mean after rebalancing.")
        .read(|verdict| trial::number(Some(verdict.after_fullest_over_mean))),
    Metric::less("decided_over_best", "decided", Show::Fixed(3))
        .about("The fullest bucket decided over the best possible.")
        .read(|verdict| trial::number(Some(verdict.decided_over_best))),
];

/// The buckets' shares of what was seen, in percent.
fn shares(phase: &Phase) -> String {
    let total: u64 = Counters::sum(&phase.bucket_datagrams);
    let share = |seen: &u64| fixed(100.0 * *seen as f64 / total.max(1) as f64, 0);
    let shares: Vec<String> = phase.bucket_datagrams.iter().map(share).collect();
    shares.join(" ")
}

impl Rebalancing {
    fn load(&self) -> String {
        let table = &self.request.steering.table;
        format!(
            "Zipf {} over {} entries, {} buckets, {}",
            self.request.exponent,
            table.size(),
            table.buckets(),
            quantity::rate(self.request.rate)
        )
    }

    /// The decision of each round.
    fn decided(&self) -> Vec<String> {
        let decided = self.decisions.iter().enumerate().map(|(index, decision)| {
            let decided = &decision.decided;
            let over = |load: u64| fixed(load as f64 / decided.bound.max(1) as f64, 3);
            format!(
                "round {}: {} of {} entries moved; fullest bucket {} of the best possible, {} before",
                decision.round.unwrap_or(index) + 1,
                decided.moves.len(),
                decided.table.size(),
                over(decided.fullest_after),
                over(decided.fullest_before)
            )
        });
        decided.collect()
    }
}
