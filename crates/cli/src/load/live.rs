//! The live view of a running generator, redrawn in place with each sample. It is written to standard error,
//! and only if that is a terminal.

use crate::interrupt::Interrupt;
use crate::standard::write_out;
use crate::terminal::error_columns;
use corelane_load::timeline::{Second, TimelineFile};
use corelane_load::{Failures, Generator, LoadReport, Observation, Sampler, Snapshot};
use corelane_measure::metric::{Metric, Show};
use corelane_measure::quantity;
use corelane_report::table::cut;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// A generator that can run in the foreground.
pub trait ForegroundLoad: Generator<Report: LoadReport> {
    /// Converts a start error to a usage error that names the flag at fault.
    fn refused(error: Self::Error) -> anyhow::Error;

    /// The devices that its packets leave by.
    fn devices(plan: &Self::Plan) -> Vec<String>;

    /// The live view; `None` if this generator has none: the first of its counts is printed instead, once per second on
    /// standard output.
    fn view(&self) -> Option<View> {
        None
    }
}

/// The content of one live view. Empty parts are not printed.
#[derive(Debug, Default)]
pub struct View {
    /// The current activity; `left` is the time remaining.
    pub stage: String,
    pub left: Option<Duration>,
    /// Counters shown with their rate.
    pub growing: Vec<Growing>,
    /// Further text for the first line.
    pub facts: Vec<String>,
}

/// A counter.
#[derive(Debug, Clone, Copy)]
pub struct Growing {
    name: &'static str,
    show: Show,
    pub count: u64,
}

/// How often the running generator is polled.
const LOOK: Duration = Duration::from_millis(50);

/// Time between two lines; samples are a quarter of a second apart.
const LINE: Duration = Duration::from_millis(990);

/// Waits until the generator ends; an interrupt stops it. Returns whether one did. Shows the live view meanwhile, with
/// `lines` prints its lines, writes its timeline, and calls `look` with the last snapshot.
pub fn attend<G: ForegroundLoad>(
    generator: &mut G,
    interrupt: &Interrupt,
    lines: bool,
    timeline: Option<&TimelineFile>,
    look: impl Fn(&G, &Snapshot),
) -> bool {
    let shown = io::stderr().is_terminal();
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
        .with_style(ProgressStyle::with_template("{msg}").expect("a template of known fields"));
    let (mut last, mut renewed, mut latest) = (Vec::new(), Instant::now(), Snapshot::default());
    let printed = G::COUNTED.first().filter(|_| lines && generator.view().is_none());
    let mut printed = printed.map(|counted| (counted, Printed::new(counted.header)));
    // Sampled without a terminal, too: the report has latencies over time.
    let mut sampler = Sampler::new(timeline.is_some());
    let mut interrupted = false;
    while !generator.wait(sampler.pause(LOOK)) {
        if interrupt.asked() {
            generator.stop();
            interrupted = true;
        }
        look(generator, &latest);
        let Some(Observation { snapshot, second }) = sampler.look(generator) else {
            continue;
        };
        write_second::<G>(timeline, second);
        latest = snapshot;
        if let Some((counted, printed)) = &mut printed {
            printed.print(generator.total(counted));
        }
        if let Some(view) = shown.then(|| generator.view()).flatten() {
            let columns = error_columns();
            let timed = G::TIMED.map_or("", |times| times.header);
            let text = view.render((timed, &latest), &last, renewed.elapsed());
            let lines: Vec<String> = text.lines().map(|line| cut(line, columns)).collect();
            bar.set_message(lines.join("\n"));
            (last, renewed) = (view.growing, Instant::now());
        }
    }
    write_second::<G>(timeline, sampler.end(generator));
    // The summary reports the final counts.
    bar.finish_and_clear();
    interrupted
}

fn write_second<G: ForegroundLoad>(timeline: Option<&TimelineFile>, second: Option<Second>) {
    if let Some((timeline, second)) = timeline.zip(second) {
        timeline.write::<G>(&second);
    }
}

/// A count that is printed once per second.
struct Printed {
    name: &'static str,
    last: u64,
    at: Instant,
}

impl Printed {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            last: 0,
            at: Instant::now(),
        }
    }

    fn print(&mut self, count: u64) {
        if self.at.elapsed() < LINE {
            return;
        }
        let rate = quantity::rate(count.saturating_sub(self.last) as f64 / self.at.elapsed().as_secs_f64());
        let (name, all) = (self.name, quantity::count(count));
        (self.last, self.at) = (count, Instant::now());
        write_out(&format!("{name} {rate:>12}  in all {all:>13}\n"));
    }
}

