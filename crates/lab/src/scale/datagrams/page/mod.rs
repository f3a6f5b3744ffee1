//! A run for people: in a terminal, in Markdown, as a page, as CSV, beside another run, at a gate.

mod figures;
mod published;

use super::document::{Datagrams, LockComparison, PerBucket, ScaleReport, Series, Step};
use super::gap;
use super::metrics::{
    CLOCK, CONTEXT_SWITCHES, COST_OF_PLAIN, COUNTS, CPU, IMBALANCE, LINEARITY, LOCALITY, PAYLOAD, RATE,
    RATE_OF_PLAIN, REORDERED, ROUND_TRIP, STEERING, TX_LOCALITY,
};
use crate::columns::{count, number, words};
use crate::scale::limit;
use crate::scale::page::{self, Shown, linearity_tile, median_words, share, trials};
use crate::scale::steps::{Shape as _, active};
use corelane_host::bed::BedKind;
use corelane_measure::metric::Show;
use corelane_measure::quantity::{self, or_missing};
use corelane_report::html::tiles::Tile;
use corelane_report::page::{Page, Section};
use corelane_report::reading::{Reading, metric, named, percentiles, relative_range, table, with_range};
use corelane_report::table::{Cell, Column};
use corelane_serve::udp::{Mode, Model};
use corelane_worker::worker_memory;

/// Rows of the table of buckets that a page shows unfolded.
const MOST_BUCKETS_UNFOLDED: usize = 16;

/// What locality can mean where no device chose the CPU.
const LOCALITY_BY_PLACEMENT: &str = "Locality here is by placement: on veth and loopback the receive path runs on the sender's \
                                     CPU, so aligned clients make it true and crossed clients must make it false";

/// What it means where the socket is chosen by the receiving CPU.
const EXCEPT_BY_CPU: &str = ", except under SO_INCOMING_CPU, which chooses the worker by the receiving CPU and so the wrong \
                             bucket's where clients are crossed";

impl Shown for Datagrams {
    fn headline(report: &ScaleReport, step: &Step) -> String {
        let does = match step.shape.mode {
            Mode::Echo => "answer",
            Mode::Sink => "take in",
        };
        page::headline(report, step, does)
    }

    fn tiles(report: &ScaleReport, step: &Step) -> Vec<Tile> {
        let active = step.shape.buckets_active;
        let main = report.main_series();
        let one = main.and_then(|series| CPU.of(*series.0.first()?));
        let growth = CPU.of(step).zip(one).filter(|_| active > 1);
        let growth =
            growth.map(|(many, one)| format!("{} of one bucket\u{2019}s", quantity::ratio(many / one)));
        let payload = PAYLOAD
            .of(step)
            .map(|rate| format!(", {} Gb/s", quantity::fixed(rate, 2)));
        let buckets = format!(
            "{active} {}{}",
            limit::buckets(active),
            payload.unwrap_or_default()
        );
        let steering = STEERING.of(step);
        let steering = steering.map(|share| format!("steered right {}", quantity::percent(share)));
        let words = |metric| page::words(metric, step);
        let unexplained = quantity::count(unexplained_frames(report));
        vec![
            (step.shape.mode.main_rate_name(), words(&RATE), Some(buckets)),
            linearity_tile(&LINEARITY, step),
            ("CPU per frame", words(&CPU), growth),
            ("locality", words(&LOCALITY), steering),
            (
                "round trip, p99",
                words(&ROUND_TRIP),
                median_words(&ROUND_TRIP, step),
            ),
            (
                "unexplained",
                unexplained,
                Some("frames without a cause".to_owned()),
            ),
        ]
    }

    fn sections(report: &ScaleReport, page: &mut Page) {
        let [judged, _] = report.parted_series();
        for series in &judged {
            page.section(frames_section(report, series));
            page.section(costs_section(report, series));
        }
        page.section(buckets_section(report));
        page.section(controls_section(report));
        page.section(variations_section(report));
        page.section(drops_section(report));
        let sentences = report.kind.lock_comparisons.iter().map(LockComparison::words);
        page::observed_sections(report, sentences, page);
    }

