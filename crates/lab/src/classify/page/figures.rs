//! Plots of frames a second: against the batch by table, against the batch by prefetching, and against threads by lock.

use crate::classify::document::{
    ClassifyReport, LockKind, PrefetchKind, Setting, Step, TableKind, published,
};
use crate::classify::metrics::FRAMES;
use corelane_measure::quantity;
use corelane_report::html::axis::Linear;
use corelane_report::html::figure::{figure, legend, y_ticks};
use corelane_report::html::markup::Markup;
use corelane_report::html::plot::{Line, Plot, Point, Tick};

/// Ticks of a y axis: about as many as stay apart on a phone.
const Y_STEPS: usize = 4;

/// Every figure for which there are steps.
pub(super) fn all(report: &ClassifyReport) -> Markup {
    let [few, many] = published::BUCKETS;
    let of = |table: TableKind, buckets: Option<u64>, full: bool| {
        move |setting: &Setting| {
            (setting.table, setting.table_buckets, setting.entries > 0) == (table, buckets, full)
        }
    };
    let tables = [
        Series::new("exact", of(TableKind::Exact, None, true)),
        Series::new("post, 2,097,152 buckets", of(TableKind::Post, Some(many), true)),
        Series::new("post, 524,288 buckets", of(TableKind::Post, Some(few), true)),
        Series::new("post, empty", of(TableKind::Post, Some(few), false)),
    ];
    let alone = |setting: &Setting| {
        (setting.threads, setting.stride, setting.prefetch_distance) == (1, published::STRIDES[1], None)
            && setting.lock == LockKind::None
    };
    let by_table = Drawing {
        title: "Batch, by table",
        caption: "Buckets prefetched; one thread; medians, bars span the lowest and the highest round.",
        x_title: "frames of a batch",
        x: |setting| setting.batch,
    };
    let by_prefetch = Drawing {
        title: "Batch, by prefetching",
        caption: "The post\u{2019}s table, 524,288 buckets; one thread.",
        ..by_table
    };
    let prefetched = [
        ("nothing", PrefetchKind::None),
        ("headers", PrefetchKind::Header),
        ("buckets", PrefetchKind::Bucket),
        ("both", PrefetchKind::Both),
        ("buckets and arrays", PrefetchKind::BucketAndArray),
    ];
    let prefetched = prefetched.map(|(name, kind)| {
        Series::new(name, move |setting: &Setting| {
            setting.prefetch == kind && of(TableKind::Post, Some(few), true)(setting)
        })
    });
    by_table
        .draw(report, &tables, |setting| {
            alone(setting) && setting.prefetch == PrefetchKind::Bucket
        })
        .with(by_prefetch.draw(report, &prefetched, alone))
        .with(threads(report))
}

/// Threads that share a table, with and without a lock.
fn threads(report: &ClassifyReport) -> Markup {
    let drawing = Drawing {
        title: "Threads, by lock",
        caption: "Batches of 4, buckets prefetched; the post\u{2019}s table has 2,097,152 buckets.",
        x_title: "threads",
        x: |setting| setting.threads,
    };
    let locked = |lock: LockKind| {
        move |setting: &Setting| {
            setting.table_buckets == Some(published::BUCKETS[1])
                && setting.entries > 0
                && setting.lock == lock
        }
    };
    let series = [
        Series::new("exact, no lock", |setting: &Setting| {
            setting.table == TableKind::Exact
        }),
        Series::new("post, no lock", locked(LockKind::None)),
        Series::new("post, read lock a batch", locked(LockKind::ReadPerBatch)),
        Series::new("post, read lock a frame", locked(LockKind::Read)),
    ];
    drawing.draw(report, &series, |setting| {
        (setting.batch, setting.prefetch, setting.prefetch_distance) == (4, PrefetchKind::Bucket, None)
            && setting.stride == published::STRIDES[1]
    })
}

/// Steps that one line joins.
struct Series {
    name: &'static str,
    has: Box<dyn Fn(&Setting) -> bool>,
}

impl Series {
    fn new(name: &'static str, has: impl Fn(&Setting) -> bool + 'static) -> Self {
        Self {
            name,
            has: Box::new(has),
        }
    }
}

/// One figure.
#[derive(Clone, Copy)]
struct Drawing {
    title: &'static str,
    caption: &'static str,
    x_title: &'static str,
    /// What the x axis shows of a setting.
    x: fn(&Setting) -> usize,
}

impl Drawing {
    fn draw(self, report: &ClassifyReport, series: &[Series], shown: impl Fn(&Setting) -> bool) -> Markup {
        let steps: Vec<_> = report
            .steps
            .iter()
            .filter(|step| shown(&step.setting) && FRAMES.of(step).is_some())
            .filter(|step| series.iter().any(|series| (series.has)(&step.setting)))
            .collect();
        let mut values: Vec<usize> = steps.iter().map(|step| (self.x)(&step.setting)).collect();
        values.sort_unstable();
        values.dedup();
        if values.is_empty() {
            return Markup::default();
        }
        let highest = steps.iter().filter_map(|step| FRAMES.range(step));
        let scale = Linear::to(highest.map(|spread| spread.maximum).fold(0.0, f64::max), Y_STEPS);
        // Each value its own place, evenly apart: batches double from one to the next.
        let place = |value: usize| {
            let index = values.iter().position(|known| *known == value).unwrap_or(0);
            (index as f64 + 0.5) / values.len() as f64
        };
        let mut lines = Vec::new();
        let mut entries = Vec::new();
        let mut readings = Vec::new();
        for (number, series) in series.iter().enumerate() {
            let own = steps.iter().filter(|step| (series.has)(&step.setting));
            let mut points: Vec<Point> = own
                .filter_map(|step| point(step, place((self.x)(&step.setting)), &scale))
                .collect();
            if points.is_empty() {
                continue;
            }
            points.sort_by(|one, other| one.x.total_cmp(&other.x));
            readings.extend(points.iter().map(|point| point.tip.clone()));
            let class = format!("series{number}");
            entries.push((class.clone(), series.name.to_owned()));
            lines.push(Line {
                class,
                points,
                marked: true,
            });
        }
        let plot = Plot {
            description: format!("{}: {}", self.title, readings.join("; ")),
            x_title: self.x_title.to_owned(),
            y_title: "frames a second".to_owned(),
            x_ticks: values
                .iter()
                .map(|value| Tick {
                    place: place(*value),
                    label: value.to_string(),
                })
                .collect(),
            y_ticks: y_ticks(&scale, quantity::metric_brief),
            lines,
            ..Plot::default()
        };
        figure(
            self.title,
            self.caption,
            plot.draw().with(legend(entries.into_iter())),
        )
    }
}

/// A step's median with the range of its rounds.
fn point(step: &Step, x: f64, scale: &Linear) -> Option<Point> {
    let (rate, spread) = (FRAMES.of(step)?, FRAMES.range(step)?);
    Some(Point {
        x,
        y: scale.place(rate),
        range: Some((scale.place(spread.minimum), scale.place(spread.maximum))),
        tip: format!("{}: {}", step.setting, quantity::rate(rate)),
    })
}
