//! Documents made of steps and trials: from raw trials to medians, reasons, comparisons, CSV and gates, all by the metrics
//! that the experiment declares.
//!
//! A trial in which the generator was the limit, or that another machine spoilt, is kept, marked, and enters no number.

use crate::document::{CpuShare, Document, TrialStatus};
use corelane_measure::metric::{Measured, Metric, Sample, Values};
use corelane_measure::scalability::{self, Law};
use corelane_measure::statistics::{self, Spread};
use corelane_measure::{quantity, share};
use corelane_report::diff::{self, Numbers};
use corelane_report::gate::Figure;
use corelane_report::page::{Caveat, Section};
use corelane_report::reading::{Reading, metric, table};
use corelane_report::table::Table;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Why a step lacks a number when nothing else says it.
const NOT_COUNTED: &str = "the trials did not count it";

/// Of trials that another machine on the same hardware spoilt.
pub(crate) const SPOILT: &str = "CPU time was stolen for another machine";

/// Trials that are no result, and why.
const SET_ASIDE: [(TrialStatus, &str); 2] = [
    (TrialStatus::GeneratorLimited, "the generator was the limit"),
    (TrialStatus::Spoilt, SPOILT),
];

/// What every trial says of itself, flattened into its document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Index of the step in the document.
    pub step: usize,
    /// The round, from 0: trials of one round ran next to each other.
    pub round: usize,
    /// Seconds that were measured.
    pub duration_s: f64,
    /// Whether the numbers may be used.
    pub status: TrialStatus,
    /// Why not.
    pub why: Option<String>,
    /// Why a field is null: field name to reason.
    #[serde(default)]
    pub unknown: BTreeMap<String, String>,
}

impl Tried {
    /// A valid trial of so many seconds.
    #[must_use]
    pub fn new(step: usize, round: usize, duration_s: f64) -> Self {
        Self {
            step,
            round,
            duration_s,
            status: TrialStatus::Valid,
            why: None,
            unknown: BTreeMap::new(),
        }
    }

    /// A trial that failed.
    #[must_use]
    pub fn failed(step: usize, round: usize, error: &dyn std::error::Error) -> Self {
        Self {
            status: TrialStatus::Failed,
            why: Some(error.to_string()),
            ..Self::new(step, round, 0.0)
        }
    }

    /// Marks it as no result: another machine took the CPUs.
    pub fn spoil(&mut self, why: String) {
        (self.status, self.why) = (TrialStatus::Spoilt, Some(why));
    }

    /// Whether the numbers may be used.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.status == TrialStatus::Valid && self.duration_s > 0.0
    }

    /// A count as a rate a second.
    #[must_use]
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.duration_s
    }
}

/// What every step says of its trials, flattened into its document as the last of its fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summed {
    /// Valid trials, which alone make the values.
    pub trials: usize,
    /// Trials left out because the generator was the limit.
    #[serde(default)]
    pub generator_limited_trials: usize,
    /// Why a value is null: field name to reason.
    #[serde(default)]
    pub unknown: BTreeMap<String, String>,
    /// The metrics.
    #[serde(flatten)]
    pub values: Values,
}

/// A step.
pub trait Step: Measured + 'static {
    /// What it says of its trials, to be filled.
    fn summed_mut(&mut self) -> &mut Summed;
}

/// A trial.
pub trait Trial: 'static {
    /// What it says of itself.
    fn tried(&self) -> &Tried;

    /// The same, to be marked.
    fn tried_mut(&mut self) -> &mut Tried;
}

/// A document made of steps and trials.
pub trait Stepped: Document {
    /// One step.
    type Step: Step;
    /// One trial.
    type Trial: Trial;

