//! A run as people read it: in a terminal, in Markdown, as a page, as CSV, beside another run, at a gate.

pub(crate) mod figures;
mod inside;
mod observed;
mod published;

use super::document::{PerBucket, ScaleReport, Series, Step, active};
use super::metrics::{
    ANSWERED, CLOCK, CONTEXT_SWITCHES, COST_OF_PLAIN, CPU, GENERATED, IMBALANCE, LINEARITY, LOCALITY,
    PAYLOAD, RATE, RATE_OF_PLAIN, RECEIVED, REORDERED, RETURNED, ROUND_TRIP, SEEN, STEERING, TX_LOCALITY,
};
use crate::steps::{Stepped, unknown_section};
use corelane_measure::drops;
use corelane_measure::metric::{Metric, Show};
use corelane_measure::quantity::{self, or_missing};
use corelane_measure::statistics;
use corelane_report::diff::Run;
use corelane_report::gate::Figure;
use corelane_report::html::tiles::Tile;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::reading::{Reading, metric, named, percentiles, relative_range, table, with_range};
use corelane_report::table::{Cell, Column, Table};
use corelane_serve::udp::{Mode, Model};
use corelane_worker::worker_memory;

/// Rows of the table of buckets that a page shows without being asked for.
const MOST_BUCKETS_UNFOLDED: usize = 16;

impl Rendered for ScaleReport {
    fn page(&self) -> Page {
        let mut page = self.head.page("UDP scaling");
        page.headline = self.headline();
        page.verdict.clone_from(&self.limit.sentence);
        page.evidence.clone_from(&self.limit.evidence);
        page.tiles = self.tiles();
        page.caveats.extend(self.trial_caveats());
        for series in self.judged_series() {
            page.section(frames_section(self, &series));
            page.section(costs_section(self, &series));
        }
        page.section(self.buckets_section());
        page.section(self.controls_section());
        page.section(self.variations_section());
        page.section(self.drops_section());
        for section in self.observed_sections() {
            page.section(section);
        }
        page.section(self.trials_section());
        let main = self.main_series().map(|series| series.steps).unwrap_or_default();
        page.section(unknown_section(main.iter().flat_map(|step| &step.summed.unknown)));
        page.section(Section::new("").note(self.scaling.sentence().unwrap_or_default()));
        for mode in [Mode::Echo, Mode::Sink] {
            page.section(published::section(self, mode));
        }
        // A value that came from JSON always goes back to it.
        let pretty = |value| serde_json::to_string_pretty(value).unwrap_or_default();
        page.documents = vec![
            ("Plan", pretty(&self.plan)),
            ("Steering document", pretty(&self.steering)),
        ];
        page
    }

    fn table(&self) -> Table {
        self.steps_table()
    }

    fn compared(&self) -> Option<Run> {
        Some(self.compared_steps())
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        self.figures_of(self.last_step())
    }
}

/// The posts' table: frames at five places, and what came of the CPUs.
fn frames_section(report: &ScaleReport, series: &Series<'_>) -> Section {
    let readings = [
        active(),
        metric(&GENERATED),
        metric(&RECEIVED),
        metric(&SEEN),
        metric(&ANSWERED),
        metric(&RETURNED),
        metric(&PAYLOAD),
        metric(&LOCALITY),
        metric(&CPU),
        idle(),
        Reading::new(Column::right("softirq").unit("%"), |step: &Step| {
            Cell::number(step.softirq_share(), Show::WholeShare)
        }),
        with_range(&LINEARITY, 2),
    ];
    Section::new(format!("{}; N buckets active", series.title()))
        .figures([
            figures::rate(report, series.mode),
            figures::cost(report, series.mode),
        ])
        .table(table(readings, series.steps.iter().copied()))
}

