//! Pages of scaling experiments: the common tables of steps, series and trials, and the figure of growth with buckets.

mod figures;

pub(crate) use figures::{Growth, active_words, areas, cpu_bar};

use crate::columns::{self, count, number};
use crate::document::{as_json, set_aside};
use crate::observed::reasons;
use crate::scale::limit::{self, BUSY_IDLE_SHARE};
use crate::scale::plan;
use crate::scale::steps::{Kind, Report, Series, Shape, Step, active, linearity_metric};
use crate::trial::{Trial, TrialHead, TrialStatus};
use corelane_measure::metric::{Metric, Show};
use corelane_measure::quantity::{self, or_missing};
use corelane_measure::statistics;
use corelane_report::diff::{self, Numbers, Run};
use corelane_report::gate::Figure;
use corelane_report::html::tiles::Tile;
use corelane_report::json;
use corelane_report::page::{Caveat, Page, Rendered, Section};
use corelane_report::reading::{Reading, metric, table, with_range};
use corelane_report::table::{Cell, Column, Table};
use std::collections::BTreeSet;

/// Why a control can be above what it is the control of.
const CROSSED_AT_ONE: &str = "At one bucket, crossed clients do more than aligned ones because they have a CPU of their own: two CPUs \
                              are used instead of one. That also lowers the linearity of crossed clients. Compare the two \
                              where all buckets are active.";

/// A control this much faster than exact steering gets a sentence.
const FASTER: f64 = 1.02;

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
        page.lead = self.limit.lead();
        page.evidence.clone_from(&self.limit.evidence);
        let last = self.last_step();
        let failed = self.main_series().and_then(|main| self.failure(&main));
        (page.headline, page.verdict) = match (last, failed) {
            (None, Some(why)) => (
                format!("Failed: {why}"),
                format!("Failed: {why}. {}", self.limit.sentence),
            ),
            (None, None) => ("Nothing was measured".to_owned(), self.limit.sentence.clone()),
            (Some(step), _) => (
                self.qualified(self.limit.headline(K::headline(self, step))),
                self.qualified(self.limit.sentence.clone()),
            ),
        };
        page.tiles = last.map_or_else(Vec::new, |step| K::tiles(self, step));
        let trials = self.trials_section(&mut page);
        page.section(self.terms());
        K::sections(self, &mut page);
        page.section(trials);
        page.section(self.unknown_section());
        page.section(Section::new("").note(self.scaling.sentence().unwrap_or_default()));
        K::closing(self, &mut page);
        // Cannot fail: the value was read from JSON.
        let pretty = |value| json::pretty(value).unwrap_or_default();
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
            key: diff::fields(&as_json(&step.shape)),
            shape: shape.iter().map(|reading| reading.cell(step)).collect(),
            numbers: numbers(index),
        };
        Some(Run {
            asked: plan::of_plan::<K>(&self.plan),
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
            let head = trial.head();
            head.is_valid() || head.status == TrialStatus::GeneratorLimited
        };
        if self.head.interrupted || self.trials.iter().any(measured) {
            return Ok(());
        }
        let mut heads = self.trials.iter().rev().map(Trial::head);
        let last = heads.find_map(|head| head.why.as_deref());
        let why = last.unwrap_or("see why each failed");
        Err(format!("no trial gave a result: {why}"))
    }
}

/// The terms of the tables: each with the word that shows that a run has it, and its meaning.
const TERMS: [(&str, &str, &str); 6] = [
    (
        "bucket",
        "",
        "a value of the RSS indirection table for a packet\u{2019}s Toeplitz hash: a queue of a NIC, here a socket with one worker",
    ),
    (
        "exact",
        "exact",
        "each packet reaches the socket of its bucket, chosen by its Toeplitz hash",
    ),
    (
        "reuseport",
        "REUSEPORT",
        "the kernel\u{2019}s own hash chooses the socket",
    ),
    (
        "aligned",
        "aligned",
        "the clients of a bucket run on its worker\u{2019}s CPU",
    ),
    (
        "crossed",
        "crossed",
        "the clients of a bucket run on another CPU than its worker",
    ),
    (
        "linearity",
        "",
        "rate at N buckets over N times the rate at one, \u{b1} half the range of the rounds; 1 is growth in proportion",
    ),
];

