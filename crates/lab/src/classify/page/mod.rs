//! The experiment for people: which choices mattered stands in the last lines of the text.

mod figures;

use super::document::{
    CPU, Choice, ClassifyReport, FRAMES, Held, LOOKUPS, LockKind, MEMORY_READ, MEMORY_WRITTEN, METRICS,
    MISSES, PrefetchKind, PublishedRow, SHARE_OF_LIMIT, Setting, Step, Stride, TableKind,
};
use crate::columns::{self, half_range, number, plain, words};
use crate::trial::Trial;
use corelane_measure::metric::{Metric, Show};
use corelane_measure::quantity::{self, or_missing};
use corelane_report::gate::Figure;
use corelane_report::html::tiles::Tile;
use corelane_report::page::{Page, Rendered, Section};
use corelane_report::reading::{Reading, metric, table};
use corelane_report::table::{Cell, Column, Table};

impl Rendered for ClassifyReport {
    fn page(&self) -> Page {
        let limits = self.limit.trials.iter().map(Trial::head);
        let headers = self.header_trials.iter().map(Trial::head);
        let trials = self.trials.iter().map(Trial::head).chain(limits).chain(headers);
        let mut page = self.head.page_of("classification in memory", &self.plan, trials);
        page.headline = self.headline();
        page.tiles = self.tiles();
        page.section(Section::new("").labelled("limit    ", self.limit_words()));
        page.section(Section::new("how rates go").figures([figures::all(self)]));
        page.section(self.steps_section());
        page.section(self.strides_section());
        page.section(self.published_section());
        page.section(self.unknown_section());
        page.section(self.choices_section());
        page
    }

    fn table(&self) -> Table {
        let mut readings = setting_readings(|step: &Step| &step.setting);
        readings.extend(METRICS.iter().map(|of| metric(of)));
        table(readings, &self.steps)
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        columns::figures(METRICS, self.fastest(|setting| setting.entries > 0))
    }
}

impl ClassifyReport {
    /// The fastest full table and what it leaves of the limit, in one line.
    fn headline(&self) -> String {
        let Some(step) = self.fastest(|setting| setting.entries > 0) else {
            return "Nothing was measured".to_owned();
        };
        format!(
            "{} frames/s by their addresses, {} of memory\u{2019}s limit",
            or_missing(FRAMES.of(step), quantity::metric),
            or_missing(SHARE_OF_LIMIT.of(step), quantity::percent)
        )
    }

    fn tiles(&self) -> Vec<Tile> {
        let way = self.limit.way.as_ref();
        let memory = way.map(|way| format!("{} of {way}", quantity::bytes(self.limit.bytes)));
        let lines = or_missing(self.limit_lines_per_s, quantity::rate);
        let fastest = |(title, kind): (&'static str, TableKind)| {
            let step =
                self.fastest(|setting| setting.table == kind && setting.entries > 0 && setting.threads == 1);
            let rate = or_missing(step.and_then(|step| FRAMES.of(step)), quantity::rate);
            let setting = step.map(|step| step.setting);
            let how = setting.map(|setting| format!("batch {}, {}", setting.batch, setting.prefetch_words()));
            (title, rate, how)
        };
        let tables = [
            ("frames, exact table, one thread", TableKind::Exact),
            ("frames, the post\u{2019}s table, one thread", TableKind::Post),
        ];
        let limit = ("random lines, one thread", lines, memory);
        std::iter::once(limit).chain(tables.map(fastest)).collect()
    }

    fn limit_words(&self) -> String {
        let Some(lines) = self.limit_lines_per_s else {
            return String::new();
        };
        format!(
            "{} random lines/s on one thread, of {} in pages of {} ({}); {} frames of {} bytes, two lookups each, \
             {} of the addresses present",
            quantity::metric(lines),
            quantity::bytes(self.limit.bytes),
            or_missing(self.limit.page_size, quantity::bytes),
            self.limit.way.as_deref().unwrap_or_default(),
            quantity::count(self.plan.burst as u64),
            self.plan.frame_bytes,
            quantity::percent(self.plan.present_share),
        )
    }