/// What else a step cost: round trips, context switches, the clock.
fn costs_section(report: &ScaleReport, series: &Series<'_>) -> Section {
    let mut readings = vec![active()];
    let trip = percentiles(&ROUND_TRIP, ("round trip", "median"));
    // A line of 100 columns has no room for the 90th percentile.
    let narrowed =
        |(place, reading): (usize, Reading<'static, Step>)| if place == 1 { reading.wide() } else { reading };
    readings.extend(trip.into_iter().enumerate().map(narrowed));
    readings.extend([
        metric(&CONTEXT_SWITCHES),
        metric(&CLOCK),
        metric(&STEERING),
        relative_range(&RATE, "spread of rate"),
        Reading::new(Column::right("trials"), |step: &Step| {
            Cell::count(step.summed.trials as u64)
        }),
    ]);
    let figure = (series.mode == Mode::Echo).then(|| inside::round_trips(report));
    Section::new("")
        .figures(figure)
        .table(table(readings, series.steps.iter().copied()).without_silent_columns())
}

fn idle() -> Reading<'static, Step> {
    Reading::new(Column::right("idle").unit("%"), |step: &Step| {
        Cell::number(step.idle_share(), Show::WholeShare)
    })
}

/// The columns of the table of buckets.
fn bucket_readings() -> [Reading<'static, PerBucket>; 10] {
    let memory = |header| Column::left(header).wide();
    [
        Reading::new(Column::right("bucket"), |bucket: &PerBucket| {
            Cell::count(bucket.bucket.into())
        }),
        Reading::new(Column::right("cpu"), |bucket: &PerBucket| {
            Cell::count(bucket.cpu.into())
        }),
        Reading::new(Column::right("seen").unit("/s"), |bucket: &PerBucket| {
            Cell::number(bucket.seen_pps, Show::PerSecond)
        }),
        Reading::new(Column::right("seen").unit("frames"), |bucket: &PerBucket| {
            Cell::count(bucket.seen)
        }),
        Reading::new(Column::right("answered").unit("frames"), |bucket: &PerBucket| {
            Cell::number(bucket.answered.map(|answered| answered as f64), Show::Count)
        }),
        Reading::new(Column::right("dropped").unit("frames"), |bucket: &PerBucket| {
            Cell::count(bucket.dropped)
        }),
        Reading::new(Column::right("local").unit("%"), |bucket: &PerBucket| {
            Cell::number(bucket.locality, Show::Share)
        }),
        Reading::new(Column::right("steered right").unit("%"), |bucket: &PerBucket| {
            Cell::number(bucket.steering_ok, Show::Share)
        }),
        Reading::new(memory("memory"), |bucket: &PerBucket| {
            or_missing(bucket.memory.as_ref(), |memory| memory.policies())
        }),
        Reading::new(memory("pages of buffers"), |bucket: &PerBucket| {
            or_missing(bucket.memory.as_ref(), |memory| memory.words())
        }),
    ]
}

impl ScaleReport {
    /// The largest step of the main series.
    fn last_step(&self) -> Option<&Step> {
        self.main_series()?.steps.last().copied()
    }

    /// What came out, in one line.
    fn headline(&self) -> String {
        let Some(step) = self.last_step() else {
            return "Nothing was measured".to_owned();
        };
        let does = match step.mode {
            Mode::Echo => "answer",
            Mode::Sink => "take in",
        };
        let rate = or_missing(RATE.of(step), quantity::rate);
        match (step.buckets_active, LINEARITY.of(step)) {
            (1, _) => format!("One bucket {does}s {rate}"),
            (buckets, Some(linearity)) => {
                let times = quantity::fixed(linearity * buckets as f64, 2);
                format!("{buckets} buckets {does} {rate}: {times} times what one does")
            }
            (buckets, None) => format!("{buckets} buckets {does} {rate}"),
        }
    }