    /// Every metric, in the order of columns; the first that is compared is the one that steps are judged by.
    fn metrics(&self) -> &'static [&'static Metric<Self::Trial>];

    /// The columns that name a step.
    fn shape() -> Vec<Reading<'static, Self::Step>>;

    /// What a step is, in full: steps of two runs are compared that have the same key.
    fn key(step: &Self::Step) -> String;

    /// The steps.
    fn steps(&self) -> &[Self::Step];

    /// The trials.
    fn trials(&self) -> &[Self::Trial];

    /// The steps to be filled, and the trials that fill them.
    fn parts(&mut self) -> (&mut [Self::Step], &[Self::Trial]);

    /// The trials of a step that are a result.
    fn valid_trials(&self, step: usize) -> impl Iterator<Item = &Self::Trial> {
        let own = move |trial: &&Self::Trial| trial.tried().step == step && trial.tried().is_valid();
        self.trials().iter().filter(own)
    }

    /// How many trials ended so.
    fn ended(&self, status: TrialStatus) -> usize {
        let ended = |trial: &&Self::Trial| trial.tried().status == status;
        self.trials().iter().filter(ended).count()
    }

    /// Fills in every step's metrics from its valid trials.
    fn fill(&mut self) {
        let metrics = self.metrics();
        let (steps, trials) = self.parts();
        for (index, step) in steps.iter_mut().enumerate() {
            let own = || trials.iter().filter(|trial| trial.tried().step == index);
            let valid: Vec<&Self::Trial> = own().filter(|trial| trial.tried().is_valid()).collect();
            let summed = step.summed_mut();
            summed.trials = valid.len();
            let limited = |trial: &&Self::Trial| trial.tried().status == TrialStatus::GeneratorLimited;
            summed.generator_limited_trials = own().filter(limited).count();
            summed.values.fill(metrics, &valid);
        }
    }

    /// Fills in the metrics that a document of an earlier version lacks, from its raw trials.
    fn fill_lacking(&mut self) {
        let metrics = self.metrics();
        let (steps, trials) = self.parts();
        for (index, step) in steps.iter_mut().enumerate() {
            let own = trials
                .iter()
                .filter(|trial| trial.tried().step == index && trial.tried().is_valid());
            let valid: Vec<&Self::Trial> = own.collect();
            for metric in metrics.iter().filter(|metric| metric.read.is_some()) {
                if step.values().lacks(metric.name) {
                    let value = metric.combine(&valid);
                    step.summed_mut().values.set(metric.name, value);
                }
            }
        }
    }

    /// How close to proportional growth a step is: each round's rate at `workers` buckets over as many times the rate at one.
    fn linearity(
        &self,
        rate: &Metric<Self::Trial>,
        workers: usize,
        (many, one): (usize, usize),
    ) -> Option<Spread> {
        let rates = |step: usize| -> Vec<(usize, f64)> {
            let valid = self.valid_trials(step);
            let rate = |trial| Some((Trial::tried(trial).round, *rate.numbers([trial]).first()?));
            valid.filter_map(rate).collect()
        };
        let base = rates(one);
        let pair = |(round, many): (usize, f64)| {
            let (_, one) = base.iter().find(|(other, _)| *other == round)?;
            Some((many, *one))
        };
        let pairs: Vec<(f64, f64)> = rates(many).into_iter().filter_map(pair).collect();
        statistics::linearity(workers, &pairs)
    }

    /// Names the reason of every field that is `missing` from a step: the trials' own, what `own` says, or how the trials ended.
    fn give_reasons(
        &mut self,
        missing: impl Fn(&Self::Step) -> Vec<&'static str>,
        own: impl Fn(&Self::Step, &str) -> Option<String>,
    ) {
        let (steps, trials) = self.parts();
        for (index, step) in steps.iter_mut().enumerate() {
            let tried = || {
                trials
                    .iter()
                    .map(Trial::tried)
                    .filter(|tried| tried.step == index)
            };
            let reason = |name: &str| {
                let of_trial = tried().find_map(|tried| tried.unknown.get(name).cloned());
                of_trial
                    .or_else(|| own(step, name))
                    .or_else(|| why_missing(name, &tried().map(|tried| tried.status).collect::<Vec<_>>()))
                    .unwrap_or_else(|| NOT_COUNTED.to_owned())
            };
            // A document is concluded again after every trial: reasons of an earlier time may no longer hold.
            let missing = missing(step).into_iter();
            let reasons = missing.map(|name| (name.to_owned(), reason(name))).collect();
            step.summed_mut().unknown = reasons;
        }
    }

    /// The table of all steps with all metrics.
    fn steps_table(&self) -> Table {
        let mut readings = Self::shape();
        readings.extend(self.metrics().iter().map(|of| metric(of)));
        table(readings, self.steps())
    }

    /// The run as it is compared with another.
    fn compared_steps(&self) -> diff::Run {
        let compared = || self.metrics().iter().filter(|metric| metric.compared);
        let numbers = |index: usize| {
            let of = |(place, metric): (usize, &&'static Metric<Self::Trial>)| {
                Numbers::of(metric, self.valid_trials(index), place == 0)
            };
            compared().enumerate().map(of).collect()
        };
        let shape = Self::shape();
        let step = |(index, step): (usize, &Self::Step)| diff::Step {
            key: Self::key(step),
            shape: shape.iter().map(|reading| reading.cell(step)).collect(),
            numbers: numbers(index),
        };
        diff::Run {
            shape: shape.iter().map(Reading::column).collect(),
            steps: self.steps().iter().enumerate().map(step).collect(),
            ..self.head().compared()
        }
    }

    /// The figures that gates may name: the metrics of one step.
    fn figures_of(&self, step: Option<&Self::Step>) -> Vec<(Figure, Option<f64>)> {
        let figure = |metric: &&'static Metric<Self::Trial>| {
            (Figure::of(metric), step.and_then(|step| metric.of(step.values())))
        };
        self.metrics().iter().map(figure).collect()
    }

    /// How the trials ended, in text.
    fn trials_section(&self) -> Section {
        let all = self.trials().len();
        let mut section = Section::new("");
        for (status, why) in SET_ASIDE {
            let marked = self.ended(status);
            if marked > 0 {
                let line = format!(
                    "In {marked} of {all} trials {why}: they are kept among the raw trials, marked, and enter no median."
                );
                section = section.text_note("", line);
            }
        }
        let tried = self.trials().iter().map(Trial::tried);
        let mut failed: BTreeMap<&str, usize> = BTreeMap::new();
        for tried in tried.filter(|tried| tried.status == TrialStatus::Failed) {
            let reason = tried.why.as_deref().unwrap_or("for no reason that is known");
            *failed.entry(reason).or_default() += 1;
        }
        for (reason, times) in failed {
            section = section.text_note("", format!("{times} of {all} trials failed: {reason}"));
        }
        if self.head().interrupted {
            let line = "The run was ended early: what follows rests on the trials that were complete.";
            section = section.text_note("", line);
        }
        section
    }

    /// How the trials ended, before any figure of a page.
    fn trial_caveats(&self) -> Vec<Caveat> {
        let all = self.trials().len();
        let reasons = SET_ASIDE
            .into_iter()
            .chain([(TrialStatus::Failed, "something failed")]);
        let marked = reasons.map(|(status, why)| (self.ended(status), why));
        let mut lines: Vec<String> = marked
            .filter(|(marked, _)| *marked > 0)
            .map(|(marked, why)| format!("In {marked} of {all} trials {why}; none of them enters a number."))
            .collect();
        if self.head().interrupted {
            lines.push(
                "The run was ended early; the numbers rest on the trials that were complete.".to_owned(),
            );
        }
        let caveat = |sentence| Caveat {
            about: String::new(),
            sentence,
        };
        lines.into_iter().map(caveat).collect()
    }
}

