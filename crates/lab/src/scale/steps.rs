//! The document of scaling experiments: medians, linearity and the scaling law of raw trials. `page` renders it.
//!
//! A trial limited by the generator or spoilt by another machine is kept and marked, but not used in any number.

use crate::columns::count;
use crate::document::{Head, as_json};
use crate::observed::Observed;
use crate::placing::distinct;
use crate::scale::limit::{self, Limit, Scaling};
use crate::trial::{CpuShare, SPOILT, Trial, TrialStatus, mean_share, middle_shares};
use corelane_measure::metric::{Measured, Metric, Show, Values};
use corelane_measure::statistics::{self, Spread};
use corelane_report::reading::Reading;
use corelane_rss::Steering;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// What every step says of its trials, flattened into its document as the last of its fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summed {
    /// Number of valid trials; only these are used in the values.
    pub trials: usize,
    /// Number of trials excluded because the generator was the limit.
    #[serde(default)]
    pub generator_limited_trials: usize,
    /// Why a value is null: field name to reason.
    #[serde(default)]
    pub unknown: BTreeMap<String, String>,
    /// The metrics.
    #[serde(flatten)]
    pub values: Values,
}

/// The shape of a step.
pub trait Shape: fmt::Debug + Clone + PartialEq + Serialize + DeserializeOwned + 'static {
    /// Buckets that the traffic is aimed at.
    fn active(&self) -> usize;

    /// Whether both shapes differ only in the number of active buckets.
    fn grows_to(&self, other: &Self) -> bool;

    /// Whether both have the same traffic; a control and its reference do.
    fn same_load(&self, other: &Self) -> bool;

    /// Everything but the number of buckets, in words.
    fn title(&self) -> String;

    /// The steering model and the placement of clients: `exact steering, aligned`.
    fn who(&self) -> String;

    /// The style sheet class of the series.
    fn class(&self) -> String;

    /// Whether it is exact steering with aligned clients, the reference of the controls.
    fn is_exact(&self) -> bool;

    /// Whether clients run on another CPU than the worker that serves them.
    fn is_crossed(&self) -> bool;

    /// What the traffic is aimed at: `bucket` or `buckets`.
    fn places(&self, count: usize) -> &'static str {
        limit::buckets(count)
    }

    /// Whether the run is judged by it.
    fn is_judged(&self) -> bool {
        self.is_exact()
    }

    /// Whether text and page have what was observed in it, if all buckets are active.
    fn is_observed(&self) -> bool {
        self.is_judged()
    }

    /// Whether it is a step of the plain experiment, without variation.
    fn is_plain(&self) -> bool {
        true
    }

    /// The rank of a judged series: the verdict is about the highest. `first` is the first judged series.
    fn weight(&self, first: &Self) -> u64;
}

/// The specifics of one scaling experiment; a value holds the fields of its document that no other has.
pub trait Kind: fmt::Debug + Clone + PartialEq + Serialize + DeserializeOwned + 'static {
    /// The part of a plan that selects steps.
    type Selection: Default + Serialize;
    /// The shape of a step.
    type Shape: Shape;
    /// The results of a step besides its metrics.
    type Found: fmt::Debug + Clone + Default + PartialEq + Serialize + DeserializeOwned;
    /// One trial.
    type Trial: Trial;

    /// Whether idle and softirq shares of a step cover its workers' CPUs only, instead of all CPUs used.
    const OF_WORKERS_ALONE: bool;

    /// The name of the experiment in reports.
    fn name(&self) -> &'static str;

    /// All metrics in column order; steps are judged by the first.
    fn metrics(&self) -> &'static [&'static Metric<Self::Trial>];

    /// The columns that name a step.
    fn columns() -> Vec<Reading<'static, Step<Self>>>;

    /// Fills in the results of a step besides its metrics, from the valid trials.
    fn fill(found: &mut Self::Found, valid: &[&Self::Trial]);

    /// Fills in values that compare steps, from their metrics.
    fn compare(_report: &mut Report<Self>) {}

    /// The fields of a step that are null and need a reason.
    fn missing(&self, step: &Step<Self>) -> Vec<&'static str> {
        let names = self.metrics().iter().map(|metric| metric.name);
        names.filter(|name| step.values().is_null(name)).collect()
    }

    /// The reason for such a field being null, if neither the trials nor their status give one.
    fn reason(&self, step: &Step<Self>, field: &str) -> Option<&'static str>;

    /// The rate of a step of the main series for the law of growth, in events per second.
    fn law_rate(&self, step: &Step<Self>) -> Option<f64>;

    /// Planned steps that could not run, with reasons.
    fn left_out(&self) -> &[String] {
        &[]
    }

    /// Whether the page reports that a field of a step is null.
    fn is_news(&self, _field: &str) -> bool {
        true
    }
}

