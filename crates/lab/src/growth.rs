//! Pages of scaling experiments: the common tables of steps, series and trials, and the figure of growth with buckets.

use crate::asked;
use crate::columns;
use crate::document::{reasons, set_aside};
use crate::steps::{Kind, Report, Series, Shape, Step};
use crate::tried::{Trial, TrialStatus};
use corelane_measure::metric::{Measured, Metric, Show};
use corelane_measure::quantity::{self, or_missing};
use corelane_measure::statistics;
use corelane_report::diff::{self, Numbers, Run};
use corelane_report::gate::Figure;
use corelane_report::html::axis::{Linear, whole_ticks};
use corelane_report::html::figure::{figure, legend, y_ticks};
use corelane_report::html::markup::Markup;
use corelane_report::html::plot::{Line, Plot, Point, Tick};
use corelane_report::html::tiles::Tile;
use corelane_report::page::{Caveat, Page, Rendered, Section};
use corelane_report::reading::{Reading, metric, table};
use corelane_report::table::{Cell, Column, Table};

/// Ticks of a y axis: about as many as stay apart on a phone.
pub(crate) const Y_STEPS: usize = 4;

/// Labels of an x axis, for the same reason.
pub(crate) const MOST_X_LABELS: usize = 8;

/// Caption of figures of medians.
pub(crate) const MEDIANS: &str = "Medians of the valid trials; bars span the lowest and the highest round.";

/// The specific parts of a scaling experiment's page.
pub trait Shown: Kind {
    /// The headline, from the last measured step of the main series.
    fn headline(report: &Report<Self>, step: &Step<Self>) -> String;

    /// Key numbers of that step.
    fn tiles(report: &Report<Self>, step: &Step<Self>) -> Vec<Tile>;

    /// Sections before the trials' status.
    fn sections(report: &Report<Self>, page: &mut Page);

    /// The last sections.
    fn closing(report: &Report<Self>, page: &mut Page);
}

impl<K: Shown> Rendered for Report<K> {
    fn page(&self) -> Page {
        let mut page = self.head.page(&format!("{} scaling", self.kind.name()));
        page.verdict.clone_from(&self.limit.sentence);
        page.evidence.clone_from(&self.limit.evidence);
        let last = self.last_step();
        page.headline = last.map_or("Nothing was measured".to_owned(), |step| K::headline(self, step));
        page.tiles = last.map_or_else(Vec::new, |step| K::tiles(self, step));
        let doubts = self.limit.doubts.iter();
        page.caveats
            .extend(doubts.map(|doubt| Caveat::from(format!("Doubtful: {doubt}."))));
        let trials = self.trials_section(&mut page);
        K::sections(self, &mut page);
        page.section(trials);
        page.section(self.unknown_section());
        page.section(Section::new("").note(self.scaling.sentence().unwrap_or_default()));
        K::closing(self, &mut page);
        // Cannot fail: the value was read from JSON.
        let pretty = |value| serde_json::to_string_pretty(value).unwrap_or_default();
        page.documents = vec![
            ("Plan", pretty(&self.plan)),
            ("Steering document", pretty(&self.steering)),
        ];
        page
    }

    fn table(&self) -> Table {
        let mut readings = K::columns();
        readings.extend(self.kind.metrics().iter().map(|of| metric(of)));
        table(readings, &self.steps)
    }

    fn compared(&self) -> Option<Run> {
        let compared = || self.kind.metrics().iter().filter(|metric| metric.compared);
        let numbers = |index: usize| {
            let of = |(place, metric): (usize, &&'static Metric<K::Trial>)| {
                Numbers::of(metric, self.valid_trials(index), place == 0)
            };
            compared().enumerate().map(of).collect()
        };
        let shape = K::columns();
        let step = |(index, step): (usize, &Step<K>)| diff::Step {
            key: asked::of_shape(&step.shape),
            shape: shape.iter().map(|reading| reading.cell(step)).collect(),
            numbers: numbers(index),
        };
        Some(Run {
            asked: asked::of_plan(&self.plan),
            shape: shape.iter().map(Reading::column).collect(),
            steps: self.steps.iter().enumerate().map(step).collect(),
            ..self.head.compared()
        })
    }

    fn figures(&self) -> Vec<(Figure, Option<f64>)> {
        columns::figures(self.kind.metrics(), self.last_step())
    }

    fn proved(&self) -> Result<(), String> {
        let measured = |trial: &K::Trial| {
            let tried = trial.tried();
            tried.is_valid() || tried.status == TrialStatus::GeneratorLimited
        };
        match self.head.interrupted || self.trials.iter().any(measured) {
            true => Ok(()),
            false => Err("no trial gave a result: see why each failed".to_owned()),
        }
    }
}