/// What is not known, a paragraph for each reason: fields, each with the reason that it is null.
pub(crate) fn unknown_section<'a>(fields: impl Iterator<Item = (&'a String, &'a String)>) -> Section {
    let mut fields_by_reason: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (field, reason) in fields {
        fields_by_reason.entry(reason).or_default().insert(field);
    }
    let mut section = Section::new("");
    for (reason, fields) in fields_by_reason {
        let fields: Vec<&str> = fields.into_iter().collect();
        section = section.text_note("unknown  ", format!("{}: {reason}", fields.join(", ")));
    }
    section
}

/// Why a step lacks a number, as far as how its trials ended says.
fn why_missing(field: &str, ended: &[TrialStatus]) -> Option<String> {
    let all = ended.len();
    let all_are = |status| ended.iter().all(|ended| *ended == status);
    match field {
        _ if all == 0 => Some("no trial ran".to_owned()),
        _ if all_are(TrialStatus::GeneratorLimited) => {
            Some(format!("the generator was the limit in all {all} trials"))
        }
        _ if all_are(TrialStatus::Spoilt) => Some(format!("in all {all} trials {SPOILT}")),
        _ if !ended.contains(&TrialStatus::Valid) => Some(format!("none of the {all} trials was valid")),
        "linearity" => Some("no round has valid trials both at this number of buckets and at one".to_owned()),
        _ => None,
    }
}

