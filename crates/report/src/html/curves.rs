//! Figures of durations and rates: HDR percentiles on a logarithmic axis, a histogram, and lines over the run's time.

use super::axis::{Decades, Linear, whole_ticks};
use super::figure::{figure, legend, linear_ticks};
use super::markup::Markup;
use super::plot::{Column, Line, Plot, Point, Tick};
use corelane_measure::histogram::Histogram;
use corelane_measure::quantity;

/// Ticks of a linear axis: about as many as stay apart on a phone.
const STEPS: usize = 4;

/// Points of a percentile curve for each nine.
const POINTS_PER_NINE: usize = 16;

/// Rarer percentiles are not drawn.
const MOST_NINES: usize = 6;

/// Rarer percentiles are not labelled: the labels would touch each other.
const NAMED_NINES: usize = 5;

/// Columns of a histogram.
const COLUMNS: usize = 48;

/// Lines of a figure: more would hide each other.
const MOST_LINES: usize = 4;

/// Numbered lines, at most four, evenly spaced: the style sheet's class of each, and the item.
pub fn distinct<T>(items: Vec<T>) -> Vec<(String, T)> {
    let shown = whole_ticks(items.len(), MOST_LINES);
    let is_shown = |index: &usize| shown.contains(&(index + 1));
    let kept = items.into_iter().enumerate().filter(|(index, _)| is_shown(index));
    kept.enumerate()
        .map(|(place, (_, item))| (format!("step{place}"), item))
        .collect()
}

/// One line: its class, its words in the legend, and its data.
pub struct Curve<Data> {
    /// The style sheet's class.
    pub class: String,
    /// The words in the legend.
    pub words: String,
    /// What is drawn.
    pub data: Data,
}

/// Durations by percentile, both axes logarithmic: equal distances stand for ten times rarer and ten times longer.
/// Empty without durations.
#[must_use]
pub fn percentiles(title: &str, caption: &str, y_title: &str, curves: &[Curve<Histogram>]) -> Markup {
    let all = || curves.iter().map(|curve| &curve.data);
    let most = all().map(Histogram::count).max().unwrap_or(0);
    let ends = |percent| {
        all()
            .filter_map(move |one| one.percentile(percent))
            .map(|time| time as f64)
    };
    let Some(scale) = decades(ends(0.0), ends(100.0)) else {
        return Markup::default();
    };
    let axis = Nines::up_to(most);
    let tick = |share: &f64| Tick {
        place: axis.place(*share),
        label: percent(*share).trim_end_matches(" %").to_owned(),
    };
    let line = |curve: &Curve<Histogram>| Line {
        class: curve.class.clone(),
        points: axis.points(curve, &scale),
        marked: true,
    };
    let plot = Plot {
        description: format!("{title}: percentiles; the table has the figures"),
        x_title: "percentile".to_owned(),
        y_title: y_title.to_owned(),
        x_ticks: axis.named.iter().map(tick).collect(),
        y_ticks: time_ticks(&scale),
        lines: curves.iter().rev().map(line).collect(),
        ..Plot::default()
    };
    drawn(title, caption, &plot, curves)
}

/// An axis of shares on which each nine takes as much room as the one before: 90 %, 99 %, 99.9 %.
struct Nines {
    most: f64,
    /// The shares that are labelled.
    named: Vec<f64>,
}

impl Nines {
    /// The axis for so many durations.
    fn up_to(count: u64) -> Self {
        let most = (count as f64).log10().clamp(1.0, MOST_NINES as f64);
        let nines = (1..=NAMED_NINES).map(|nine| 1.0 - 0.1f64.powi(nine as i32));
        let named = [0.5].into_iter().chain(nines);
        Self {
            most,
            named: named.filter(|share| Self::of(*share) <= most + 1e-9).collect(),
        }
    }

    fn of(share: f64) -> f64 {
        -(1.0 - share).log10()
    }

    fn place(&self, share: f64) -> f64 {
        0.04 + 0.92 * (Self::of(share) / self.most).min(1.0)
    }

