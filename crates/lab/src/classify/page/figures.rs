//! Plots of frames per second: against the batch size by table and by prefetching, and against threads by lock.

use crate::classify::document::{
    ClassifyReport, FRAMES, LockKind, PrefetchKind, Setting, Step, TableKind, published,
};
use crate::plots::{self, Y_STEPS};
use corelane_measure::quantity;
use corelane_report::html::axis::Linear;
use corelane_report::html::figure::{figure, legend, linear_ticks};
use corelane_report::html::markup::Markup;
use corelane_report::html::plot::{Line, Plot, Tick};

/// One figure: each line joins the steps that have its setting but for what the x axis shows.
struct Drawing<'a> {
    title: &'static str,
    caption: &'static str,
    x_title: &'static str,
    x: fn(&mut Setting) -> &mut usize,
    series: &'a [(&'static str, Setting)],
}

/// Every figure for which there are steps.
pub(super) fn all(report: &ClassifyReport) -> Markup {
    let few = Setting {
        burst: report.plan.burst,
        prefetch: PrefetchKind::Bucket,
        ..Setting::POST
    };
    let many = Setting {
        table_buckets: Some(published::BUCKETS[1]),
        ..few
    };
    let exact = Setting {
        table: TableKind::Exact,
        table_buckets: None,
        ..few
    };
    let by_table = Drawing {
        title: "Batch, by table",
        caption: "Buckets prefetched; one thread; medians, bars span the lowest and the highest round.",
        x_title: "frames of a batch",
        x: |setting| &mut setting.batch,
        series: &[
            ("exact", exact),
            ("post, 2,097,152 buckets", many),
            ("post, 524,288 buckets", few),
            ("post, empty", Setting { entries: 0, ..few }),
        ],
    };
    let prefetched = [
        ("nothing", PrefetchKind::None),
        ("headers", PrefetchKind::Header),
        ("buckets", PrefetchKind::Bucket),
        ("both", PrefetchKind::Both),
        ("buckets and arrays", PrefetchKind::BucketAndArray),
    ];
    let by_prefetch = Drawing {
        title: "Batch, by prefetching",
        caption: "The post\u{2019}s table, 524,288 buckets; one thread.",
        series: &prefetched.map(|(name, prefetch)| (name, Setting { prefetch, ..few })),
        ..by_table
    };
    let locked = |table: Setting, lock| Setting {
        batch: 4,
        lock,
        ..table
    };
    let by_lock = Drawing {
        title: "Threads, by lock",
        caption: "Batches of 4, buckets prefetched; the post\u{2019}s table has 2,097,152 buckets.",
        x_title: "threads",
        x: |setting| &mut setting.threads,
        series: &[
            ("exact, no lock", locked(exact, LockKind::None)),
            ("post, no lock", locked(many, LockKind::None)),
            ("post, read lock a batch", locked(many, LockKind::ReadPerBatch)),
            ("post, read lock a frame", locked(many, LockKind::Read)),
        ],
    };
    let drawings = [by_table, by_prefetch, by_lock];
    drawings.iter().map(|drawing| drawing.draw(report)).collect()
}

impl Drawing<'_> {
    fn value(&self, step: &Step) -> usize {
        *(self.x)(&mut step.setting.clone())
    }

    /// The steps of a line, by growing value.
    fn steps<'s>(&self, report: &'s ClassifyReport, line: &Setting) -> Vec<&'s Step> {
        let is_own = |step: &&Step| {
            let mut wanted = *line;
            *(self.x)(&mut wanted) = self.value(step);
            step.setting.repeats(&wanted) && FRAMES.of(step).is_some()
        };
        let mut steps: Vec<&Step> = report.steps.iter().filter(is_own).collect();
        steps.sort_by_key(|step| self.value(step));
        steps
    }

    fn draw(&self, report: &ClassifyReport) -> Markup {
        let series = self.series.iter().enumerate();
        let series: Vec<(usize, &str, Vec<&Step>)> = series
            .map(|(number, (name, line))| (number, *name, self.steps(report, line)))
            .filter(|(.., steps)| !steps.is_empty())
            .collect();
        let shown = || series.iter().flat_map(|(.., steps)| steps);
        let mut values: Vec<usize> = shown().map(|step| self.value(step)).collect();
        values.sort_unstable();
        values.dedup();
        if values.is_empty() {
            return Markup::default();
        }
        let highest = shown().filter_map(|step| FRAMES.range(step));
        let scale = Linear::to(highest.map(|spread| spread.maximum).fold(0.0, f64::max), Y_STEPS);
        // Each value its own place, evenly apart: batches double from one to the next.
        let place = |value: usize| {
            let index = values.iter().position(|known| *known == value).unwrap_or(0);
            (index as f64 + 0.5) / values.len() as f64
        };
        let class = |number: usize| format!("series{number}");
        let at = |step: &Step, rate: f64| {
            let tip = format!("{}: {}", step.setting, quantity::rate(rate));
            (place(self.value(step)), tip)
        };
        let line = |(number, _, steps): &(usize, &str, Vec<&Step>)| {
            plots::line(class(*number), &FRAMES, steps, &scale, at)
        };
        let lines: Vec<Line> = series.iter().map(line).collect();
        let readings = lines.iter().flat_map(|line| &line.points);
        let readings: Vec<&str> = readings.map(|point| point.tip.as_str()).collect();
        let tick = |value: &usize| Tick {
            place: place(*value),
            label: value.to_string(),
        };
        let plot = Plot {
            description: format!("{}: {}", self.title, readings.join("; ")),
            x_title: self.x_title.to_owned(),
            y_title: "frames/s".to_owned(),
            x_ticks: values.iter().map(tick).collect(),
            y_ticks: linear_ticks(&scale, quantity::metric_brief),
            lines,
            ..Plot::default()
        };
        let entries = series
            .iter()
            .map(|(number, name, _)| (class(*number), (*name).to_owned()));
        figure(self.title, self.caption, plot.draw().with(legend(entries)))
    }
}