    fn closing(report: &ScaleReport, page: &mut Page) {
        for mode in [Mode::Echo, Mode::Sink] {
            page.section(published::section(report, mode));
        }
    }
}

/// The posts' table: frames at five places, and what came of the CPUs.
fn frames_section(report: &ScaleReport, series: &Series<'_>) -> Section {
    let title = format!("{}; N buckets active", series.shape().title());
    if let Some(why) = report.failure(series) {
        return Section::new(title).note(format!("failed: {why}"));
    }
    let readings = page::counted(&COUNTS, &[&PAYLOAD, &LOCALITY, &CPU], &LINEARITY);
    Section::new(title)
        .figures(figures::growth(report, series.shape().mode))
        .table(table(readings, series.0.iter().copied()))
}

/// What else a step cost: round trips, context switches, the clock.
fn costs_section(report: &ScaleReport, series: &Series<'_>) -> Section {
    if report.failure(series).is_some() {
        return Section::default();
    }
    let mut readings = vec![active()];
    let trip = percentiles(&ROUND_TRIP, ("round trip", "median"));
    // A line of 100 columns has no room for the 90th percentile.
    let narrowed =
        |(place, reading): (usize, Reading<'static, Step>)| if place == 1 { reading.wide() } else { reading };
    readings.extend(trip.into_iter().enumerate().map(narrowed));
    readings.extend([&CONTEXT_SWITCHES, &CLOCK, &STEERING].map(metric));
    readings.extend([relative_range(&RATE, "spread of rate"), trials()]);
    Section::new("")
        .figures(figures::series(report, series))
        .table(table(readings, series.0.iter().copied()).without_silent_columns())
}

/// The buckets of the main series at its largest step.
fn buckets_section(report: &ScaleReport) -> Section {
    let Some(step) = report
        .last_step()
        .filter(|step| !step.found.per_bucket.is_empty())
    else {
        return Section::default();
    };
    type Bucket = PerBucket;
    let right = |header, unit| Column::right(header).unit(unit);
    let frames = |header, read: fn(&Bucket) -> Option<u64>| {
        number(right(header, "frames"), Show::Count, move |of| {
            read(of).map(|frames| frames as f64)
        })
    };
    let memory = |header, read: fn(&worker_memory::WorkerMemory) -> String| {
        words(header, move |of: &Bucket| or_missing(of.memory.as_ref(), read)).wide()
    };
    let readings = [
        count("bucket", "bucket", |of: &Bucket| of.bucket.into()),
        count("cpu", "cpu", |of: &Bucket| of.cpu.into()),
        number(right("seen", "/s"), Show::PerSecond, |of: &Bucket| of.seen_pps),
        frames("seen", |of| Some(of.seen)),
        frames("answered", |of| of.answered),
        frames("dropped", |of| Some(of.dropped)),
        number(right("local", "%"), Show::Share, |of: &Bucket| of.locality),
        number(right("steered right", "%"), Show::Share, |of: &Bucket| {
            of.steering_ok
        }),
        memory("memory", |memory| memory.policies()),
        memory("pages of buffers", |memory| memory.words()),
    ];
    let all = &step.found.per_bucket;
    let buckets = table(readings, all);
    let title = format!(
        "each bucket, {}, {} active",
        step.shape.mode, step.shape.buckets_active
    );
    let section = Section::new(title).figures([figures::buckets(step), figures::cpus(step)]);
    let section = match all.len() {
        count if count > MOST_BUCKETS_UNFOLDED => section.folded(format!("All {count} buckets"), buckets),
        _ => section.table(buckets),
    };
    section.notes(worker_memory::sentence(
        all.iter().filter_map(|bucket| bucket.memory.as_ref()),
    ))
}

/// Every series at its largest step, beside exact steering with aligned clients.
fn controls_section(report: &ScaleReport) -> Section {
    if report.series().len() < 2 {
        return Section::default();
    }
    let more = [
        metric(&LOCALITY),
        named(&STEERING, "steered", "%"),
        metric(&CPU),
        with_range(&LINEARITY, 2),
    ];
    let modes = [Mode::Echo, Mode::Sink];
    Section::new("controls beside exact steering (rate: answered for echo, seen for sink)")
        .figures(modes.map(|mode| figures::models(report, mode)))
        .table(report.controls_table(metric(&RATE), more))
        .notes(report.faster_controls(&[("CPU per frame", &CPU)], quantity::rate))
        .notes(report.doubtful_controls())
        .notes(report.crossed_at_one(&report.series()))
        .notes(locality_note(report))
}

/// Steps that did something otherwise, beside the plain steps of their shape; their clients are aligned.
fn variations_section(report: &ScaleReport) -> Section {
    let mut readings = vec![
        words("mode", |step: &Step| step.shape.mode.to_string()),
        words("model", |step: &Step| step.shape.model.to_string()),
        words("otherwise", |step: &Step| step.shape.variation()),
        active(),
    ];
    let metrics = [
        &RATE,
        &RATE_OF_PLAIN,
        &COST_OF_PLAIN,
        &IMBALANCE,
        &REORDERED,
        &LOCALITY,
        &TX_LOCALITY,
    ];
    readings.extend(metrics.map(metric));
    readings.push(share("idle", Step::idle_share));
    Section::new("otherwise than above, at the same number of buckets")
        .table(table(readings, report.varied_steps()).without_silent_columns())
        .notes(report.variation_sentences())
}

/// Frames dropped by cause, and frames that nothing accounts for.
fn drops_section(report: &ScaleReport) -> Section {
    let columns = [
        Column::left("cause").may_shrink(),
        Column::right("frames"),
        Column::right("of generated").unit("%"),
    ];
    let drops = report.parts_table(columns, |index, step| {
        let generated: u64 = report
            .valid_trials(index)
            .iter()
            .map(|trial| trial.counts.generated)
            .sum();
        let dropped = step.found.drops.iter().filter(|(_, frames)| **frames > 0);
        let dropped = dropped.map(|(key, frames)| {
            let share = Cell::number(Some(*frames as f64 / generated as f64), Show::Share);
            [gap::label(key).into(), Cell::count(*frames), share]
        });
        let gaps = step.found.unexplained.iter();
        let missing = gaps.filter_map(|(gap, frames)| Some((gap, frames.filter(|frames| *frames != 0)?)));
        let missing = missing.map(|(gap, frames)| {
            let count = Cell::shown(Some(frames as f64), |_| quantity::signed_count(frames));
            let gap = gap.to_string().replace('_', " ");
            [
                Cell::from(format!("NO CAUSE, {gap}")).alarming(),
                count,
                Cell::default(),
            ]
        });
        dropped.chain(missing).collect()
    });
    if drops.is_empty() {
        return Section::new("").note("drops by cause, over all valid trials: none");
    }
    let uncounted = |step: &Step| step.summed.trials > 0 && COUNTS[1].of(step).is_none();
    let verdict = match (unexplained_frames(report), report.steps.iter().any(uncounted)) {
        (0, false) => "every frame missing between two places has a cause",
        (0, true) => "received was not counted, so the account has a gap",
        _ => "some frames are missing without a cause",
    };
    Section::new(format!("drops by cause, over all valid trials; {verdict}")).table(drops)
}

/// What locality can mean in this bed; `None` if a device chose the CPU.
fn locality_note(report: &ScaleReport) -> Option<String> {
    let bed = report.head.bed.as_ref();
    // No kind of bed that this program makes has a device that chooses.
    let by_device = bed.is_some_and(|bed| bed.kind.parse::<BedKind>().is_err());
    let mut models = report.steps.iter().map(|step| step.shape.model);
    let by_cpu = models.any(|model| model == Model::IncomingCpu);
    let exception = if by_cpu { EXCEPT_BY_CPU } else { "" };
    (!by_device).then(|| format!("{LOCALITY_BY_PLACEMENT}{exception}."))
}

/// Frames that are missing without a cause, or too many without one, over all steps and gaps.
fn unexplained_frames(report: &ScaleReport) -> u64 {
    let gaps = report
        .steps
        .iter()
        .flat_map(|step| step.found.unexplained.values());
    gaps.flatten()
        .fold(0, |sum: u64, frames| sum.saturating_add(frames.unsigned_abs()))
}
