//! The report of a timeline: a row per interval or trial as text, and curves over the time of the run as a page.

use super::format::{CpuSpent, Header, Second, Timeline};
use corelane_measure::counters::Counters;
use corelane_measure::metric::Show;
use corelane_measure::quantity;
use corelane_report::html::curves::{self, Curve, Points, distinct};
use corelane_report::html::markup::Markup;
use corelane_report::page::{Caveat, Page, Rendered, Section};
use corelane_report::table::{Cell, Column, Rows, Table};
use corelane_report::text;
use std::collections::{BTreeMap, BTreeSet};

/// Rows of the text: a run of this many seconds has a row each, a longer one several seconds per row.
const MOST_ROWS: usize = 24;

/// Shorter intervals, such as that of the last line, are not drawn: the machine's CPU time is counted in ticks of 10 ms.
const SHORTEST_DRAWN_S: f64 = 0.1;

/// The counts that a headline names, the one that matters most first.
const MATTERS: [&str; 5] = ["ok", "returned", "sent", "received_bytes", "sent_bytes"];

/// Unit of counts that are drawn apart, in bits.
const BYTES: &str = "bytes";

impl Rendered for Timeline {
    fn page(&self) -> Page {
        let mut page = Page {
            subject: "Timeline".to_owned(),
            headline: self.headline(),
            verdict: self.in_all(),
            lead: self.durations().unwrap_or_default(),
            written_by: self.origin(),
            origin: (self.header.aligned.iter())
                .map(|aligned| ("aligned", aligned.clone()))
                .collect(),
            caveats: (self.cut().map(Caveat::from).map(Caveat::spoiling).into_iter())
                .chain(self.unknown().map(Caveat::from))
                .collect(),
            command: self.command(),
            ..Page::default()
        };
        let notes = self.cut().into_iter().chain(self.unknown());
        let figures = self.figures();
        let rows = self.tabulated(&self.rows(MOST_ROWS));
        let over_time = Section::new("").figures(figures).folded("Each interval", rows);
        let over_time = match page.lead.is_empty() {
            true => over_time,
            false => over_time.page_note(text::sentence_case(&page.verdict)),
        };
        let noted = |section: Section, note: String| section.text_note("", format!("note: {note}"));
        page.section(notes.fold(over_time, noted));
        page.section(Section::new("Errors by name").table(self.errors()));
        page
    }

    fn table(&self) -> Table {
        self.tabulated(&self.rows(usize::MAX))
    }
}

impl Timeline {
    fn start_s(&self) -> f64 {
        self.lines
            .first()
            .map_or(0.0, |line| line.unix_s - line.interval_s)
    }

    fn span_s(&self) -> f64 {
        self.lines.last().map_or(0.0, |line| line.unix_s - self.start_s())
    }

    /// What was measured: the rate of what matters most, its durations, and for how long; of trials, the fastest.
    fn headline(&self) -> String {
        let Some(all) = self.all() else {
            return "Nothing was measured".to_owned();
        };
        let span = quantity::duration(self.span_s() * 1e9);
        let trials = self.lines.iter();
        let trials = trials.filter_map(|line| Some(line.trial.as_ref()?.number));
        let trials = trials.collect::<BTreeSet<_>>().len() as u64;
        let time = match trials {
            0 => format!("for {span}"),
            1 => format!("in one trial, {span}"),
            _ => format!("in {} trials, {span}", quantity::count(trials)),
        };
        let counted = self.counted();
        let main = (MATTERS.iter()).find_map(|name| counted.iter().find(|(counted, _)| counted == name));
        let Some(&(name, unit)) = main else {
            return format!("Nothing was counted {time}");
        };
        let (upto, per_second, durations) = match trials {
            0 => {
                let count = all.counts.get(name).copied().unwrap_or(0) as f64;
                ("", count / self.span_s().max(f64::MIN_POSITIVE), all.durations)
            }
            _ => {
                let trials = self.rows(MOST_ROWS);
                let rates = trials.iter().filter_map(|trial| trial.per_second.get(name));
                ("Up to ", rates.copied().fold(0.0, f64::max), None)
            }
        };
        let rate = match unit {
            BYTES => quantity::bits(per_second),
            unit => quantity::rate_of(per_second, unit),
        };
        let name = name.replace("_bytes", "").replace('_', " ");
        let p99 = durations.and_then(|durations| durations.summary());
        let p99 = p99.map_or_else(String::new, |times| {
            let p99 = quantity::duration(times.p99_ns as f64);
            format!(", {} p99 {p99}", self.header.durations)
        });
        format!("{upto}{rate} {name} {time}{p99}{}", self.of_generators())
    }