impl<K: Kind> Report<K> {
    /// The trials' status and what was skipped; in text at this place, on a page before the figures.
    fn trials_section(&self, page: &mut Page) -> Section {
        let mut section = set_aside(&self.head, self.trials.iter().map(Trial::tried), page);
        for reason in self.kind.left_out() {
            section = section.text_note("left out ", reason);
            let about = "left out".to_owned();
            page.caveats.push(Caveat {
                about,
                sentence: format!("{reason}."),
            });
        }
        section
    }

    /// Values that could not be measured in the main series, one paragraph per reason.
    fn unknown_section(&self) -> Section {
        let main = self.main_series().map_or_else(Vec::new, |series| series.0);
        let unknown = main.iter().flat_map(|step| &step.summed.unknown);
        let unknown = unknown.filter(|(field, _)| self.kind.is_news(field));
        let lines = reasons(unknown).into_iter();
        lines.fold(Section::new(""), |section, line| {
            section.text_note("unknown  ", line)
        })
    }

    /// All series at their largest step, compared with exact steering with aligned clients.
    pub(crate) fn controls_table<'a>(
        &'a self,
        rate: Reading<'a, Step<K>>,
        more: impl IntoIterator<Item = Reading<'a, Step<K>>>,
    ) -> Table {
        let of_exact = |step: &Step<K>| {
            let reference = self.steps.iter().find(|other| {
                let (own, other) = (&step.shape, &other.shape);
                other.is_plain() && other.is_exact() && other.same_load(own) && other.active() == own.active()
            });
            statistics::ratio(self.rate().of(step)?, self.rate().of(reference?)?)
        };
        let mut readings: Vec<Reading<'a, Step<K>>> = K::columns();
        readings.push(rate);
        readings.push(Reading::new(Column::right("of exact"), move |step: &Step<K>| {
            Cell::number(of_exact(step), Show::Ratio)
        }));
        readings.extend(more);
        let series = self.series();
        table(
            readings,
            series.iter().filter_map(|series| series.0.last().copied()),
        )
    }

    /// A table with several rows per step: columns that name the step, and columns of each part.
    pub(crate) fn parts_table<const N: usize>(
        &self,
        columns: [Column; N],
        parts: impl Fn(usize, &Step<K>) -> Vec<[Cell; N]>,
    ) -> Table {
        let shape = K::columns();
        let mut all = Table::new(shape.iter().map(Reading::column).chain(columns).collect());
        for (index, step) in self.steps.iter().enumerate() {
            for cells in parts(index, step) {
                all.row(shape.iter().map(|of| of.cell(step)).chain(cells));
            }
        }
        all
    }
}

/// The column of the number of active buckets.
pub(crate) fn active<K: Kind>() -> Reading<'static, Step<K>> {
    Reading::new(Column::right("N").key("buckets_active"), |step: &Step<K>| {
        Cell::count(step.shape.active() as u64)
    })
}

/// The column of the number of valid trials.
pub(crate) fn trials<K: Kind>() -> Reading<'static, Step<K>> {
    Reading::new(Column::right("trials"), |step: &Step<K>| {
        Cell::count(step.summed.trials as u64)
    })
}

/// A column of a share of CPU time, in whole percent.
pub(crate) fn share<K: Kind>(header: &str, of: fn(&Step<K>) -> Option<f64>) -> Reading<'static, Step<K>> {
    Reading::new(Column::right(header).unit("%"), move |step: &Step<K>| {
        Cell::number(of(step), Show::WholeShare)
    })
}

/// A metric's value of a step in words.
pub(crate) fn words<K: Kind>(metric: &Metric<K::Trial>, step: &Step<K>) -> String {
    or_missing(metric.of(step), |value| metric.show.words(value))
}

/// The key number of growth.
pub(crate) fn linearity_tile<K: Kind>(linearity: &Metric<K::Trial>, step: &Step<K>) -> Tile {
    let spread = linearity.range(step).filter(|spread| spread.count > 1);
    let half_range =
        spread.map(|spread| format!("\u{b1} {:.2}, {} rounds", spread.half_range(), spread.count));
    ("linearity", words(linearity, step), half_range)
}

/// `bucket` or `buckets`.
pub(crate) const fn buckets(count: usize) -> &'static str {
    if count == 1 { "bucket" } else { "buckets" }
}

/// The median of durations, beside their 99th percentile.
pub(crate) fn median_words<K: Kind>(metric: &Metric<K::Trial>, step: &Step<K>) -> Option<String> {
    let durations = metric.durations(step)?;
    Some(format!("median {}", quantity::duration(durations.p50_ns as f64)))
}