    /// The curve as far as its own count reaches, with a tooltip at each labelled share.
    fn points(&self, curve: &Curve<Histogram>, scale: &Decades) -> Vec<Point> {
        let own = (curve.data.count().max(1) as f64).log10().min(self.most);
        let fine = (0..=(own * POINTS_PER_NINE as f64) as usize)
            .map(|point| 1.0 - 10f64.powf(-(point as f64) / POINTS_PER_NINE as f64));
        let mut shares: Vec<f64> = fine.chain(self.named.iter().copied()).collect();
        shares.retain(|share| Self::of(*share) <= own + 1e-9);
        shares.sort_by(f64::total_cmp);
        let point = |share: f64| {
            let time = curve.data.percentile(share * 100.0)? as f64;
            let tip = self.named.contains(&share).then(|| {
                let (share, time) = (percent(share), quantity::duration(time));
                format!("{}: {share} of all within {time}", curve.words)
            });
            Some(Point {
                x: self.place(share),
                y: scale.place(time),
                range: None,
                tip: tip.unwrap_or_default(),
            })
        };
        shares.into_iter().filter_map(point).collect()
    }
}

/// How many durations there were of each length; the axis is logarithmic. Empty without durations.
#[must_use]
pub fn histogram(title: &str, caption: &str, x_title: &str, durations: &Histogram) -> Markup {
    let ends = |percent| durations.percentile(percent).map(|time| time as f64);
    let Some(scale) = decades(ends(0.0).into_iter(), ends(100.0).into_iter()) else {
        return Markup::default();
    };
    let mut counts = [0u64; COLUMNS];
    for (nanoseconds, count) in durations.recorded() {
        let column = (scale.place(nanoseconds as f64) * COLUMNS as f64) as usize;
        counts[column.min(COLUMNS - 1)] += count;
    }
    let all = durations.count() as f64;
    let tallest = counts.iter().max().map_or(0.0, |most| *most as f64 / all);
    let shares = Linear::to(tallest * 100.0, STEPS);
    let column = |(index, count): (usize, &u64)| {
        let share = *count as f64 / all;
        let [from, to] = [index, index + 1].map(|edge| scale.at(edge as f64 / COLUMNS as f64));
        let [from, to] = [from, to].map(quantity::duration);
        let tip = format!(
            "{from} to {to}: {}, {}",
            quantity::count(*count),
            quantity::percent(share)
        );
        Column {
            x: (index as f64 + 0.5) / COLUMNS as f64,
            width: 0.9 / COLUMNS as f64,
            parts: vec![("fill exact".to_owned(), shares.place(share * 100.0), tip)],
            range: None,
        }
    };
    let plot = Plot {
        description: format!("{title}: share of durations by length"),
        x_title: x_title.to_owned(),
        y_title: "share of all".to_owned(),
        x_ticks: time_ticks(&scale),
        y_ticks: linear_ticks(&shares, |share| format!("{} %", quantity::metric_brief(share))),
        columns: counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(column)
            .collect(),
        lines: Vec::new(),
    };
    figure(title, caption, plot.draw())
}

/// Seconds and values.
pub type Points = Vec<(f64, f64)>;

/// Rates over the seconds of a run, from 0. Empty without points.
#[must_use]
pub fn rates(title: &str, caption: &str, y_title: &str, curves: &[Curve<Points>]) -> Markup {
    let most = values(curves).fold(0.0, f64::max);
    if most <= 0.0 {
        return Markup::default();
    }
    let scale = Linear::to(most, STEPS);
    let ticks = linear_ticks(&scale, quantity::metric_brief);
    let place = |value| scale.place(value);
    over_time((title, caption, y_title), ticks, place, quantity::metric, curves)
}

/// Durations over the seconds of a run, on a logarithmic axis. Empty without points.
#[must_use]
pub fn times(title: &str, caption: &str, y_title: &str, curves: &[Curve<Points>]) -> Markup {
    let Some(scale) = decades(values(curves), values(curves)) else {
        return Markup::default();
    };
    let place = |value| scale.place(value);
    over_time(
        (title, caption, y_title),
        time_ticks(&scale),
        place,
        quantity::duration,
        curves,
    )
}

fn values(curves: &[Curve<Points>]) -> impl Iterator<Item = f64> {
    let all = curves.iter().flat_map(|curve| &curve.data);
    all.map(|(_, value)| *value).filter(|value| value.is_finite())
}