    fn of_generators(&self) -> String {
        match self.header.generators.len() {
            0 | 1 => String::new(),
            several => format!(", {several} generators"),
        }
    }

    fn origin(&self) -> (String, Option<u64>) {
        let tool = self.header.generators.first().map(|origin| origin.tool.clone());
        let start = (!self.lines.is_empty()).then(|| self.start_s() as u64);
        (tool.unwrap_or_default(), start)
    }

    fn command(&self) -> String {
        let commands = self.header.generators.iter();
        let commands: Vec<String> = commands
            .map(|origin| text::command(&origin.command_line))
            .collect();
        commands.join("\n")
    }

    /// What is unknown, and why.
    fn unknown(&self) -> impl Iterator<Item = String> {
        let unknown: BTreeSet<(&String, &String)> = (self.lines.iter())
            .flat_map(|line| &line.unknown_because)
            .collect();
        unknown
            .into_iter()
            .map(|(field, why)| format!("{field} unknown: {why}"))
    }

    /// All lines as one.
    fn all(&self) -> Option<Second> {
        let mut all = self.lines.first()?.clone();
        self.lines.iter().skip(1).for_each(|line| all.extend(line));
        Some(all)
    }

    /// The names of counts in their order, each with its unit.
    fn counted(&self) -> Vec<(&str, &str)> {
        let fields = Header::units(&[]);
        let occurs = |name: &str| self.lines.iter().any(|line| line.counts.get(name) > Some(&0));
        let units = (self.header.units.iter()).map(|(name, unit)| (name.as_str(), unit.as_str()));
        units
            .filter(|(name, _)| !fields.contains_key(*name) && occurs(name))
            .collect()
    }

    /// At most so many rows: a trial each in experiments, otherwise equally many lines.
    fn rows(&self, most: usize) -> Vec<Second> {
        let per_row = self.lines.len().div_ceil(most).max(1);
        let mut rows: Vec<Second> = Vec::new();
        for (place, line) in self.lines.iter().enumerate() {
            let joins = match &line.trial {
                Some(trial) => {
                    most < usize::MAX && rows.last().is_some_and(|row| row.trial.as_ref() == Some(trial))
                }
                None => place % per_row > 0,
            };
            match rows.last_mut().filter(|_| joins) {
                Some(row) => row.extend(line),
                None => rows.push(line.clone()),
            }
        }
        rows
    }

    fn tabulated(&self, rows: &[Second]) -> Table {
        let stages: BTreeSet<&str> = self.lines.iter().map(|line| line.stage.as_str()).collect();
        let until = Column::right("until").unit("s").key("at_s");
        let table = Rows::of(rows)
            .column(until, |line| {
                Cell::number(Some(line.unix_s - self.start_s()), Show::Fixed(1))
            })
            .shrinking("trial", trial)
            .shrinking("stage", |line| match &line.trial {
                None if stages.len() > 1 => line.stage.as_str(),
                _ => "",
            });
        let table = self.counted().into_iter().fold(table, |table, (name, _)| {
            let column = Column::right(&name.replace('_', " ")).unit("1/s");
            table.column(column, |line| {
                Cell::shown(line.per_second.get(name).copied(), quantity::metric)
            })
        });
        let cpus = |of| Column::right(of).unit("CPUs");
        table
            .right("p50", |line| time(line, 50.0))
            .right("p99", |line| time(line, 99.0))
            .right("longest", |line| time(line, 100.0))
            .count("errors", |line| Counters::sum(line.errors.values()))
            .column(cpus("own"), |line| cpu(line, |cpu| cpu.own_s))
            .column(cpus("others"), |line| cpu(line, |cpu| cpu.others_s))
            .right("drops", |line| {
                let drops = line.drops.as_ref();
                let drops: Option<u64> = drops.map(|drops| Counters::sum(drops.values()));
                Cell::number(drops.map(|drops| drops as f64), Show::Count)
            })
            .table()
            .without_silent_columns()
    }

    /// Errors and drops of the whole timeline by name.
    fn errors(&self) -> Table {
        let mut errors = BTreeMap::<(&str, &str), u64>::new();
        for line in &self.lines {
            for (name, count) in &line.errors {
                errors.entry(("error", name)).or_default().add(count);
            }
            for (name, count) in line.drops.iter().flatten() {
                errors
                    .entry(("dropped by the kernel", name))
                    .or_default()
                    .add(count);
            }
        }
        let errors: Vec<_> = errors.into_iter().collect();
        Rows::of(&errors)
            .left("what", |((what, _), _)| *what)
            .left("name", |((_, name), _)| name.replace('_', " "))
            .count("count", |(_, count)| *count)
            .table()
    }

