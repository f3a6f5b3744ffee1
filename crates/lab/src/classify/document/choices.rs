//! Which choices mattered here: pairs of steps that differ in one thing, compared within each round.

use super::setting::{LockKind, PrefetchKind, Setting, TableKind};
use super::step::{Step, Trial};
use super::{ClassifyReport, published};
use crate::classify::metrics::FRAMES;
use corelane_measure::statistics::Spread;
use serde::{Deserialize, Serialize};

/// A difference below a twentieth is told as none: runs of one setting differ by as much on a shared machine.
pub const LEAST: f64 = 0.05;

/// Two steps, compared within each round, so that drift of the machine cancels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The step compared with, by its place in `steps`.
    pub from: usize,
    /// The step that differs.
    pub to: usize,
    /// Frames a second of `to` over those of `from`.
    pub ratio: Spread,
}

impl Comparison {
    /// The rounds in which both were measured.
    #[must_use]
    pub fn of(from: usize, to: usize, trials: &[Trial]) -> Option<Self> {
        let rate = |step: usize, round: u32| {
            let trial = trials
                .iter()
                .find(|trial| trial.step == step && trial.round == round)?;
            trial.frames_per_s()
        };
        let rounds = trials
            .iter()
            .filter(|trial| trial.step == to)
            .map(|trial| trial.round);
        let ratios: Vec<f64> = rounds
            .filter_map(|round| Some(rate(to, round)? / rate(from, round)?))
            .collect();
        Some(Self {
            from,
            to,
            ratio: Spread::of(&ratios)?,
        })
    }

    /// Whether the two differ by more than [`LEAST`], and in the same direction in every round.
    #[must_use]
    pub fn matters(&self) -> bool {
        let Spread {
            median,
            minimum,
            maximum,
            ..
        } = self.ratio;
        (median >= 1.0 + LEAST && minimum > 1.0) || (median <= 1.0 / (1.0 + LEAST) && maximum < 1.0)
    }
}

/// A choice and what it brought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// `stride`, `batch`, `prefetch`, `distance`, `buckets`, `threads`, `lock` or `table`.
    pub factor: String,
    /// What was chosen instead of what, and with which other settings.
    pub words: String,
    /// The two steps.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// See [`Comparison::matters`].
    pub mattered: bool,
}

/// Every choice for which both steps were measured; those that mattered first, the greatest difference before all.
pub(super) fn choices(report: &ClassifyReport) -> Vec<Choice> {
    let finder = Finder {
        burst: report.plan.burst,
        steps: &report.steps,
        trials: &report.trials,
    };
    let mut choices = Vec::new();
    finder.strides_and_batches(&mut choices);
    finder.prefetching(&mut choices);
    finder.locks(&mut choices);
    finder.tables(&mut choices);
    let weight = |choice: &Choice| (choice.mattered, choice.comparison.ratio.median.ln().abs());
    choices.sort_by(|one, other| {
        let (one, other) = (weight(one), weight(other));
        other.0.cmp(&one.0).then(other.1.total_cmp(&one.1))
    });
    choices
}

struct Finder<'a> {
    burst: usize,
    steps: &'a [Step],
    trials: &'a [Trial],
}

