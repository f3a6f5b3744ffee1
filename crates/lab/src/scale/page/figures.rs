//! Figures of growth with buckets: rates and costs by number, distributions of durations, rates over time.

use crate::plots::{MOST_X_LABELS, Y_STEPS, line};
use crate::scale::steps::{Kind, Report, Series, Shape, Step};
use corelane_measure::metric::Metric;
use corelane_measure::quantity::{self, or_missing};
use corelane_measure::time_series::TimeSeries;
use corelane_report::html::axis::{Linear, whole_ticks};
use corelane_report::html::bars::Bar;
use corelane_report::html::curves::{self, Curve, Points};
use corelane_report::html::figure::{figure, legend, linear_ticks};
use corelane_report::html::markup::Markup;
use corelane_report::html::plot::{self, Line, Plot, Point, Tick};
use std::collections::BTreeSet;

impl<K: Kind> Report<K> {
    /// The distribution of durations, a line per number of active buckets; empty if there are none.
    pub(crate) fn distribution(
        &self,
        series: &Series<'_, K>,
        metric: &'static Metric<K::Trial>,
        [title, caption, y_title]: [&str; 3],
    ) -> Markup {
        let durations = |step: &&Step<K>| {
            let merged = metric.merged(&self.trials_of(step))?;
            Some((active_words(step), merged))
        };
        let measured = series.0.iter().filter_map(durations).collect();
        curves::percentiles(title, caption, y_title, &by_active(measured))
    }

    /// The rate over time, a line per number of active buckets: that of the round with the median rate. `of` is what a
    /// trial recorded, `unit` converts it.
    pub(crate) fn over_time(
        &self,
        series: &Series<'_, K>,
        of: fn(&K::Trial) -> &TimeSeries,
        (y_title, unit): (&str, f64),
    ) -> Markup {
        let recorded = |step: &&Step<K>| {
            let mut trials = self.trials_of(step);
            let rate = |trial: &&K::Trial| self.rate().of_trial(trial).unwrap_or(0.0);
            trials.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
            let rates = &of(trials.get(trials.len() / 2)?).rates;
            let points: Points = (rates.iter())
                .map(|rate| (rate.until_s, rate.per_second * unit))
                .collect();
            (!points.is_empty()).then(|| (active_words(step), points))
        };
        let measured = series.0.iter().filter_map(recorded).collect();
        let caption = "The round with the median rate; an even line means that nothing disturbed it.";
        curves::rates("Rate over time", caption, y_title, &by_active(measured))
    }
}

/// A curve per number of active buckets.
fn by_active<D>(measured: Vec<(String, D)>) -> Vec<Curve<D>> {
    let curve = |(class, (words, data))| Curve { class, words, data };
    curves::distinct(measured).into_iter().map(curve).collect()
}

/// `2 buckets`.
pub(crate) fn active_words<K: Kind>(step: &Step<K>) -> String {
    let active = step.shape.active();
    format!("{active} {}", step.shape.places(active))
}

/// A bar of how CPU time was used: shares in words as its value, and shares with their classes as its parts.
pub(crate) fn cpu_bar(label: String, shown: &[(&str, f64)], parts: &[(&str, &str, f64)]) -> Bar {
    let words = |what: &str, share: f64| format!("{what} {}", quantity::percent(share));
    let value: Vec<String> = shown.iter().map(|(what, share)| words(what, *share)).collect();
    let part = |(class, what, share): &(&str, &str, f64)| (fill(class), *share, words(what, *share));
    Bar {
        label,
        value: value.join(" \u{b7} "),
        parts: parts.iter().map(part).collect(),
    }
}

/// The legend of filled areas: class and words.
pub(crate) fn areas(kinds: &[(&str, &str)]) -> Markup {
    legend(
        kinds
            .iter()
            .map(|(class, words)| (fill(class), (*words).to_owned())),
    )
}

fn fill(class: &str) -> String {
    format!("fill {class}")
}

/// A plot of a metric against active buckets, one line per series.
pub(crate) struct Growth<'a, K: Kind> {
    title: String,
    /// What the metric is; empty if the axis says it.
    about: String,
    /// What a reader may wonder about.
    remark: Option<String>,
    y_title: String,
    metric: &'static Metric<K::Trial>,
    series: &'a [Series<'a, K>],
    /// Whether growth in proportion is the best: it is drawn as a line from one bucket of the judged series.
    proportional: bool,
}

