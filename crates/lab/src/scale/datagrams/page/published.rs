//! Figures that were published elsewhere, as context: they come from other hardware and another system.
//!
//! In: nothing; these are constants with their sources. Out: the rows of the posts' tables.

use crate::columns::number;
use crate::scale::datagrams::document::{ScaleReport, Step};
use crate::scale::datagrams::metrics::{LINEARITY, RATE};
use crate::scale::steps::Shape as _;
use corelane_measure::metric::Show;
use corelane_measure::statistics;
use corelane_report::page::Section;
use corelane_report::reading::{Reading, table};
use corelane_report::table::{Cell, Column};
use corelane_serve::udp::Mode;
use std::collections::BTreeSet;

/// A run's main rates beside the posts' rows of the same mode; on a page alone.
pub(super) fn section(report: &ScaleReport, mode: Mode) -> Section {
    let main = |step: &&Step| step.shape.is_plain() && step.shape.is_exact() && step.shape.mode == mode;
    let own: Vec<&Step> = report.steps.iter().filter(main).collect();
    if own.is_empty() {
        return Section::default();
    }
    let posts = || PUBLISHED.iter().filter(|post| post.mode == mode);
    let mut counts: BTreeSet<usize> = own.iter().map(|step| step.shape.buckets_active).collect();
    counts.extend(posts().flat_map(|post| post.rates).map(|(buckets, _)| buckets));
    let step = |count: &usize| {
        own.iter()
            .find(|step| step.shape.buckets_active == *count)
            .copied()
    };
    let rate = mode.main_rate_name();
    let mut readings: Vec<Reading<'_, usize>> = vec![
        Reading::new(Column::right("buckets").unit("active"), |count: &usize| {
            Cell::count(*count as u64)
        }),
        number(Column::right("this run").unit("/s"), Show::PerSecond, |count| {
            RATE.of(step(count)?)
        }),
        number(
            Column::right("this run").unit("linearity"),
            Show::Fixed(2),
            |count| LINEARITY.of(step(count)?),
        ),
    ];
    let context = "Published figures come from other hardware and another system: context, not a comparison. What can be \
                   read across is linearity.";
    let mut sources = Vec::new();
    for (index, post) in posts().enumerate() {
        let name = format!("post {}", index + 1);
        sources.push(format!(
            "{name}: \u{201c}{}\u{201d}, other hardware: {}.",
            post.title, post.machine
        ));
        let column = |unit| Column::right(&name).unit(unit);
        readings.push(number(column("/s"), Show::PerSecond, |count| post.rate(*count)));
        readings.push(number(column("linearity"), Show::Fixed(2), |count| {
            post.linearity(*count)
        }));
    }
    let title = format!("beside what was published, {mode}: frames {rate} per second");
    let section = Section::new(title).page_note(context);
    let section = section.page_table(table(readings, &counts));
    sources.into_iter().fold(section, Section::page_note)
}

/// One published experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Published {
    /// The post's title.
    title: &'static str,
    /// The machine and system.
    machine: &'static str,
    /// What the server did.
    mode: Mode,
    /// Buckets, and so CPUs, that were active, and frames per second: answered by an echo, seen by a sink.
    rates: &'static [(usize, f64)],
}

const THROUGHPUT: &str = "Receive side scaling: testing UDP throughput";
const THROUGHPUT_MACHINE: &str = "i5-3550, 4 cores at 3.3 GHz, 82599EB, FreeBSD";

/// What the posts print, in their order. The first post's first round is left out, because the post itself calls it
/// spoilt (by turbo boost and flow control).
const PUBLISHED: [Published; 3] = [
    Published {
        title: THROUGHPUT,
        machine: THROUGHPUT_MACHINE,
        mode: Mode::Echo,
        rates: &[(1, 266_000.0), (2, 512_000.0), (3, 810_000.0), (4, 1_120_000.0)],
    },
    Published {
        title: THROUGHPUT,
        machine: THROUGHPUT_MACHINE,
        mode: Mode::Sink,
        rates: &[(1, 204_000.0), (2, 378_000.0), (3, 645_000.0), (4, 900_000.0)],
    },
    Published {
        title: "More RSS UDP tests \u{2013} this time on a Dell R720",
        machine: "Xeon E5-2650, 8 cores at 2.0 GHz, ixgbe, FreeBSD",
        mode: Mode::Echo,
        rates: &[(1, 215_000.0), (8, 1_720_000.0)],
    },
];

impl Published {
    fn rate(&self, buckets: usize) -> Option<f64> {
        let mut rates = self.rates.iter();
        rates
            .find(|(active, _)| *active == buckets)
            .map(|(_, rate)| *rate)
    }

    /// Rate at this many buckets over as many times the rate at one.
    fn linearity(&self, buckets: usize) -> Option<f64> {
        statistics::ratio(self.rate(buckets)?, buckets as f64 * self.rate(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_posts_scale_as_they_say() {
        let linearities: Vec<Vec<String>> = PUBLISHED
            .iter()
            .map(|published| {
                let counts = published.rates.iter().map(|(buckets, _)| *buckets);
                let linearity = |buckets| format!("{:.2}", published.linearity(buckets).unwrap());
                counts.map(linearity).collect()
            })
            .collect();
        let expected = [
            vec!["1.00", "0.96", "1.02", "1.05"],
            vec!["1.00", "0.93", "1.05", "1.10"],
            vec!["1.00", "1.00"],
        ];
        assert_eq!(linearities, expected);
    }
}