/// A sample of a number.
pub(crate) fn number<'a>(value: Option<f64>) -> Option<Sample<'a>> {
    value.map(Sample::Number)
}

/// A sample of a share.
pub(crate) fn share<'a>(value: Option<share::Share>) -> Option<Sample<'a>> {
    value.map(Sample::Share)
}

/// The law of growth of a rate with CPUs, or why none was fitted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// The fitted law.
    pub law: Option<Law>,
    /// Why there is none.
    pub not_fitted_because: Option<String>,
}

impl Scaling {
    /// Fits the law to rates by the number of CPUs.
    #[must_use]
    pub fn of(points: &[(usize, f64)]) -> Self {
        let fitted = scalability::fit(points);
        Self {
            law: fitted.as_ref().ok().copied(),
            not_fitted_because: fitted.err().map(|reason| reason.to_string()),
        }
    }

    /// What the law says, or why there is none.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        match (&self.law, &self.not_fitted_because) {
            (Some(law), _) => Some(law_sentence(law)),
            (None, Some(reason)) => Some(sentence_case(reason)),
            (None, None) => None,
        }
    }
}

fn law_sentence(law: &Law) -> String {
    let peak = match law.peak_workers() {
        Some(peak) => format!("growth ends at about {peak:.0} CPUs"),
        None => "it has no end of growth".to_owned(),
    };
    format!(
        "Universal Scalability Law: {} on one CPU, contention {}, coherency {} a pair; {peak}; every \
         measurement is within {} of it.",
        quantity::rate(law.lambda_per_second),
        quantity::percent(law.sigma),
        quantity::percent(law.kappa),
        quantity::percent(law.worst_residual),
    )
}

fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!(
            "{}{}.",
            first.to_uppercase(),
            letters.as_str().trim_end_matches('.')
        ),
        None => String::new(),
    }
}

/// Counts by name added up.
pub(crate) fn summed<'a>(counts: impl Iterator<Item = (&'a String, &'a u64)>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in counts {
        *sums.entry(name.clone()).or_default() += count;
    }
    sums
}

/// How each CPU spent the time, medians.
pub(crate) fn cpu_shares<'a>(all: impl Iterator<Item = &'a CpuShare>) -> Vec<CpuShare> {
    let mut by_cpu: BTreeMap<u32, Vec<&CpuShare>> = BTreeMap::new();
    for share in all {
        by_cpu.entry(share.cpu).or_default().push(share);
    }
    let middle = |shares: &[&CpuShare], of: fn(&CpuShare) -> Option<f64>| {
        let values: Vec<f64> = shares.iter().filter_map(|share| of(share)).collect();
        statistics::median(&values)
    };
    let share = |(cpu, shares): (u32, Vec<&CpuShare>)| CpuShare {
        cpu,
        idle_share: middle(&shares, |share| share.idle_share),
        softirq_share: middle(&shares, |share| share.softirq_share),
    };
    by_cpu.into_iter().map(share).collect()
}

/// The mean of a share over some CPUs.
pub(crate) fn mean_share(
    shares: &[CpuShare],
    counts: impl Fn(u32) -> bool,
    of: impl Fn(&CpuShare) -> Option<f64>,
) -> Option<f64> {
    let own = shares.iter().filter(|share| counts(share.cpu));
    let values: Vec<f64> = own.filter_map(of).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
