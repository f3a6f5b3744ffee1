//! A run as people read it: every phase, what was decided, and what it comes to.

use super::document::{Phase, Rebalancing, Verdict};
use corelane_measure::metric::Show;
use corelane_measure::quantity::{self, count, fixed};
use corelane_report::gate::Figure;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::reading::{Reading, table};
use corelane_report::table::{Cell, Column, Table};

/// How far above the best possible assignment the fullest bucket may be decided to stay.
const MOST_OVER_BEST: f64 = 1.05;

impl Rendered for Rebalancing {
    fn page(&self) -> Page {
        let mut page = self.head.page("Rebalancing");
        page.headline = self.load();
        page.verdict = match &self.verdict {
            Some(verdict) => format!(
                "{} lost a million under {} changes a minute, {} without",
                fixed(verdict.during_lost_per_million, 1),
                count(verdict.changes_a_minute as u64),
                fixed(verdict.static_lost_per_million, 1)
            ),
            None => "ended early: no verdict".to_owned(),
        };
        // A value that came from JSON always goes back to it.
        let pretty = serde_json::to_string_pretty(&self.request).unwrap_or_default();
        page.documents = vec![("Plan", pretty)];
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
        let number = |header: &str, of: fn(&Phase) -> u64| {
            Reading::new(Column::right(header), move |phase: &Phase| Cell::count(of(phase)))
        };
        let changes = |phase: &Phase| {
            let changing = (phase.table_changes > 0).then(|| phase.changes_a_minute.trunc());
            Cell::number(changing, Show::Count)
        };
        let readings = [
            number("round", |phase| u64::from(phase.round) + 1),
            Reading::new(Column::left("phase"), |phase: &Phase| {
                phase.name.name().to_owned()
            }),
            number("sent", |phase| phase.sent),
            number("returned", |phase| phase.returned).wide(),
            number("lost", |phase| phase.lost),
            number("refused", |phase| phase.refused).wide(),
            number("reordered", |phase| phase.reordered).wide(),
            Reading::new(Column::right("fullest").unit("of mean"), |phase: &Phase| {
                Cell::number(phase.fullest_over_mean, Show::Fixed(3))
            }),
            Reading::new(Column::right("p99").unit("\u{b5}s"), |phase: &Phase| {
                Cell::number(phase.round_trip_p99_us, Show::Fixed(0))
            }),
            Reading::new(Column::right("changes").unit("/min"), changes),
            number("moved", |phase| phase.entries_moved),
            Reading::new(Column::left("buckets").unit("%").may_shrink(), shares),
        ];
        table(readings, &self.phases)
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        let of = |read: fn(&Verdict) -> f64| self.verdict.as_ref().map(read);
        let figure = |name, show, about| Figure { name, show, about };
        vec![
            (
                figure(
                    "during_lost_per_million",
                    Show::Fixed(1),
                    "Lost while the table changed, a million sent.",
                ),
                of(|verdict| verdict.during_lost_per_million),
            ),
            (
                figure(
                    "after_fullest_over_mean",
                    Show::Fixed(3),
                    "The fullest bucket over the mean after rebalancing.",
                ),
                of(|verdict| verdict.after_fullest_over_mean),
            ),
            (
                figure(
                    "decided_over_best",
                    Show::Fixed(3),
                    "The fullest bucket decided over the best possible.",
                ),
                of(|verdict| verdict.decided_over_best),
            ),
        ]
    }

    fn proved(&self) -> Result<(), String> {
        let failure = match &self.verdict {
            Some(verdict) if !verdict.nothing_lost => "datagrams were lost while the table changed",
            Some(verdict) if verdict.decided_over_best > MOST_OVER_BEST => {
                "the fullest bucket stays more than 5 % above the best possible"
            }
            _ => return Ok(()),
        };
        Err(failure.to_owned())
    }
}

/// The buckets' shares of what was seen, in percent.
fn shares(phase: &Phase) -> String {
    let total: u64 = phase.bucket_datagrams.iter().sum();
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

    /// What was decided in each round.
    fn decided(&self) -> Vec<String> {
        let decided = self.decisions.iter().enumerate().map(|(round, decided)| {
            let over = |load: u64| fixed(load as f64 / decided.bound.max(1) as f64, 3);
            format!(
                "round {}: {} of {} entries moved; fullest bucket {} of the best possible, {} before",
                round + 1,
                decided.moves.len(),
                decided.table.size(),
                over(decided.fullest_after),
                over(decided.fullest_before)
            )
        });
        decided.collect()
    }
}