    fn steps_section(&self) -> Section {
        let ahead = |step: &Step| {
            let distance = step.setting.prefetch_distance;
            or_missing(distance, |distance| distance.to_string())
        };
        let page = |step: &Step| step.page_size.map(|bytes| bytes as f64);
        let readings = [
            Reading::new(Column::left("table").may_shrink(), |step: &Step| {
                step.setting.table_words()
            }),
            plain("batch", |step: &Step| step.setting.batch),
            words("prefetch", |step: &Step| match step.setting.prefetch {
                PrefetchKind::BucketAndArray => "array too".to_owned(),
                kind => kind.to_string(),
            }),
            Reading::new(Column::right("ahead"), ahead),
            plain("stride", |step: &Step| step.setting.stride),
            plain("threads", |step: &Step| step.setting.threads),
            words("lock", |step: &Step| match step.setting.lock {
                LockKind::ReadPerBatch => "a batch".to_owned(),
                kind => kind.to_string(),
            }),
            metric(&FRAMES),
            half_range(&FRAMES),
            metric(&LOOKUPS),
            metric(&SHARE_OF_LIMIT),
            metric(&CPU),
            number(Column::right("page").unit("bytes").wide(), Show::Count, page),
            metric(&MEMORY_READ).wide(),
            metric(&MEMORY_WRITTEN).wide(),
            metric(&MISSES).wide(),
        ];
        let measured = self.steps.iter().filter(|step| FRAMES.of(*step).is_some());
        let title = format!(
            "steps, medians of {} rounds of {}; \u{b1} is half the range; prefetched ahead in lookups;\n\
             \u{201c}array too\u{201d} is bucket-and-array, \u{201c}a batch\u{201d} is read-per-batch",
            self.plan.rounds,
            quantity::duration(self.plan.duration_s * 1e9),
        );
        let summary = format!("All {} steps", self.steps.len());
        Section::new(title).folded(summary, table(readings, measured))
    }

    fn strides_section(&self) -> Section {
        if self.strides.is_empty() {
            return Section::default();
        }
        let held = Column::left("a burst\u{2019}s headers held").unit("by the caches\u{2019} geometry");
        let fetched = |stride: &Stride| {
            Cell::shown(stride.ns_per_header, |time| match stride.ns_per_header_spread {
                Some(spread) => spread.display(1),
                None => quantity::fixed(time, 1),
            })
        };
        let readings = [
            plain("stride", |stride: &Stride| stride.stride),
            Reading::new(held, held_words),
            words("foretold", |stride: &Stride| {
                or_missing(stride.foretold(), |words| words)
            }),
            Reading::new(Column::right("fetched in").unit("ns"), fetched),
            number(Column::right("of quickest"), Show::Ratio, |stride: &Stride| {
                stride.of_quickest
            }),
            words("agree", |stride: &Stride| {
                or_missing(stride.agrees, |agrees| yes_or_no(agrees).to_owned())
            }),
            number(
                Column::right("frames").unit("/s"),
                Show::PerSecond,
                |stride: &Stride| stride.frames_per_s,
            ),
        ];
        let title = "strides: headers fetched one after the other; frames/s with headers only, one at a time";
        Section::new(title).table(table(readings, &self.strides)).page_note(
            "Fetched in: a header of a burst that just arrived, one after the other, so that nothing hides how far away \
             it is. Frames: one at a time, with headers all that is fetched; CPUs overlap several. Foretold for the \
             private caches; how the last level spreads lines over its slices is not documented.",
        )
    }