    /// The last line of the text: the whole run.
    fn in_all(&self) -> String {
        let Some(all) = self.all() else {
            return "no second has been written yet".to_owned();
        };
        let counts = self.counted().into_iter().map(|(name, unit)| {
            let count = all.counts.get(name).copied().unwrap_or(0);
            match unit {
                BYTES => format!("{} {}", name.replace("_bytes", ""), quantity::bytes(count)),
                unit => format!("{} {} {unit}", name.replace('_', " "), quantity::count(count)),
            }
        });
        let words: Vec<String> = counts.chain(self.durations()).collect();
        format!("in all: {}", words.join("; "))
    }

    /// The durations of the whole run.
    fn durations(&self) -> Option<String> {
        let all = self.all()?.durations?.summary()?;
        Some(format!("{}: {all}", self.header.durations))
    }

    fn figures(&self) -> Vec<Markup> {
        let counted = self.counted();
        let of_unit = |is_bytes: bool, factor: f64| {
            let names = counted.iter().filter(|(_, unit)| (*unit == BYTES) == is_bytes);
            let points = |(name, _): &(&str, &str)| {
                let rate = |line: &Second| line.per_second.get(*name).map(|rate| rate * factor);
                (name.replace("_bytes", "").replace('_', " "), self.points(rate))
            };
            lines(names.map(points).collect())
        };
        let percentile =
            |percent: f64| self.points(|line| Some(line.durations.as_ref()?.percentile(percent)? as f64));
        let times = [("median", 50.0), ("p99", 99.0), ("longest", 100.0)];
        let times = times.map(|(name, percent)| (name.to_owned(), percentile(percent)));
        let share = |name: &str, of: fn(&CpuSpent) -> f64| {
            let points = self.points(|line| Some(of(line.cpu.as_ref()?) / line.interval_s));
            (name.to_owned(), points)
        };
        let cpus = [
            share("generator", |cpu| cpu.own_s),
            share("others", |cpu| cpu.others_s),
            share("other virtual machines", |cpu| cpu.stolen_s),
        ];
        let caption = "The mean of each interval, at its end.";
        vec![
            curves::rates("Rate", caption, "per second", &of_unit(false, 1.0)),
            curves::rates("Throughput", caption, "bits per second", &of_unit(true, 8.0)),
            curves::times(
                &text::sentence_case(&self.header.durations),
                "What ended in each interval.",
                "",
                &lines(times.into()),
            ),
            curves::rates(
                "Errors",
                "By name.",
                "per second",
                &lines(self.by_name(|line| Some(&line.errors))),
            ),
            curves::rates("CPU", caption, "CPUs", &lines(cpus.into())),
            curves::rates(
                "Dropped by the kernel",
                "By cause, in the generator's network namespace.",
                "per second",
                &lines(self.by_name(|line| line.drops.as_ref())),
            ),
        ]
    }

    /// A value over the seconds of the timeline.
    fn points(&self, value: impl Fn(&Second) -> Option<f64>) -> Points {
        let start = self.start_s();
        let lines = self
            .lines
            .iter()
            .filter(|line| line.interval_s >= SHORTEST_DRAWN_S);
        lines
            .filter_map(|line| Some((line.unix_s - start, value(line)?)))
            .collect()
    }

    /// The rates of named counts.
    fn by_name(&self, of: impl Fn(&Second) -> Option<&BTreeMap<String, u64>>) -> Vec<(String, Points)> {
        let names: BTreeSet<&String> = (self.lines.iter())
            .filter_map(&of)
            .flat_map(BTreeMap::keys)
            .collect();
        let points = |name: &String| {
            self.points(|line| {
                let count = of(line)?.get(name).copied().unwrap_or(0);
                Some(count as f64 / line.interval_s)
            })
        };
        (names.into_iter())
            .map(|name| (name.replace('_', " "), points(name)))
            .collect()
    }
}

/// The trial of an experiment that a row belongs to.
fn trial(line: &Second) -> String {
    let part = |part: &String| format!(", {part}");
    (line.trial.as_ref())
        .map(|trial| trial.title.clone() + &trial.part.as_ref().map(part).unwrap_or_default())
        .unwrap_or_default()
}

/// A percentile of the durations of a row.
fn time(line: &Second, percent: f64) -> Cell {
    let time = (line.durations.as_ref()).and_then(|durations| durations.percentile(percent));
    Cell::shown(time.map(|time| time as f64), quantity::duration)
}