impl<'a, K: Kind> Growth<'a, K> {
    /// Of the rate that steps are judged by.
    pub(crate) fn rate(
        report: &Report<K>,
        title: String,
        y_title: String,
        series: &'a [Series<'a, K>],
    ) -> Self {
        Self {
            title,
            about: String::new(),
            remark: report.crossed_at_one(series),
            y_title,
            metric: report.rate(),
            series,
            proportional: true,
        }
    }

    /// Of the server's CPU time for `each` event that it `did`: for each frame seen.
    pub(crate) fn cost(
        title: String,
        [each, did]: [&str; 2],
        metric: &'static Metric<K::Trial>,
        series: &'a [Series<'a, K>],
    ) -> Self {
        Self {
            title,
            about: format!(
                "Workers and receive path together, for each {each} {did}; where it stays the same, buckets do not slow each \
                 other down."
            ),
            remark: None,
            y_title: format!("CPU \u{b5}s per {each}"),
            metric,
            series,
            proportional: false,
        }
    }

    /// Draws the figure; empty without measurements.
    pub(crate) fn draw(&self) -> Markup {
        let steps = || self.series.iter().flat_map(|series| series.0.iter().copied());
        let last = steps().map(|step| step.shape.active()).max().unwrap_or(1).max(1);
        let highest = |step| match self.metric.range(step) {
            Some(spread) => Some(spread.maximum),
            None => self.metric.of(step),
        };
        let values = steps().filter_map(highest).filter(|value| value.is_finite());
        let base = self.base().filter(|_| last > 1);
        let most = values.fold(base.map_or(0.0, |(_, one)| one * last as f64), f64::max);
        if most <= 0.0 {
            return Markup::default();
        }
        let scale = Linear::to(most, Y_STEPS);
        let counts: BTreeSet<usize> = steps().map(|step| step.shape.active()).collect();
        let places = Places::new(&counts);
        let mut plot = places.plot(&scale);
        let aims = steps().next().map_or("buckets", |step| step.shape.places(2));
        plot.x_title = format!("active {aims}");
        plot.y_title.clone_from(&self.y_title);
        let words: Vec<String> = self.series.iter().map(|series| self.words(series)).collect();
        plot.description = format!("{}, {}: {}", self.y_title, self.title, words.join("; "));
        let mut entries: Vec<_> = (self.series.iter())
            .map(|series| (series.shape().class(), series.shape().who()))
            .collect();
        if let Some((index, one)) = base {
            let guide = |buckets: usize| Point {
                x: self.beside(index, &places, buckets),
                y: scale.place(one * buckets as f64),
                range: None,
                tip: String::new(),
            };
            plot.lines.push(Line {
                class: "ideal".to_owned(),
                points: vec![guide(1), guide(last)],
                marked: false,
            });
            let one = self.series[index].shape().places(1);
            entries.push(("ideal".to_owned(), format!("in proportion to one {one}")));
        }
        let each = || self.series.iter().enumerate().rev();
        match places {
            Places::Even { .. } => {
                plot.lines.extend(each().map(|of| self.line(of, &places, &scale)));
            }
            Places::Few(_) => {
                plot.columns = each().flat_map(|of| self.columns(of, &places, &scale)).collect();
            }
        }
        figure(
            &self.title,
            &self.caption(),
            plot.draw().with(legend(entries.into_iter())),
        )
    }

    fn caption(&self) -> String {
        let steps = || self.series.iter().flat_map(|series| series.0.iter().copied());
        let has_range = |step| self.metric.range(step).is_some_and(|spread| spread.count > 1);
        let rounds = match steps().any(has_range) {
            true => "Medians of the valid trials; error bars span the lowest and the highest round.",
            false if steps().any(|step| step.summed.trials > 1) => "Medians of the valid trials.",
            false => "One trial per step.",
        };
        let remark = self.remark.as_deref().unwrap_or_default();
        format!("{} {rounds} {remark}", self.about).trim().to_owned()
    }

    /// The judged series that begins at one bucket: its index, and what it does there.
    fn base(&self) -> Option<(usize, f64)> {
        let mut series = self.series.iter().enumerate().filter(|_| self.proportional);
        series.find_map(|(index, series)| {
            let one = series.0.iter().find(|step| step.shape.active() == 1)?;
            let one = self.metric.of(*one).filter(|one| one.is_finite())?;
            series.shape().is_judged().then_some((index, one))
        })
    }

    /// A value in words.
    fn value(&self, step: &Step<K>) -> String {
        or_missing(self.metric.of(step), |value| self.metric.show.words(value))
    }

    fn words(&self, series: &Series<'_, K>) -> String {
        let value = |step: &&Step<K>| format!("{} at {}", self.value(step), step.shape.active());
        let values: Vec<String> = series.0.iter().map(value).collect();
        format!("{}: {}", series.shape().who(), values.join(", "))
    }

    /// The place of a step beside those of the other series, and its tooltip.
    fn at(&self, (index, series): (usize, &Series<'_, K>), places: &Places, step: &Step<K>) -> (f64, String) {
        let (title, value) = (series.shape().title(), self.value(step));
        let tip = format!("{title}, {}: {value}", active_words(step));
        (self.beside(index, places, step.shape.active()), tip)
    }

    /// The place of a series at a number of buckets, beside the other series.
    fn beside(&self, index: usize, places: &Places, active: usize) -> f64 {
        let aside = index as f64 - (self.series.len() - 1) as f64 / 2.0;
        places.of(active) + aside * places.apart(self.series.len())
    }

    fn line(&self, of: (usize, &Series<'_, K>), places: &Places, scale: &Linear) -> Line {
        let at = |step: &Step<K>, _| self.at(of, places, step);
        line(of.1.shape().class(), self.metric, &of.1.0, scale, at)
    }

    fn columns(&self, of: (usize, &Series<'_, K>), places: &Places, scale: &Linear) -> Vec<plot::Column> {
        let class = of.1.shape().class();
        let line = self.line(of, places, scale);
        let column = |point: Point| plot::Column {
            x: point.x,
            width: places.apart(self.series.len()) * 0.85,
            parts: vec![(class.clone(), point.y, point.tip)],
            range: point.range,
        };
        line.points.into_iter().map(column).collect()
    }
}

/// Where numbers of active buckets stand on the x axis. One or two are columns: a line between two points would show
/// values that were not measured.
enum Places {
    /// Groups of columns, one per number.
    Few(Vec<usize>),
    /// In proportion, up to `last`.
    Even { last: usize },
}

/// Groups of columns at most.
const FEW: usize = 2;

/// The share of its place that a group of columns takes.
const GROUP: f64 = 0.72;

impl Places {
    fn new(counts: &BTreeSet<usize>) -> Self {
        match counts.last() {
            Some(last) if counts.len() > FEW => Self::Even { last: *last },
            _ => Self::Few(counts.iter().copied().collect()),
        }
    }

    /// The x position of a number of buckets, slightly inside the edges.
    fn of(&self, buckets: usize) -> f64 {
        match self {
            Self::Few(counts) => {
                let place = counts.iter().position(|count| *count == buckets).unwrap_or(0);
                (place as f64 + 0.5) / counts.len() as f64
            }
            Self::Even { last } => 0.04 + 0.92 * (buckets.saturating_sub(1)) as f64 / (last - 1) as f64,
        }
    }

    /// The distance of the series at one number of buckets.
    fn apart(&self, series: usize) -> f64 {
        match self {
            Self::Few(counts) => GROUP / (counts.len() * series) as f64,
            // Wide enough that error bars do not hide each other.
            Self::Even { last } => (0.025_f64).min(0.5 / (last * series) as f64),
        }
    }

    /// A plot over numbers of active buckets, still without lines and columns.
    fn plot(&self, scale: &Linear) -> Plot {
        let tick = |buckets: usize| Tick {
            place: self.of(buckets),
            label: buckets.to_string(),
        };
        let ticks = match self {
            Self::Few(counts) => counts.clone(),
            Self::Even { last } => whole_ticks(*last, MOST_X_LABELS),
        };
        Plot {
            x_ticks: ticks.into_iter().map(tick).collect(),
            y_ticks: linear_ticks(scale, quantity::metric_brief),
            ..Plot::default()
        }
    }
}