/// The document of a scaling experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Report<K: Kind> {
    /// What all documents begin with.
    #[serde(flatten)]
    pub head: Head,
    /// The resolved plan of the run.
    pub plan: Value,
    /// The steering document that both ends shared.
    pub steering: Value,
    /// The fields specific to this kind.
    #[serde(flatten)]
    pub kind: K,
    /// One entry per shape of server and traffic; medians over the valid trials.
    pub steps: Vec<Step<K>>,
    /// All raw trials; invalid ones are marked.
    pub trials: Vec<K::Trial>,
    /// The scaling law of the main series, or why none was fitted.
    pub scaling: Scaling,
    /// The limit of growth of the main series.
    pub limit: Limit,
}

/// One step: its shape and the results of its valid trials.
///
/// A value that was not measured or does not exist (answers of a sink) is `None`, never 0; [`Summed::unknown`] has the
/// reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Step<K: Kind> {
    /// Server and traffic.
    #[serde(flatten)]
    pub shape: K::Shape,
    /// Buckets that the server was built with; with a subject, CPUs at most.
    pub buckets_configured: usize,
    /// CPUs of the active buckets, in bucket order.
    pub cpus: Vec<u32>,
    /// CPU time shares, medians.
    #[serde(default)]
    pub cpu_shares: Vec<CpuShare>,
    /// The fields specific to steps of this kind.
    #[serde(flatten)]
    pub found: K::Found,
    /// The observations of the last valid trial; `None` if none were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// Its metrics.
    #[serde(flatten)]
    pub summed: Summed,
}

/// Steps that differ only in the number of active buckets: at least one, in ascending order.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<'a, K: Kind>(pub Vec<&'a Step<K>>);

impl<K: Kind> Measured for Step<K> {
    fn values(&self) -> &Values {
        &self.summed.values
    }
}

impl<K: Kind> Step<K> {
    /// Creates a step without measurements.
    #[must_use]
    pub fn new(shape: K::Shape, buckets_configured: usize, cpus: Vec<u32>) -> Self {
        Self {
            shape,
            buckets_configured,
            cpus,
            cpu_shares: Vec::new(),
            found: K::Found::default(),
            observed: None,
            summed: Summed::default(),
        }
    }

    /// The mean idle share of its CPUs; see [`Kind::OF_WORKERS_ALONE`].
    pub(crate) fn idle_share(&self) -> Option<f64> {
        mean_share(self.own_shares(), |share| share.idle_share)
    }

    /// Their mean softirq share.
    pub(crate) fn softirq_share(&self) -> Option<f64> {
        mean_share(self.own_shares(), |share| share.softirq_share)
    }

    /// Its limit, by its valid trials: it `did` so much, so many times what `one` bucket did, and what was found kept it
    /// from more.
    pub(crate) fn limit(
        &self,
        trials: &[&K::Trial],
        (did, one): (&str, &str),
        (cause, because): limit::Found,
    ) -> Limit {
        let (linearity, active) = (linearity_metric::<K::Trial>().of(self), self.shape.active());
        let times = linearity.filter(|_| active > 1);
        let times = times.map(|linearity| format!(", {:.2} times {one}", linearity * active as f64));
        let limit = Limit {
            cause,
            sentence: format!("{did}{}; the limit was {because}.", times.unwrap_or_default()),
            ..Limit::default()
        };
        let mut doubts = limit::doubts(linearity, active, others_metric::<K::Trial>().of(self));
        // A server that was lost for a time did less than it can.
        let lost = trials.iter().flat_map(|trial| &trial.head().lost);
        doubts.extend(lost.map(ToString::to_string));
        limit.doubted(doubts)
    }

    fn own_shares(&self) -> impl Iterator<Item = &CpuShare> {
        let counts = |share: &&CpuShare| !K::OF_WORKERS_ALONE || self.cpus.contains(&share.cpu);
        self.cpu_shares.iter().filter(counts)
    }
}

impl<'a, K: Kind> Series<'a, K> {
    /// The shape of its first step.
    #[must_use]
    pub fn shape(&self) -> &'a K::Shape {
        &self.0[0].shape
    }

    /// The last step that has a valid trial.
    #[must_use]
    pub fn last_measured(&self) -> Option<&'a Step<K>> {
        self.0.iter().copied().rfind(|step| step.summed.trials > 0)
    }
}

