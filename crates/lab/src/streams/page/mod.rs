//! A run as people read it: in a terminal, in Markdown, as a page, as CSV, beside another run, at a gate. Text has tables of
//! the series that the run is judged by, a page of the controls, too.

mod figures;

use super::document::{
    FEWEST_TO_SHARE, MemoryPerConnection, Protocol, Segments, Series, Server, Step, StreamsReport, Suspect,
    active,
};
use super::metrics::{
    CLIENT_BYTES, CLIENT_PER_REQUEST, CLIENT_SHARE, HELD, LATENCY, LINEARITY, OF_REQUESTS, OPENED, OPENING,
    PAYLOAD, REQUESTS, SCHEDULE_LAG, SERVER_BYTES, SERVER_PER_REQUEST, SERVER_SHARE, STEERING,
};
use crate::scale::Placement;
use crate::steps::{Stepped, unknown_section};
use corelane_measure::metric::{Metric, Show};
use corelane_measure::quantity::{self, or_missing};
use corelane_measure::statistics;
use corelane_report::diff::Run;
use corelane_report::gate::Figure;
use corelane_report::html::tiles::Tile;
use corelane_report::page::{Caveat, Page, Rendered, Section};
use corelane_report::reading::{Reading, metric, named, percentiles, relative_range, table, with_range};
use corelane_report::table::{Cell, Column, Table};
use std::collections::BTreeSet;

impl Rendered for StreamsReport {
    fn page(&self) -> Page {
        let mut page = self.head.page(&format!("{} scaling", self.protocol.words()));
        page.origin
            .extend(self.subject.clone().map(|command| ("subject", command)));
        page.headline = self.headline();
        page.verdict.clone_from(&self.limit.sentence);
        page.tiles = self.tiles();
        page.caveats.extend(self.trial_caveats());
        page.caveats.extend(self.left_out.iter().map(|reason| Caveat {
            about: "left out".to_owned(),
            sentence: format!("{reason}."),
        }));
        let [judged, controls] = self.parted_series();
        page.section(
            Section::new("growth with buckets")
                .figures(figures::growth(self))
                .page_note(
                    "Linearity is the rate at N buckets over N times the rate at one, \u{b1} half the range of the \
                     rounds. CPU time is that of all processes of a side, with the receive path that the kernel ran in \
                     their name.",
                ),
        );
        for series in &judged {
            page.section(self.growth_section(series, true));
            page.section(self.latency_section(series, true));
        }
        page.section(self.connections_section(&judged, &controls));
        page.section(self.memory_section());
        page.section(self.controls_section());
        for series in &controls {
            page.section(self.growth_section(series, false));
            page.section(self.latency_section(series, false));
        }
        page.section(self.errors_section());
        let left_out = |section: Section, reason: &String| section.text_note("left out ", reason);
        page.section(self.left_out.iter().fold(self.trials_section(), left_out));
        page.section(self.unknown_section());
        page.section(Section::new("").note(self.scaling.sentence().unwrap_or_default()));
        page.section(self.suspects_section());
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

/// Adds a table to text and page, or to the page alone.
fn shown(section: Section, in_text: bool, table: Table) -> Section {
    match in_text {
        true => section.table(table),
        false => section.page_table(table),
    }
}

/// A metric's value of a step in words.
fn words<T>(metric: &'static Metric<T>, step: &Step) -> String {
    or_missing(metric.of(step), |value| metric.show.words(value))
}

fn share(header: &str, of: fn(&Step) -> Option<f64>) -> Reading<'static, Step> {
    Reading::new(Column::right(header).unit("%"), move |step: &Step| {
        Cell::number(of(step), Show::WholeShare)
    })
}

fn segments(header: &str, of: fn(&Segments) -> u64) -> Reading<'static, Step> {
    Reading::new(Column::right(header), move |step: &Step| {
        Cell::number(
            step.segments.as_ref().map(|segments| of(segments) as f64),
            Show::Count,
        )
    })
}