impl Finder<'_> {
    /// The post's setting over its large table, batches of 4, changed as told.
    fn full(&self, change: impl Fn(&mut Setting)) -> Setting {
        let mut setting = Setting {
            table: TableKind::Post,
            table_buckets: Some(published::BUCKETS[0]),
            entries: published::ENTRIES,
            burst: self.burst,
            batch: 4,
            prefetch: PrefetchKind::None,
            prefetch_distance: None,
            stride: published::STRIDES[1],
            threads: 1,
            lock: LockKind::None,
        };
        change(&mut setting);
        setting
    }

    /// The step of this setting, of however many entries.
    fn find(&self, wanted: &Setting) -> Option<usize> {
        self.steps.iter().position(|step| step.setting.repeats(wanted))
    }

    /// The fastest step among those wanted.
    fn best(&self, wanted: impl Fn(&Setting) -> bool) -> Option<usize> {
        let rate = |place: &usize| FRAMES.of(&self.steps[*place]).unwrap_or(0.0);
        (0..self.steps.len())
            .filter(|place| wanted(&self.steps[*place].setting) && rate(place) > 0.0)
            .max_by(|one, other| rate(one).total_cmp(&rate(other)))
    }

    fn compare(&self, factor: &str, words: String, from: Option<usize>, to: Option<usize>) -> Option<Choice> {
        let (from, to) = (from?, to?);
        let comparison = Comparison::of(from, to, self.trials).filter(|_| from != to)?;
        Some(Choice {
            factor: factor.to_owned(),
            words,
            mattered: comparison.matters(),
            comparison,
        })
    }

    fn strides_and_batches(&self, choices: &mut Vec<Choice>) {
        let [aligned, shifted] = published::STRIDES;
        for (words, entries) in [
            ("over an empty table, one frame at a time", 0),
            ("over the post's table, one frame at a time", published::ENTRIES),
        ] {
            let at = |stride| {
                self.find(&self.full(|setting| {
                    (setting.entries, setting.batch, setting.stride) = (entries, 1, stride);
                }))
            };
            choices.extend(self.compare(
                "stride",
                format!("a stride of {shifted} instead of {aligned}, {words}"),
                at(aligned),
                at(shifted),
            ));
        }
        let one = self.full(|setting| setting.batch = 1);
        let best = self.best(|setting| {
            let alone = Setting {
                batch: 1,
                ..setting.clone()
            };
            setting.batch > 1 && alone.repeats(&one)
        });
        let batch = best.map_or(0, |best| self.steps[best].setting.batch);
        choices.extend(self.compare(
            "batch",
            format!("batches of {batch} instead of 1, nothing prefetched, over the post's table"),
            self.find(&one),
            best,
        ));
    }

    fn prefetching(&self, choices: &mut Vec<Choice>) {
        let with = |prefetch| self.find(&self.full(|setting| setting.prefetch = prefetch));
        for (prefetch, words) in [
            (PrefetchKind::Header, "headers"),
            (PrefetchKind::Bucket, "buckets"),
            (PrefetchKind::Both, "headers and buckets"),
        ] {
            choices.extend(self.compare(
                "prefetch",
                format!("{words} prefetched instead of nothing, batches of 4, over the post's table"),
                with(PrefetchKind::None),
                with(prefetch),
            ));
        }
        let exact = |setting: &Setting| setting.table == TableKind::Exact && setting.threads == 1;
        let batched = self.best(|setting| exact(setting) && setting.prefetch_distance.is_none());
        let rolling = self.best(|setting| exact(setting) && setting.prefetch_distance.is_some());
        let distance = rolling.and_then(|place| self.steps[place].setting.prefetch_distance);
        choices.extend(self.compare(
            "distance",
            format!(
                "prefetching {} lookups ahead through the burst instead of a batch at a time, over the exact table",
                distance.unwrap_or(0)
            ),
            batched,
            rolling,
        ));
    }

    fn locks(&self, choices: &mut Vec<Choice>) {
        let most = self
            .steps
            .iter()
            .map(|step| step.setting.threads)
            .max()
            .unwrap_or(1);
        let at = |threads, lock| {
            self.find(&self.full(|setting| {
                setting.table_buckets = Some(published::BUCKETS[1]);
                setting.prefetch = PrefetchKind::Bucket;
                (setting.threads, setting.lock) = (threads, lock);
            }))
        };
        choices.extend(self.compare(
            "threads",
            format!("{most} threads instead of 1, without a lock, over the post's table"),
            at(1, LockKind::None),
            at(most, LockKind::None),
        ));
        let mut counts = vec![1, most];
        counts.dedup();
        for threads in counts {
            let on = if threads == 1 {
                "1 thread".to_owned()
            } else {
                format!("{threads} threads")
            };
            for (lock, words) in [
                (LockKind::Read, "a read lock a frame"),
                (LockKind::ReadPerBatch, "a read lock a batch of 4"),
            ] {
                choices.extend(self.compare(
                    "lock",
                    format!("{words} instead of none, {on}, over the post's table"),
                    at(threads, LockKind::None),
                    at(threads, lock),
                ));
            }
        }
    }

    fn tables(&self, choices: &mut Vec<Choice>) {
        let [few, many] = published::BUCKETS;
        let buckets = |buckets| {
            self.find(&self.full(|setting| {
                (setting.table_buckets, setting.prefetch) = (Some(buckets), PrefetchKind::Bucket);
            }))
        };
        choices.extend(self.compare(
            "buckets",
            format!(
                "{} buckets instead of {}, buckets prefetched, batches of 4",
                corelane_measure::quantity::count(many),
                corelane_measure::quantity::count(few)
            ),
            buckets(few),
            buckets(many),
        ));
        let of = |table| {
            self.best(move |setting| setting.table == table && setting.entries > 0 && setting.threads == 1)
        };
        choices.extend(self.compare(
            "table",
            "the exact table instead of the post's, each with its best settings".to_owned(),
            of(TableKind::Post),
            of(TableKind::Exact),
        ));
    }
}