    fn tiles(&self) -> Vec<Tile> {
        let Some(step) = self.last_step() else {
            return Vec::new();
        };
        let words =
            |metric: &Metric<_>, step: &Step| or_missing(metric.of(step), |value| metric.show.words(value));
        let one = self
            .main_series()
            .and_then(|series| series.steps.first().copied());
        let growth = CPU
            .of(step)
            .zip(one.and_then(|one| CPU.of(one)))
            .filter(|_| step.buckets_active > 1)
            .map(|(many, one)| format!("{} of one bucket\u{2019}s", quantity::ratio(many / one)));
        let spread = LINEARITY.range(step).filter(|spread| spread.count > 1);
        let half_range =
            spread.map(|spread| format!("\u{b1} {:.2}, {} rounds", spread.half_range(), spread.count));
        let buckets = if step.buckets_active == 1 {
            "bucket"
        } else {
            "buckets"
        };
        let payload = PAYLOAD
            .of(step)
            .map(|rate| format!(", {} Gb/s", quantity::fixed(rate, 2)));
        let active = format!("{} {buckets}{}", step.buckets_active, payload.unwrap_or_default());
        let steering = STEERING
            .of(step)
            .map(|share| format!("steered right {}", quantity::percent(share)));
        let trip = |nanoseconds: u64| quantity::duration(nanoseconds as f64);
        let middle = ROUND_TRIP
            .durations(step)
            .map(|summary| format!("median {}", trip(summary.p50_ns)));
        vec![
            (step.mode.main_rate_name(), words(&RATE, step), Some(active)),
            ("linearity", words(&LINEARITY, step), half_range),
            ("CPU per frame", words(&CPU, step), growth),
            ("locality", words(&LOCALITY, step), steering),
            ("round trip, p99", words(&ROUND_TRIP, step), middle),
            (
                "unexplained",
                quantity::count(self.unexplained_frames()),
                Some("frames without a cause".to_owned()),
            ),
        ]
    }

    /// The buckets of the main series at its largest step.
    fn buckets_section(&self) -> Section {
        let Some(step) = self.last_step().filter(|step| !step.per_bucket.is_empty()) else {
            return Section::default();
        };
        let buckets = table(bucket_readings(), &step.per_bucket);
        let section = Section::new(format!(
            "each bucket, {}, {} active",
            step.mode, step.buckets_active
        ))
        .figures([inside::buckets(self), inside::cpus(self)]);
        let section = match step.per_bucket.len() {
            count if count > MOST_BUCKETS_UNFOLDED => section.folded(format!("All {count} buckets"), buckets),
            _ => section.table(buckets),
        };
        section.notes(worker_memory::sentence(step.memory()))
    }

    /// Every series at its largest step, beside exact steering with aligned clients.
    fn controls_section(&self) -> Section {
        let all = self.series();
        if all.len() < 2 {
            return Section::default();
        }
        let of_exact = |step: &Step| {
            let reference = self.steps.iter().find(|other| {
                other.variation.is_plain()
                    && (other.mode, other.model, other.placement, other.buckets_active)
                        == (
                            step.mode,
                            Model::Exact,
                            super::Placement::Aligned,
                            step.buckets_active,
                        )
            });
            statistics::ratio(RATE.of(step)?, RATE.of(reference?)?)
        };
        let mut readings: Vec<Reading<'_, Step>> = Self::shape();
        readings.extend([
            metric(&RATE),
            Reading::new(Column::right("of exact"), |step: &Step| {
                Cell::number(of_exact(step), Show::Ratio)
            }),
            metric(&LOCALITY),
            named(&STEERING, "steered", "%"),
            metric(&CPU),
            with_range(&LINEARITY, 2),
        ]);
        let last = all.iter().filter_map(|series| series.steps.last().copied());
        let modes = [Mode::Echo, Mode::Sink];
        Section::new("controls beside exact steering (rate: answered for echo, seen for sink)")
            .figures(modes.map(|mode| figures::models(self, mode)))
            .table(table(readings, last))
            .notes(self.locality_note())
    }