impl<K: Kind> Report<K> {
    /// The document before the first trial of these steps, whose ends share the steering.
    pub(crate) fn planned(
        (head, kind): (Head, K),
        plan: &impl Serialize,
        steps: &[K::Shape],
        steering: &Steering,
    ) -> Self {
        let step = |shape: &K::Shape| {
            let cpus = steering.cpus[..shape.active()].to_vec();
            Step::new(shape.clone(), steering.cpus.len(), cpus)
        };
        Self {
            head,
            plan: as_json(plan),
            steering: as_json(steering),
            kind,
            steps: steps.iter().map(step).collect(),
            trials: Vec::new(),
            scaling: Scaling::default(),
            limit: Limit::unknown(),
        }
    }

    /// Whether it is a quick run, which is indicative.
    pub(crate) fn is_quick(&self) -> bool {
        self.plan["quick"] == true
    }

    /// The metric that steps are judged by.
    #[must_use]
    pub fn rate(&self) -> &'static Metric<K::Trial> {
        self.kind.metrics()[0]
    }

    /// The valid trials of a step.
    pub(crate) fn valid_trials(&self, step: usize) -> Vec<&K::Trial> {
        valid(&self.trials, step)
    }

    /// The valid trials of one of the steps.
    pub(crate) fn trials_of(&self, step: &Step<K>) -> Vec<&K::Trial> {
        let index = self.steps.iter().position(|other| std::ptr::eq(other, step));
        index.map_or_else(Vec::new, |index| self.valid_trials(index))
    }

    /// What the traffic is aimed at: `buckets`, or the CPUs of a subject.
    pub(crate) fn places(&self) -> &'static str {
        self.steps.first().map_or("buckets", |step| step.shape.places(2))
    }

    /// The series of the plain experiment, in document order; each in ascending order of active buckets.
    pub(crate) fn series(&self) -> Vec<Series<'_, K>> {
        let mut all: Vec<Series<'_, K>> = Vec::new();
        for step in self.steps.iter().filter(|step| step.shape.is_plain()) {
            match all.iter_mut().find(|series| series.shape().grows_to(&step.shape)) {
                Some(series) => series.0.push(step),
                None => all.push(Series(vec![step])),
            }
        }
        for series in &mut all {
            series.0.sort_by_key(|step| step.shape.active());
        }
        all
    }

    /// The judged series and the controls. If no series is judged, the first is used.
    #[must_use]
    pub fn parted_series(&self) -> [Vec<Series<'_, K>>; 2] {
        let parted = self.series().into_iter();
        let (mut judged, mut controls): (Vec<_>, Vec<_>) =
            parted.partition(|series| series.shape().is_judged());
        if judged.is_empty() && !controls.is_empty() {
            judged.push(controls.remove(0));
        }
        [judged, controls]
    }

    /// The series that the verdict is about.
    #[must_use]
    pub fn main_series(&self) -> Option<Series<'_, K>> {
        let [judged, _] = self.parted_series();
        let first = judged.first()?.shape();
        judged
            .into_iter()
            .max_by_key(|series| series.shape().weight(first))
    }

    /// The last measured step of that series.
    pub(crate) fn last_step(&self) -> Option<&Step<K>> {
        self.main_series()?.last_measured()
    }

    /// Computes every step from its valid trials, then the comparisons of steps and the scaling law. Limits do not
    /// change.
    pub fn summarise(&mut self) {
        let metrics = self.kind.metrics();
        let linearities: Vec<_> = (0..self.steps.len()).map(|step| self.linearity(step)).collect();
        for ((index, step), linearity) in self.steps.iter_mut().enumerate().zip(linearities) {
            let valid = valid(&self.trials, index);
            let limited = |trial: &&K::Trial| {
                let head = trial.head();
                (head.step, head.status) == (index, TrialStatus::GeneratorLimited)
            };
            step.summed.trials = valid.len();
            step.summed.generator_limited_trials = self.trials.iter().filter(limited).count();
            step.summed.values.fill(metrics, &valid);
            step.summed
                .values
                .set_spread(&linearity_metric::<K::Trial>(), linearity);
            step.cpu_shares = middle_shares(valid.iter().flat_map(|trial| trial.cpu_shares()));
            K::fill(&mut step.found, &valid);
        }
        K::compare(self);
        self.give_reasons();
        let main = self.main_series().map_or_else(Vec::new, |series| series.0);
        // Workers are counted by CPU: buckets that share a CPU count once.
        let point = |step: &Step<K>| Some((distinct(&step.cpus), self.kind.law_rate(step)?));
        self.scaling = Scaling::of(&main.into_iter().filter_map(point).collect::<Vec<_>>());
    }

    /// Computes metrics that a document of an earlier version lacks, from its raw trials.
    pub fn fill_lacking(&mut self) {
        for (index, step) in self.steps.iter_mut().enumerate() {
            let valid = valid(&self.trials, index);
            for metric in self.kind.metrics() {
                if metric.read.is_some() && step.summed.values.lacks(metric.name) {
                    step.summed.values.set(metric.name, metric.combine(&valid));
                }
            }
        }
    }

    /// Linearity of a step: its rate, divided by the number of active buckets times the plain rate at one bucket. Both
    /// rates are the medians that tables show; the range is that of the quotients within rounds.
    fn linearity(&self, index: usize) -> Option<Spread> {
        let shape = &self.steps[index].shape;
        let base = |other: &Step<K>| {
            other.shape.active() == 1 && other.shape.is_plain() && other.shape.grows_to(shape)
        };
        let base = self.steps.iter().position(base)?;
        let [own, one] =
            [index, base].map(|step| Spread::of(&self.rate().numbers(valid(&self.trials, step))));
        let rates = |step: usize, times: usize| {
            let rate = move |trial: &K::Trial| {
                let rate = self.rate().of_trial(trial);
                trial.head().in_round(rate.map(|rate| rate * times as f64))
            };
            valid(&self.trials, step).into_iter().filter_map(rate)
        };
        let rounds = statistics::within_rounds(rates(index, 1), rates(base, shape.active()))?;
        let median = statistics::ratio(own?.median, one?.median * shape.active() as f64)?;
        Some(Spread { median, ..rounds })
    }

    /// Sets the reason for every missing field of a step: from the trials, the experiment, or the trials' status.
    fn give_reasons(&mut self) {
        let kind = &self.kind;
        for (index, step) in self.steps.iter_mut().enumerate() {
            let head = || {
                self.trials
                    .iter()
                    .map(Trial::head)
                    .filter(|head| head.step == index)
            };
            let reason = |name: &str| {
                let of_trial = head().find_map(|head| head.unknown.get(name).cloned());
                of_trial
                    .or_else(|| kind.reason(step, name).map(str::to_owned))
                    .or_else(|| why_missing(name, &head().map(|head| head.status).collect::<Vec<_>>()))
                    .unwrap_or_else(|| "the trials did not count it".to_owned())
            };
            // A document is concluded after every trial: earlier reasons may no longer hold.
            let missing = kind.missing(step).into_iter();
            step.summed.unknown = missing.map(|name| (name.to_owned(), reason(name))).collect();
        }
    }
}