fn memory(side: &str, of: fn(&MemoryPerConnection) -> Option<f64>) -> Reading<'static, Step> {
    Reading::new(Column::right(side).unit("B each"), move |step: &Step| {
        Cell::number(of(&step.memory_per_connection), Show::Count)
    })
}

impl StreamsReport {
    /// The last measured step of the main series.
    fn last_step(&self) -> Option<&Step> {
        self.main_series()?.last_measured()
    }

    /// What came out, in one line.
    fn headline(&self) -> String {
        let Some(step) = self.last_step() else {
            return "Nothing was measured".to_owned();
        };
        let who = match step.shape.server {
            Server::Subject => "The subject",
            Server::Exact | Server::Reuseport => "The server",
        };
        let active = step.shape.buckets_active;
        let buckets = if active == 1 { "bucket" } else { "buckets" };
        let does = format!("{who} does {} on {active} {buckets}", self.rate_words(step));
        match self.protocol {
            Protocol::Http => format!(
                "{does} with {} connections",
                quantity::count(step.shape.connections)
            ),
            Protocol::Tcp => format!("{does}: {}", step.shape.load_words()),
        }
    }

    const fn rate_unit(&self) -> &'static str {
        match self.protocol {
            Protocol::Http => "requests/s",
            Protocol::Tcp => "Gb/s",
        }
    }

    fn rate_words(&self, step: &Step) -> String {
        or_missing(self.rate().of(step), |rate| {
            format!("{} {}", self.rate().show.cell(rate), self.rate_unit())
        })
    }

    fn tiles(&self) -> Vec<Tile> {
        let Some(step) = self.last_step() else {
            return Vec::new();
        };
        let spread = LINEARITY.range(step).filter(|spread| spread.count > 1);
        let half_range =
            spread.map(|spread| format!("\u{b1} {:.2}, {} rounds", spread.half_range(), spread.count));
        let payload = PAYLOAD
            .of(step)
            .map(|rate| format!("{} Gb/s", quantity::fixed(rate, 2)));
        let linearity = ("linearity", words(&LINEARITY, step), half_range);
        let mut tiles = match self.protocol {
            Protocol::Http => {
                let client = words(&CLIENT_PER_REQUEST, step);
                let median = LATENCY
                    .durations(step)
                    .map(|latency| format!("median {}", quantity::duration(latency.p50_ns as f64)));
                vec![
                    ("requests", or_missing(REQUESTS.of(step), quantity::rate), payload),
                    linearity,
                    (
                        "server CPU per request",
                        words(&SERVER_PER_REQUEST, step),
                        Some(format!("client {client}")),
                    ),
                    ("latency, p99", words(&LATENCY, step), median),
                ]
            }
            Protocol::Tcp => {
                let bytes = |metric, step| format!("{}B", words(metric, step));
                let count =
                    |of: fn(&Segments) -> u64| or_missing(step.segments.as_ref().map(of), quantity::count);
                let others = format!(
                    "{} out of order, {} stalls",
                    count(|segments| segments.out_of_order),
                    count(|segments| segments.stalls)
                );
                vec![
                    ("payload", self.rate_words(step), None),
                    linearity,
                    (
                        "per CPU second of the server",
                        bytes(&SERVER_BYTES, step),
                        Some(format!("of the client {}", bytes(&CLIENT_BYTES, step))),
                    ),
                    (
                        "segments sent again",
                        count(|segments| segments.sent_again),
                        Some(others),
                    ),
                ]
            }
        };
        tiles.extend(memory_tile(step));
        tiles
    }

    /// What grew with the active buckets.
    fn growth_section(&self, series: &Series<'_>, in_text: bool) -> Section {
        let idle = share("idle", Step::idle_share);
        let softirq = share("softirq", Step::softirq_share);
        let trials = Reading::new(Column::right("trials"), |step: &Step| {
            Cell::count(step.summed.trials as u64)
        });
        let linearity = with_range(&LINEARITY, 2);
        let readings = match self.protocol {
            Protocol::Http => vec![
                active(),
                metric(&REQUESTS),
                metric(&PAYLOAD),
                linearity,
                metric(&SERVER_PER_REQUEST),
                metric(&CLIENT_PER_REQUEST),
                idle,
                softirq,
                trials,
            ],
            Protocol::Tcp => vec![
                active(),
                metric(&PAYLOAD),
                linearity,
                metric(&SERVER_BYTES),
                metric(&CLIENT_BYTES),
                idle,
                softirq,
                named(&STEERING, "steered", "right %"),
                segments("sent again", |segments| segments.sent_again),
                segments("disorder", |segments| segments.out_of_order),
                segments("stalls", |segments| segments.stalls),
                trials,
            ],
        };
        let what = match series.shape().server {
            Server::Subject => "N CPUs",
            Server::Exact | Server::Reuseport => "N buckets active",
        };
        let grown = table(readings, series.steps.iter().copied()).without_silent_columns();
        shown(
            Section::new(format!("{}; {what}", series.shape().title())),
            in_text,
            grown,
        )
    }

    /// How long requests took.
    fn latency_section(&self, series: &Series<'_>, in_text: bool) -> Section {
        if series.steps.iter().all(|step| LATENCY.of(step).is_none()) {
            return Section::default();
        }
        let mut readings = vec![active()];
        readings.extend(percentiles(&LATENCY, ("latency", "median")));
        readings.extend([
            metric(&SCHEDULE_LAG),
            metric(&STEERING),
            relative_range(self.rate(), "spread of rate"),
        ]);
        let latency = table(readings, series.steps.iter().copied()).without_silent_columns();
        shown(Section::new(""), in_text, latency)
    }

    /// How many connections of each series were opened and held, and what each of them took; in text where there are many or several
    /// numbers of them.
    fn connections_section(&self, judged: &[Series<'_>], controls: &[Series<'_>]) -> Section {
        let counts: BTreeSet<u64> = self.steps.iter().map(|step| step.shape.connections).collect();
        let many = counts.last().is_some_and(|most| *most >= FEWEST_TO_SHARE);
        let size = match self.protocol {
            Protocol::Http => "object",
            Protocol::Tcp => "write",
        };
        let of = |series: &[Series<'_>]| {
            let readings = [
                Reading::new(Column::left("step").wide(), |step: &Step| step.shape.title()),
                Reading::new(Column::right("connections"), |step: &Step| {
                    Cell::count(step.shape.connections)
                }),
                Reading::new(Column::right(size), |step: &Step| {
                    Cell::number(step.shape.size().map(|bytes| bytes as f64), Show::Bytes)
                }),
                active(),
                metric(&OPENED),
                metric(&HELD),
                metric(&OPENING),
                named(self.rate(), "rate", self.rate_unit()),
                metric(&LATENCY),
                memory("client", |each| each.client_user_bytes),
                memory("server", |each| each.server_user_bytes),
                memory("kernel", |each| each.kernel_bytes),
            ];
            table(readings, series.iter().filter_map(Series::last_measured)).without_silent_columns()
        };
        let section =
            Section::new("connections; memory of user space and of the kernel, both sides, for each");
        shown(section, counts.len() > 1 || many, of(judged)).page_table(of(controls))
    }

    /// Where memory went in the step with the most connections.
    fn memory_section(&self) -> Section {
        let Some(memory) = self.fullest_memory() else {
            return Section::default();
        };
        type Row = (String, Option<u64>, Option<u64>);
        let each = |bytes: u64| bytes as f64 / memory.connections as f64;
        let readings = [
            Reading::new(Column::left("memory").may_shrink(), |row: &Row| {
                Cell::from(&row.0)
            }),
            Reading::new(Column::right("objects"), |row: &Row| {
                row.1.map(Cell::count).unwrap_or_default()
            }),
            Reading::new(Column::right("in all"), |row: &Row| {
                Cell::number(row.2.map(|bytes| bytes as f64), Show::Bytes)
            }),
            Reading::new(Column::right("B a connection"), |row: &Row| {
                Cell::number(row.2.map(each), Show::Fixed(0))
            }),
        ];
        let count = quantity::count(memory.connections);
        Section::new(format!(
            "memory at {count} connections; the kernel's is what it grew by, both sides together"
        ))
        .table(table(readings, &memory.rows()))
    }

    /// Every series at its largest step, beside exact steering with aligned clients.
    fn controls_section(&self) -> Section {
        let all = self.series();
        if all.len() <= self.judged_series().len() {
            return Section::default();
        }
        let of_exact = |step: &Step| {
            let reference = self.steps.iter().find(|other| {
                other.shape.same_load(&step.shape)
                    && other.shape.buckets_active == step.shape.buckets_active
                    && (other.shape.server, other.shape.placement) == (Server::Exact, Placement::Aligned)
            });
            statistics::ratio(self.rate().of(step)?, self.rate().of(reference?)?)
        };
        let mut readings: Vec<Reading<'_, Step>> = Self::shape();
        readings.extend([
            named(self.rate(), "rate", self.rate_unit()),
            Reading::new(Column::right("of exact"), |step: &Step| {
                Cell::number(of_exact(step), Show::Ratio)
            }),
            metric(&LATENCY),
            metric(&SERVER_SHARE),
            metric(&CLIENT_SHARE),
            with_range(&LINEARITY, 2),
        ]);
        let last = all.iter().filter_map(|series| series.steps.last().copied());
        Section::new("controls beside exact steering").table(table(readings, last).without_silent_columns())
    }

    /// Errors, and the counters of the kernel that point to a limit.
    fn errors_section(&self) -> Section {
        let shape = Self::shape();
        let columns = shape.iter().map(Reading::column);
        let counted = [Column::left("what"), Column::right("times")];
        let mut errors = Table::new(columns.chain(counted).collect());
        for step in &self.steps {
            for (what, times) in step.counted_errors() {
                let cells = [Cell::from(what.replace('_', " ")), Cell::count(times)];
                errors.row(shape.iter().map(|of| of.cell(step)).chain(cells));
            }
        }
        if errors.is_empty() {
            return Section::new("").note("errors, and what the kernel dropped or sent again: none");
        }
        Section::new("errors, and what the kernel dropped or sent again, over all valid trials").table(errors)
    }

    /// What could not be measured in the main series, and why.
    fn unknown_section(&self) -> Section {
        let main = self.main_series().map(|series| series.steps).unwrap_or_default();
        // That there are no requests where bytes are measured is no news to a reader.
        let expected = |(field, _): &(&String, &String)| {
            self.protocol == Protocol::Http || !OF_REQUESTS.contains(&field.as_str())
        };
        unknown_section(main.iter().flat_map(|step| &step.summed.unknown).filter(expected))
    }

    /// Who was the limit.
    fn suspects_section(&self) -> Section {
        let mut section = Section::new("who was the limit");
        for suspect in &self.limit.suspects {
            let mark = if suspect.is_limit { "*" } else { " " };
            let label = format!("{mark} {:<17}", suspect.name.words());
            section = section.text_note(label, &suspect.evidence);
        }
        let readings = [
            Reading::new(Column::left("who"), |suspect: &Suspect| suspect.name.words()),
            Reading::new(Column::left("was it"), |suspect: &Suspect| {
                if suspect.is_limit { "it was" } else { "it was not" }
            }),
            Reading::new(Column::left("evidence"), |suspect: &Suspect| {
                Cell::from(&suspect.evidence)
            }),
        ];
        section.page_table(table(readings, &self.limit.suspects))
    }
}

/// What one connection costs in memory, where that was measured.
fn memory_tile(step: &Step) -> Option<Tile> {
    let each = &step.memory_per_connection;
    let server = Show::Bytes.cell(each.server_user_bytes?);
    let bytes = |value: Option<f64>| or_missing(value, |value| Show::Bytes.cell(value));
    let (client, kernel) = (bytes(each.client_user_bytes), bytes(each.kernel_bytes));
    let others = format!("client {client}, kernel {kernel}");
    Some(("server memory per connection", server, Some(others)))
}