/// The terms that say nothing of a server without buckets.
const ABOUT_BUCKETS: [&str; 3] = ["bucket", "aligned", "crossed"];

/// What a reader of a quick run must know.
const INDICATIVE: &str = "one short trial per step, so the numbers are indicative: a ratio of two of them changes by a tenth \
                          from run to run; without --quick they are medians and have a spread";

impl<K: Kind> Report<K> {
    /// A sentence about the result; that of a quick run says that it is indicative.
    fn qualified(&self, sentence: String) -> String {
        match self.is_quick() {
            true => format!("Indicative: {sentence}"),
            false => sentence,
        }
    }

    /// What the terms of this run mean, before the first table.
    fn terms(&self) -> Section {
        let who: Vec<String> = self.steps.iter().map(|step| step.shape.who()).collect();
        let has = |word: &str| word.is_empty() || who.iter().any(|who| who.contains(word));
        let places = self.places();
        let is_here = |term: &str| places == "buckets" || !ABOUT_BUCKETS.contains(&term);
        let shown = TERMS.iter().filter(|(term, word, _)| has(word) && is_here(term));
        shown.fold(Section::new("terms"), |section, (term, _, meaning)| {
            section.labelled(format!("  {term:<11}"), meaning.replace("buckets", places))
        })
    }