/// A plot of a metric against active buckets, one line per series.
pub(crate) struct Growth<'a, K: Kind> {
    pub(crate) title: String,
    pub(crate) caption: &'a str,
    pub(crate) y_title: String,
    pub(crate) metric: &'static Metric<K::Trial>,
    pub(crate) series: &'a [Series<'a, K>],
    /// A value in words, and on the axis.
    pub(crate) show: fn(f64) -> String,
    pub(crate) brief: fn(f64) -> String,
    /// The value at one bucket, for the guide line of proportional growth.
    pub(crate) ideal: Option<f64>,
}

impl<K: Kind> Growth<'_, K> {
    /// Draws the figure; empty without measurements.
    pub(crate) fn draw(&self) -> Markup {
        let steps = || self.series.iter().flat_map(|series| series.0.iter().copied());
        let last = steps().map(|step| step.shape.active()).max().unwrap_or(1).max(1);
        let highest = |step| match self.metric.range(step) {
            Some(spread) => Some(spread.maximum),
            None => self.metric.of(step),
        };
        let values = steps().filter_map(highest).filter(|value| value.is_finite());
        let most = values.fold(self.ideal.map_or(0.0, |one| one * last as f64), f64::max);
        if most <= 0.0 {
            return Markup::default();
        }
        let scale = Linear::to(most, Y_STEPS);
        let mut plot = bucket_plot(last, &scale, self.brief);
        plot.y_title.clone_from(&self.y_title);
        let words: Vec<String> = self.series.iter().map(|series| self.words(series)).collect();
        plot.description = format!("{}, {}: {}", self.y_title, self.title, words.join("; "));
        let mut entries: Vec<_> = (self.series.iter())
            .map(|series| (series.shape().class(), series.shape().who()))
            .collect();
        if let Some(one) = self.ideal {
            let guide = |buckets: usize| Point {
                x: bucket_place(buckets, last),
                y: scale.place(one * buckets as f64),
                range: None,
                tip: String::new(),
            };
            plot.lines.push(Line {
                class: "ideal".to_owned(),
                points: vec![guide(1), guide(last)],
                marked: false,
            });
            entries.push(("ideal".to_owned(), "in proportion to one bucket".to_owned()));
        }
        let lines = self
            .series
            .iter()
            .rev()
            .map(|series| self.line(series, last, &scale));
        plot.lines.extend(lines);
        figure(
            &self.title,
            self.caption,
            plot.draw().with(legend(entries.into_iter())),
        )
    }

    fn words(&self, series: &Series<'_, K>) -> String {
        let value = |step: &&Step<K>| {
            let value = or_missing(self.metric.of(*step), self.show);
            format!("{value} at {}", step.shape.active())
        };
        let values: Vec<String> = series.0.iter().map(value).collect();
        format!("{}: {}", series.shape().who(), values.join(", "))
    }

    fn line(&self, series: &Series<'_, K>, last: usize, scale: &Linear) -> Line {
        let at = |step: &Step<K>, value: f64| {
            let active = step.shape.active();
            let (title, value) = (series.shape().title(), (self.show)(value));
            (
                bucket_place(active, last),
                format!("{title}, {active} active: {value}"),
            )
        };
        line(series.shape().class(), self.metric, &series.0, scale, at)
    }
}

/// The line of a metric, with the range of the rounds; `at` gives the place and the tip of a row and its value.
pub(crate) fn line<T, Row: Measured>(
    class: String,
    metric: &Metric<T>,
    rows: &[&Row],
    scale: &Linear,
    at: impl Fn(&Row, f64) -> (f64, String),
) -> Line {
    let point = |row: &&Row| {
        let value = metric.of(*row)?;
        let (x, tip) = at(row, value);
        let range = metric.range(*row);
        Some(Point {
            x,
            y: scale.place(value),
            range: range.map(|spread| (scale.place(spread.minimum), scale.place(spread.maximum))),
            tip,
        })
    };
    Line {
        class,
        points: rows.iter().filter_map(point).collect(),
        marked: true,
    }
}

/// A plot over numbers of active buckets, still without lines.
fn bucket_plot(last: usize, scale: &Linear, show: impl Fn(f64) -> String) -> Plot {
    let tick = |buckets: usize| Tick {
        place: bucket_place(buckets, last),
        label: buckets.to_string(),
    };
    Plot {
        x_title: "active buckets".to_owned(),
        x_ticks: whole_ticks(last, MOST_X_LABELS).into_iter().map(tick).collect(),
        y_ticks: y_ticks(scale, show),
        ..Plot::default()
    }
}

/// The x position of a number of buckets: centred if there is one, otherwise slightly inside the edges.
fn bucket_place(buckets: usize, last: usize) -> f64 {
    if last <= 1 {
        0.5
    } else {
        0.04 + 0.92 * (buckets.saturating_sub(1)) as f64 / (last - 1) as f64
    }
}