/// The CPU quota that limited the server in the last of these trials in which one did.
pub(crate) fn quota<T: Trial>(trials: &[&T]) -> Option<String> {
    trials.iter().rev().find_map(|trial| trial.head().quota.clone())
}

fn valid<T: Trial>(trials: &[T], step: usize) -> Vec<&T> {
    let own = |trial: &&T| trial.head().step == step && trial.head().is_valid();
    trials.iter().filter(own).collect()
}

/// The metric of growth, which the conclusion sets.
pub(crate) const fn linearity_metric<T>() -> Metric<T> {
    Metric::more("linearity", "linearity", Show::Fixed(2))
        .about("Rate at this many buckets over as many times the rate at one; both rates are medians.")
        .spread("linearity_spread")
}

/// The metric of disturbance by other programs.
pub(crate) const fn others_metric<T>() -> Metric<T> {
    Metric::explaining("others_cpu_share", "others", Show::WholeShare)
        .about("Estimated share of the CPUs' time used by programs that are neither server nor generator.")
}

/// The reason for a missing number, from the status of the trials.
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

/// Reads what has a map by numbers, as the pages of each node are. Its keys are strings in JSON, whose own reader turns
/// them back; that of a flattened struct, which [`Kind::Found`] is, does not.
pub(crate) fn through_json<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    serde_json::from_value(value).map_err(D::Error::custom)
}

/// The column of the number of active buckets.
pub(crate) fn active<K: Kind>() -> Reading<'static, Step<K>> {
    count("N", "buckets_active", |step: &Step<K>| step.shape.active() as u64)
}