impl View {
    /// The lines of the view, each at most 100 columns wide, with durations of the name `timed` and failures by cause of a
    /// snapshot; `last` holds the counters of the previous view.
    fn render(&self, (timed, snapshot): (&str, &Snapshot), last: &[Growing], passed: Duration) -> String {
        let left = self
            .left
            .map(|left| format!(", {:.1} s left", left.as_secs_f64()));
        let mut lines = vec![format!("{}{}", self.stage, left.unwrap_or_default())];
        if !self.facts.is_empty() {
            lines[0].push_str(&format!("   {}", self.facts.join("   ")));
        }
        for (place, growing) in self.growing.iter().enumerate() {
            let before = last.get(place).map_or(growing.count, |last| last.count);
            lines.push(growing.line(before, passed));
        }
        if let Some(times) = snapshot.times.summary() {
            lines.push(format!("{timed:<12}{times}"));
        }
        for (what, failures) in [
            ("failed", &snapshot.failures),
            ("not opened", &snapshot.not_opened),
        ] {
            if failures.total() > 0 {
                lines.push(format!("{what:<12}{}", by_cause(failures)));
            }
        }
        lines.join("\n")
    }
}

impl Growing {
    /// A live count over all workers.
    pub fn of<G: Generator>(load: &G, counted: &Metric<G::Counts>) -> Self {
        Self {
            name: counted.header,
            show: counted.show,
            count: load.total(counted),
        }
    }

    fn line(&self, before: u64, passed: Duration) -> String {
        let per_second =
            self.count.saturating_sub(before) as f64 / passed.as_secs_f64().max(f64::MIN_POSITIVE);
        let (count, rate) = match self.show {
            Show::Bytes => (quantity::bytes(self.count), quantity::bits(per_second)),
            _ => (quantity::count(self.count), quantity::rate(per_second)),
        };
        format!("{:<12}{rate:>13}   {count:>15} in all", self.name)
    }
}

/// The most frequent causes, and the number of other causes.
fn by_cause(failures: &Failures) -> String {
    /// Fits on one line.
    const SHOWN: usize = 3;
    let mut causes: Vec<_> = failures.occurred().collect();
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let shown = causes
        .iter()
        .take(SHOWN)
        .map(|(failure, count)| format!("{} {}", failure.words(), quantity::count(*count)));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if causes.len() > SHOWN {
        text.push_str(&format!(", {} other causes", causes.len() - SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_load::Failure;
    use corelane_measure::histogram::Histogram;

    fn growing(name: &'static str, show: Show, count: u64) -> Growing {
        Growing { name, show, count }
    }

    #[test]
    fn a_view_shows_rates_times_and_causes_in_lines_that_fit() {
        let (mut times, mut failures) = (Histogram::new(), Failures::default());
        times.record_many(1_200_000, 99);
        times.record(90_000_000_000);
        for failure in Failure::all() {
            (0..1_234_567).for_each(|_| failures.count(failure));
        }
        failures.count(Failure::FirstByteTimeout);
        let view = View {
            stage: "hold (2 of 3)".to_owned(),
            left: Some(Duration::from_millis(4_230)),
            growing: vec![
                growing("answered", Show::Count, 1_030_000_000),
                growing("received", Show::Bytes, 64 << 30),
            ],
            facts: vec!["1,000,000 connections open".to_owned()],
        };
        let snapshot = Snapshot {
            times,
            failures,
            ..Snapshot::default()
        };
        let last: Vec<Growing> = view
            .growing
            .iter()
            .map(|growing| Growing {
                count: growing.count - 500_000,
                ..*growing
            })
            .collect();
        let text = view.render(("latency", &snapshot), &last, Duration::from_millis(250));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "hold (2 of 3), 4.2 s left   1,000,000 connections open",
                "answered         2.00 M/s     1,030,000,000 in all",
                "received      16.0 Mbit/s            64 GiB in all",
            ]
        );
        assert!(lines[3].starts_with("latency     median 1.2 ms"), "{text}");
        assert!(
            lines[4].starts_with("failed      first byte timeout 1,234,568, "),
            "{text}"
        );
        let others = format!(", {} other causes", Failure::all().count() - 3);
        assert!(lines[4].ends_with(&others), "{text}");
        assert!(lines.iter().all(|line| line.len() <= 100), "{text}");
    }

    #[test]
    fn the_first_view_knows_no_rate() {
        let view = View {
            growing: vec![growing("sent", Show::Count, 7)],
            ..View::default()
        };
        let text = view.render(("", &Snapshot::default()), &[], Duration::from_millis(250));
        assert!(text.contains(" 0/s "), "{text}");
    }
}