    /// The trials' status and what was skipped; in text at this place, on a page before the figures.
    fn trials_section(&self, page: &mut Page) -> Section {
        let mut section = set_aside(&self.head, self.trials.iter().map(Trial::head), page);
        let quick = self.is_quick().then_some(("quick", INDICATIVE));
        let left_out = self.kind.left_out().iter();
        let left_out = left_out.map(|reason| ("left out", reason.as_str()));
        for (about, reason) in quick.into_iter().chain(left_out) {
            section = section.text_note(format!("{about:<9}"), reason);
            page.caveats.push(Caveat {
                about: about.to_owned(),
                sentence: format!("{reason}."),
                spoils: false,
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
        let of_exact =
            |step: &Step<K>| statistics::ratio(self.rate().of(step)?, self.rate().of(self.reference(step)?)?);
        let mut readings: Vec<Reading<'a, Step<K>>> = K::columns();
        readings.push(rate);
        readings.push(number(Column::right("of exact"), Show::Ratio, of_exact));
        readings.extend(more);
        let series = self.series();
        table(
            readings,
            series.iter().filter_map(|series| series.0.last().copied()),
        )
    }

    /// The step of exact steering with aligned clients that has the same traffic.
    fn reference(&self, step: &Step<K>) -> Option<&Step<K>> {
        self.steps.iter().find(|other| {
            let (own, other) = (&step.shape, &other.shape);
            other.is_plain() && other.is_exact() && other.same_load(own) && other.active() == own.active()
        })
    }

    /// Why a series has no result: what its last failed trial says. `None` if a trial is valid, or none failed.
    pub(crate) fn failure(&self, series: &Series<'_, K>) -> Option<&str> {
        let is_own = |step: &Step<K>| step.shape.is_plain() && series.shape().grows_to(&step.shape);
        let failed = |head: &&TrialHead| {
            head.status == TrialStatus::Failed && self.steps.get(head.step).is_some_and(is_own)
        };
        let mut heads = self.trials.iter().rev().map(Trial::head);
        let why = heads.find(failed)?.why.as_deref();
        why.filter(|_| series.last_measured().is_none())
    }

    /// Why crossed clients do more than aligned ones at one bucket, if they do in one of these series.
    pub(crate) fn crossed_at_one(&self, series: &[Series<'_, K>]) -> Option<String> {
        let does_more = |step: &&Step<K>| {
            let rates = self
                .reference(step)
                .and_then(|exact| self.rate().of(*step).zip(self.rate().of(exact)));
            step.shape.active() == 1
                && step.shape.is_crossed()
                && rates.is_some_and(|(crossed, aligned)| crossed > aligned)
        };
        let mut steps = series.iter().flat_map(|series| series.0.iter().copied());
        steps.find(does_more).map(|_| CROSSED_AT_ONE.to_owned())
    }

    /// The controls whose growth is doubtful, and why, a sentence each.
    pub(crate) fn doubtful_controls(&self) -> Vec<String> {
        let [_, controls] = self.parted_series();
        let doubt = |series: &Series<'_, K>| {
            let step = series.last_measured()?;
            let doubts = limit::doubts(linearity_metric::<K::Trial>().of(step), step.shape.active(), None);
            (!doubts.is_empty()).then(|| format!("Doubtful: {}: {}.", step.shape.title(), doubts.join("; ")))
        };
        controls.iter().filter_map(doubt).collect()
    }

    /// A sentence for each control that was faster than exact steering: why, by what was measured. `costs` name the
    /// CPU time of one event.
    pub(crate) fn faster_controls(
        &self,
        costs: &[(&str, &'static Metric<K::Trial>)],
        show: impl Fn(f64) -> String,
    ) -> Vec<String> {
        let series = self.series().into_iter();
        let last = series.filter_map(|series| series.last_measured());
        let sentence = |step: &Step<K>| {
            let exact = self.reference(step).filter(|exact| !std::ptr::eq(*exact, step))?;
            let (own, other) = (self.rate().of(step)?, self.rate().of(exact)?);
            let times = statistics::ratio(own, other).filter(|times| *times >= FASTER)?;
            let [own, other, times] = [show(own), show(other), quantity::ratio(times)];
            let why = self.why_faster(step, exact, costs, &show);
            let title = step.shape.title();
            Some(format!(
                "Faster than exact steering, {times}: {title}: {own} against {other}. {why}"
            ))
        };
        last.filter_map(sentence).collect()
    }

    fn why_faster(
        &self,
        step: &Step<K>,
        exact: &Step<K>,
        costs: &[(&str, &'static Metric<K::Trial>)],
        show: &impl Fn(f64) -> String,
    ) -> String {
        match (self.rate().range(step), self.rate().range(exact)) {
            (Some(own), Some(other)) if own.count > 1 && own.overlaps(other) => {
                let [from, to] = [other.minimum, other.maximum].map(show);
                return format!(
                    "The rounds overlap (exact steering had {from} to {to}), so the difference may be chance."
                );
            }
            (Some(own), _) if own.count > 1 => {}
            _ => return "One round cannot show whether this is chance: use more --rounds.".to_owned(),
        }
        let mut why = Vec::new();
        for (what, metric) in costs {
            if let (Some(own), Some(other)) = (metric.of(step), metric.of(exact))
                && own < other
            {
                let [own, other] = [own, other].map(|value| metric.show.words(value));
                why.push(format!("{own} of {what}, exact steering {other}"));
            }
        }
        if let (Some(own), Some(other)) = (step.idle_share(), exact.idle_share())
            && own + BUSY_IDLE_SHARE < other
        {
            let [own, other] = [own, other].map(quantity::percent);
            why.push(format!("CPUs idle for {own}, with exact steering for {other}"));
        }
        match why.is_empty() {
            true => "No measured cost explains it.".to_owned(),
            false => format!("Measured: {}.", why.join("; ")),
        }
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

/// Adds what was observed in the steps that a reader compares, all buckets active; nothing if nothing was requested.
/// `sentences` compare steps.
pub(crate) fn observed_sections<K: Kind>(
    report: &Report<K>,
    sentences: impl IntoIterator<Item = String>,
    page: &mut Page,
) {
    let most = report.steps.iter().map(|step| step.shape.active()).max();
    let mut notes = BTreeSet::new();
    for step in &report.steps {
        let is_shown = step.shape.is_observed() && Some(step.shape.active()) == most;
        let Some(observed) = step.observed.as_ref().filter(|_| is_shown) else {
            continue;
        };
        let (active, round) = (step.shape.active(), observed.round.saturating_add(1));
        let title = format!(
            "where the time went: {}, {active} active (round {round})",
            step.shape.title()
        );
        observed.sections(&title, page);
        notes.extend(observed.notes());
    }
    // What was requested and could not be observed, each reason once: `profile: not permitted …`.
    let all = report.steps.iter().filter_map(|step| step.observed.as_ref());
    let unknown = all.flat_map(|observed| &observed.unknown);
    let lines: BTreeSet<String> = unknown
        .map(|(part, reason)| format!("{part}: {reason}"))
        .collect();
    let words = Section::new("")
        .labelled_notes("locks    ", sentences)
        .labelled_notes("observed ", notes)
        .labelled_notes("not observed  ", lines);
    page.section(words);
}

/// The column of the number of valid trials.
pub(crate) fn trials<K: Kind>() -> Reading<'static, Step<K>> {
    count("trials", "trials", |step: &Step<K>| step.summed.trials as u64)
}

/// A column of a share of CPU time, in whole percent.
pub(crate) fn share<K: Kind>(header: &str, of: fn(&Step<K>) -> Option<f64>) -> Reading<'static, Step<K>> {
    number(Column::right(header).unit("%"), Show::WholeShare, of)
}

/// A metric's value of a step in words.
pub(crate) fn words<K: Kind>(metric: &Metric<K::Trial>, step: &Step<K>) -> String {
    or_missing(metric.of(step), |value| metric.show.words(value))
}

/// The key number of growth.
pub(crate) fn linearity_tile<K: Kind>(linearity: &Metric<K::Trial>, step: &Step<K>) -> Tile {
    let spread = linearity.range(step).filter(|spread| spread.count > 1);
    let half_range = match spread {
        Some(spread) => format!("\u{b1} {:.2}, {} rounds", spread.half_range(), spread.count),
        None => "one round: its spread is unknown".to_owned(),
    };
    let known = linearity.of(step).map(|_| half_range);
    ("linearity", words(linearity, step), known)
}

/// What the active buckets do, and how many times what one does: they `answer` or `take in` so much.
pub(crate) fn headline<K: Kind>(report: &Report<K>, step: &Step<K>, does: &str) -> String {
    let rate = or_missing(report.rate().of(step), quantity::rate);
    match (step.shape.active(), linearity_metric::<K::Trial>().of(step)) {
        (1, _) => format!("One bucket {does}s {rate}"),
        (buckets, Some(linearity)) => {
            let times = linearity * buckets as f64;
            let times = match report.is_quick() {
                true => format!("about {}", quantity::fixed(times, 1)),
                false => quantity::fixed(times, 2),
            };
            format!("{buckets} buckets {does} {rate}: {times} times what one does")
        }
        (buckets, None) => format!("{buckets} buckets {does} {rate}"),
    }
}

/// The columns of the posts' table: what was counted at five places, and what came of the CPUs.
pub(crate) fn counted<K: Kind>(
    counts: &'static [Metric<K::Trial>; 5],
    more: &[&'static Metric<K::Trial>],
    linearity: &'static Metric<K::Trial>,
) -> Vec<Reading<'static, Step<K>>> {
    let mut readings = vec![active()];
    readings.extend(counts.iter().map(metric));
    readings.extend(more.iter().map(|of| metric(of)));
    readings.extend([
        share("idle", Step::idle_share),
        share("softirq", Step::softirq_share),
        with_range(linearity, 2),
    ]);
    readings
}

/// The median of durations, beside their 99th percentile.
pub(crate) fn median_words<K: Kind>(metric: &Metric<K::Trial>, step: &Step<K>) -> Option<String> {
    let durations = metric.durations(step)?;
    Some(format!("median {}", quantity::duration(durations.p50_ns as f64)))
}