    /// Steps that did something otherwise, beside the plain steps of their shape; their clients are aligned.
    fn variations_section(&self) -> Section {
        let readings = [
            Reading::new(Column::left("mode"), |step: &Step| step.mode.to_string()),
            Reading::new(Column::left("model"), |step: &Step| step.model.to_string()),
            Reading::new(Column::left("otherwise"), |step: &Step| {
                step.variation.to_string()
            }),
            active(),
            metric(&RATE),
            metric(&RATE_OF_PLAIN),
            metric(&COST_OF_PLAIN),
            metric(&IMBALANCE),
            metric(&REORDERED),
            metric(&LOCALITY),
            metric(&TX_LOCALITY),
            idle(),
        ];
        let varied = table(readings, self.varied_steps());
        if varied.is_empty() {
            return Section::default();
        }
        Section::new("otherwise than above, at the same number of buckets")
            .table(varied.without_silent_columns())
            .notes(self.variation_sentences())
    }

    /// Frames dropped by cause, and frames that nothing accounts for.
    fn drops_section(&self) -> Section {
        let shape = Self::shape();
        let mut columns: Vec<Column> = shape.iter().map(Reading::column).collect();
        columns.extend([
            Column::left("cause").may_shrink(),
            Column::right("frames"),
            Column::right("of generated").unit("%"),
        ]);
        let mut drops = Table::new(columns);
        for (index, step) in self.steps.iter().enumerate() {
            let generated: u64 = self.valid_trials(index).map(|trial| trial.generated).sum();
            let mut row = |cells: [Cell; 3]| drops.row(shape.iter().map(|of| of.cell(step)).chain(cells));
            for (key, frames) in step.drops.iter().filter(|(_, frames)| **frames > 0) {
                let share = *frames as f64 / generated as f64;
                row([
                    drops::label(key).into(),
                    Cell::count(*frames),
                    Cell::number(Some(share), Show::Share),
                ]);
            }
            for (gap, frames) in step.unexplained.by_gap() {
                if let Some(frames) = frames.filter(|frames| *frames != 0) {
                    let count = Cell::shown(Some(frames as f64), |_| quantity::signed_count(frames));
                    row([
                        Cell::from(format!("NO CAUSE, {gap}")).alarming(),
                        count,
                        Cell::default(),
                    ]);
                }
            }
        }
        if drops.is_empty() {
            return Section::new("").note("drops by cause, over all valid trials: none");
        }
        let uncounted = |step: &Step| step.summed.trials > 0 && RECEIVED.of(step).is_none();
        let verdict = match (self.unexplained_frames(), self.steps.iter().any(uncounted)) {
            (0, false) => "every frame missing between two places has a cause",
            (0, true) => "received was not counted, so the account has a gap",
            _ => "some frames are missing without a cause",
        };
        Section::new(format!("drops by cause, over all valid trials; {verdict}")).table(drops)
    }

    /// What locality can mean in this bed; `None` where a device chose the CPU.
    pub(super) fn locality_note(&self) -> Option<&'static str> {
        let simple = self
            .head
            .bed
            .as_ref()
            .is_none_or(|bed| ["namespaces", "user_namespace", "loopback"].contains(&bed.kind.as_str()));
        let by_cpu = self.steps.iter().any(|step| step.model == Model::IncomingCpu);
        match (simple, by_cpu) {
            (false, _) => None,
            (true, false) => Some(
                "Locality here is by placement: on veth and loopback the receive path runs on the sender's CPU, so \
                 aligned clients make it true and crossed clients must make it false.",
            ),
            (true, true) => Some(
                "Locality here is by placement: on veth and loopback the receive path runs on the sender's CPU, so \
                 aligned clients make it true and crossed clients must make it false, except under SO_INCOMING_CPU, \
                 which chooses the worker by the receiving CPU and so the wrong bucket's where clients are crossed.",
            ),
        }
    }

    /// Frames that are missing without a cause, or too many without one, over all steps and gaps.
    pub(super) fn unexplained_frames(&self) -> u64 {
        let gaps = self.steps.iter().flat_map(|step| step.unexplained.by_gap());
        gaps.filter_map(|(_, frames)| frames)
            .fold(0, |sum, frames| sum.saturating_add(frames.unsigned_abs()))
    }
}