fn over_time(
    (title, caption, y_title): (&str, &str, &str),
    y_ticks: Vec<Tick>,
    place: impl Fn(f64) -> f64,
    show: fn(f64) -> String,
    curves: &[Curve<Points>],
) -> Markup {
    let ends = curves.iter().flat_map(|curve| &curve.data).map(|(at, _)| *at);
    let seconds = Linear::to(ends.fold(0.0, f64::max), STEPS);
    let line = |curve: &Curve<Points>| Line {
        class: curve.class.clone(),
        points: (curve.data.iter())
            .map(|(at, value)| Point {
                x: seconds.place(*at),
                y: place(*value),
                range: None,
                tip: String::new(),
            })
            .collect(),
        marked: false,
    };
    let last = |curve: &Curve<Points>| {
        let last = curve.data.last().map(|(_, value)| show(*value));
        format!("{}: {} at the end", curve.words, last.unwrap_or_default())
    };
    let plot = Plot {
        description: format!(
            "{title}; {}",
            curves.iter().map(last).collect::<Vec<_>>().join("; ")
        ),
        x_title: "seconds".to_owned(),
        y_title: y_title.to_owned(),
        x_ticks: linear_ticks(&seconds, quantity::metric_brief),
        y_ticks,
        // The first line is whole, the others are dashed: on top, they hide none.
        lines: curves.iter().map(line).collect(),
        ..Plot::default()
    };
    drawn(title, caption, &plot, curves)
}

/// The figure, with a legend if there are several lines.
fn drawn<Data>(title: &str, caption: &str, plot: &Plot, curves: &[Curve<Data>]) -> Markup {
    let entries = (curves.iter()).map(|curve| (curve.class.clone(), curve.words.clone()));
    let legend = match curves.len() {
        0 | 1 => Markup::default(),
        _ => legend(entries),
    };
    figure(title, caption, plot.draw().with(legend))
}

/// A logarithmic scale from the smallest of some durations to the largest of others; `None` without any.
fn decades(low: impl Iterator<Item = f64>, high: impl Iterator<Item = f64>) -> Option<Decades> {
    let low = low.reduce(f64::min)?;
    Some(Decades::over(low.max(1.0), high.fold(low, f64::max)))
}

fn time_ticks(scale: &Decades) -> Vec<Tick> {
    let tick = |time| Tick {
        place: scale.place(time),
        label: quantity::duration(time),
    };
    scale.ticks().into_iter().map(tick).collect()
}

/// `99.9 %`, without rounding to 100 %.
fn percent(share: f64) -> String {
    let digits = format!("{:.4}", share * 100.0);
    format!("{} %", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times_of(nanoseconds: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        nanoseconds.into_iter().for_each(|time| histogram.record(time));
        histogram
    }

    fn curve<Data>(data: Data) -> Curve<Data> {
        Curve {
            class: "step0".to_owned(),
            words: "one".to_owned(),
            data,
        }
    }

    #[test]
    fn percentiles_are_labelled_as_far_as_there_are_durations_and_times_in_decades() {
        let curves = [curve(times_of((1..=1_000).map(|step| step * 10_000)))];
        let html = percentiles("Latency", "", "latency", &curves).into_string();
        for label in [
            ">50<",
            ">90<",
            ">99<",
            ">99.9<",
            ">10 \u{b5}s<",
            ">1 ms<",
            ">10 ms<",
        ] {
            assert!(html.contains(label), "{label}: {html}");
        }
        assert!(!html.contains(">99.99<"), "{html}");
        assert!(html.contains("one: 99 % of all within 9.9"), "{html}");
        assert!(percentiles("", "", "", &[curve(Histogram::new())]).is_empty());
    }

    #[test]
    fn a_histogram_shows_each_share() {
        let html = histogram("", "", "", &times_of([1_000; 3].into_iter().chain([900_000]))).into_string();
        assert!(html.contains(": 3, 75.0 %"), "{html}");
        assert!(html.contains(": 1, 25.0 %"), "{html}");
        assert!(histogram("", "", "", &Histogram::new()).is_empty());
    }

    #[test]
    fn no_more_lines_are_drawn_than_stay_distinct() {
        let kept = distinct((1..=16).collect());
        let (classes, items): (Vec<String>, Vec<i32>) = kept.into_iter().unzip();
        assert_eq!(classes, ["step0", "step1", "step2", "step3"]);
        assert_eq!(items, [1, 5, 9, 16]);
        assert_eq!(distinct(vec![1, 2]).len(), 2);
    }
}