/// CPU time of a row, as the number of CPUs that were busy with it.
fn cpu(line: &Second, of: fn(&CpuSpent) -> f64) -> Cell {
    let cpus = |cpu: &CpuSpent| of(cpu) / line.interval_s.max(f64::MIN_POSITIVE);
    Cell::number(line.cpu.as_ref().map(cpus), Show::Fixed(2))
}

/// A few of the lines, so that a reader can distinguish them; a line that is always 0 is left out.
fn lines(named: Vec<(String, Points)>) -> Vec<Curve<Points>> {
    let mut named = named;
    named.retain(|(_, points)| points.iter().any(|(_, value)| *value > 0.0));
    let curve = |(class, (words, data))| Curve { class, words, data };
    distinct(named).into_iter().map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{Origin, TrialLabel};
    use corelane_measure::histogram::Histogram;

    fn timeline(seconds: u64) -> Timeline {
        let line = |second: u64| {
            let mut durations = Histogram::new();
            durations.record_many(20_000, 1_000);
            let errors = (second == 3).then(|| ("reset".to_owned(), 5));
            Second {
                unix_s: 1_000.0 + second as f64,
                interval_s: 1.0,
                stage: "hold".to_owned(),
                counts: BTreeMap::from([("ok".to_owned(), 1_000), ("sent_bytes".to_owned(), 0)]),
                errors: errors.into_iter().collect(),
                durations: Some(durations),
                cpu: Some(CpuSpent {
                    own_s: 0.25,
                    ..CpuSpent::default()
                }),
                drops: Some(BTreeMap::new()),
                ..Second::default()
            }
            .with_rates()
        };
        Timeline {
            header: Header {
                generators: vec![Origin::default()],
                durations: "latency".to_owned(),
                units: Header::units(&[("ok", "requests"), ("sent_bytes", "bytes")]),
                ..Header::default()
            },
            lines: (1..=seconds).map(line).collect(),
            cut_bytes: 17,
        }
    }

    #[test]
    fn a_run_has_a_row_per_second_and_a_long_one_no_more_than_fit() {
        let text = timeline(4).page().to_text();
        let expected = [
            "until      ok    p50    p99  longest  errors   own  others  drops",
            "    s     1/s                                 CPUs    CPUs",
            "  3.0  1.00 k  20 µs  20 µs    20 µs       5  0.25    0.00      0",
            "note: the last line is incomplete and ignored (17 bytes): the run was killed",
            "in all: ok 4,000 requests; latency: median 20 µs",
        ];
        for expected in expected {
            assert!(text.contains(expected), "{expected}:\n{text}");
        }
        let long = timeline(2_399);
        assert_eq!(long.rows(MOST_ROWS).len(), 24);
        let ok: u64 = long.rows(MOST_ROWS).iter().map(|row| row.counts["ok"]).sum();
        assert_eq!(ok, 2_399_000);
    }

    #[test]
    fn the_headline_names_what_was_measured() {
        assert_eq!(
            timeline(4).page().headline,
            "1.00 k requests/s ok for 4 s, latency p99 20 µs"
        );
        assert_eq!(Timeline::default().page().headline, "Nothing was measured");
    }

    #[test]
    fn a_page_draws_rates_durations_errors_and_cpu() {
        let html = timeline(4).page().to_html();
        for title in ["Rate", "Latency", "Errors", "CPU", "reset"] {
            assert!(html.contains(title), "{title}: {html}");
        }
        assert!(
            !html.contains("Throughput") && !html.contains("Dropped"),
            "nothing of it happened: {html}"
        );
    }

    #[test]
    fn a_trial_of_an_experiment_is_one_row() {
        let mut timeline = timeline(4);
        for (place, line) in timeline.lines.iter_mut().enumerate() {
            line.trial = Some(TrialLabel {
                number: place / 2,
                title: format!("exact x{}", place / 2 + 1),
                ..TrialLabel::default()
            });
        }
        let rows = timeline.rows(MOST_ROWS);
        assert_eq!(rows.len(), 2);
        assert!(timeline.page().to_text().contains("exact x2"));
        assert_eq!(
            timeline.page().headline,
            "Up to 1.00 k requests/s ok in 2 trials, 4 s"
        );
        assert_eq!(timeline.rows(usize::MAX).len(), 4);
    }

    #[test]
    fn an_empty_timeline_says_so() {
        let empty = Timeline::default();
        assert_eq!(empty.page().to_text(), "no second has been written yet\n");
        assert!(empty.page().to_html().contains("No second has been written yet"));
    }
}