    /// The post's rows beside the steps that repeat them.
    fn published_section(&self) -> Section {
        type Published = fn(&PublishedRow) -> Option<f64>;
        let metrics: [(&'static Metric<_>, &str, Published); 4] = [
            (&FRAMES, "frames/s", |row| row.frames_per_s),
            (&MEMORY_READ, "MB/s read", |row| row.mem_read_mb_s),
            (&MEMORY_WRITTEN, "MB/s written", |row| row.mem_write_mb_s),
            (&CPU, "CPU %", |row| row.cpu_share),
        ];
        let mut readings = setting_readings(|row: &PublishedRow| &row.setting);
        readings[1] = Reading::new(Column::right("batch"), |row: &PublishedRow| {
            match row.setting.table {
                TableKind::None => Cell::from(quantity::MISSING),
                _ => Cell::plain(row.setting.batch as u64),
            }
        });
        for (place, (metric, unit, published)) in metrics.into_iter().enumerate() {
            let own = |row: &PublishedRow| metric.of(self.steps.get(row.step?)?);
            let pair = [
                number(Column::right("the post").unit(unit), metric.show, published),
                number(Column::right("here").unit(unit), metric.show, own),
            ];
            readings.extend(pair.map(|reading| if place > 0 { reading.wide() } else { reading }));
        }
        readings.push(Reading::new(
            Column::left("note").may_shrink(),
            |row: &PublishedRow| row.note.clone().unwrap_or_default(),
        ));
        let title = format!(
            "beside \u{201c}{}\u{201d}, which is other hardware: {}",
            self.published.title, self.published.other_hardware
        );
        let rows = table(readings, &self.published.rows).without_silent_columns();
        Section::new("")
            .note(title)
            .table(rows)
            .page_note("Context, not a comparison.")
    }

    fn unknown_section(&self) -> Section {
        let unknowns = [
            ("memory traffic", &self.unknowns.memory_traffic),
            ("cache misses", &self.unknowns.cache_misses),
        ];
        let unknowns = unknowns.into_iter();
        let lines = unknowns.filter_map(|(what, why)| Some(format!("{what}: {}", why.as_ref()?)));
        Section::new("").labelled_notes("unknown  ", lines)
    }

    fn choices_section(&self) -> Section {
        if self.conclusions.is_empty() {
            return Section::new("").note("Nothing was measured.");
        }
        let times = |choice: &Choice| Cell::shown(Some(choice.ratio.median), |_| choice.ratio.display(2));
        let readings = [
            words("choice", |choice: &Choice| choice.words.clone()),
            Reading::new(Column::right("frames").unit("times"), times),
            words("mattered", |choice: &Choice| yes_or_no(choice.mattered)),
        ];
        let section = Section::new("which choices mattered here");
        let section = self
            .conclusions
            .iter()
            .fold(section, |section, line| section.text_note("  ", line));
        section.page_table(table(readings, &self.choices)).page_note(
            "Frames/s with the choice over those without, both of one round; a choice mattered when every round \
             says the same and the median differs by a twentieth or more.",
        )
    }
}

/// The columns that name a setting.
fn setting_readings<Row: 'static>(of: fn(&Row) -> &Setting) -> Vec<Reading<'static, Row>> {
    vec![
        words("table", move |row| of(row).table_words()),
        plain("batch", move |row| of(row).batch),
        words("prefetch", move |row| of(row).prefetch_words()),
        plain("stride", move |row| of(row).stride),
        plain("threads", move |row| of(row).threads),
        words("lock", move |row| of(row).lock.to_string()),
    ]
}

const fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

/// `L1 24 of 768, L2 512 of 1,024`.
fn held_words(stride: &Stride) -> String {
    let words = |held: &Held| {
        format!(
            "L{} {} of {}",
            held.level,
            quantity::count(held.lines_held),
            quantity::count(held.lines_at_best)
        )
    };
    match stride.levels.as_slice() {
        [] => "the caches' geometry is hidden here".to_owned(),
        levels => levels.iter().map(words).collect::<Vec<_>>().join(", "),
    }
}
