//! Which choices mattered here: pairs of steps that differ in one thing, compared within each round.

use super::published;
use super::setting::{LockKind, PrefetchKind, Setting, TableKind};
use super::step::{FRAMES, Step, Trial};
use corelane_measure::quantity::count;
use corelane_measure::statistics::{Spread, within_rounds};
use serde::{Deserialize, Serialize};

/// A difference below a twentieth counts as none: runs of one setting differ by as much on a shared machine.
const LEAST: f64 = 0.05;

/// A choice and what it brought: two steps, compared within each round, so that drift of the machine cancels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// `stride`, `batch`, `prefetch`, `distance`, `buckets`, `threads`, `lock` or `table`.
    pub factor: String,
    /// What was chosen instead of what, and with which other settings.
    pub words: String,
    /// The step compared with, by its place in `steps`.
    pub from: usize,
    /// The step that differs.
    pub to: usize,
    /// Frames per second of `to` over those of `from`.
    pub ratio: Spread,
    /// Whether the two differ by more than a twentieth, and in the same direction in every round.
    pub mattered: bool,
}

/// Factor and words of a choice, and its two steps, which may not have been measured.
type Pair = (&'static str, String, [Option<usize>; 2]);

/// Compares two steps in the rounds in which both were measured.
fn compared((factor, words, steps): Pair, trials: &[Trial]) -> Option<Choice> {
    let [Some(from), Some(to)] = steps else {
        return None;
    };
    let of = |step: usize| {
        let own = trials.iter().filter(move |trial| trial.head.step == step);
        // A spoilt trial of a round has no rate; its repeat has one.
        own.filter_map(|trial| trial.head.in_round(trial.frames_per_s()))
    };
    let ratio = within_rounds(of(to), of(from)).filter(|_| from != to)?;
    let faster = ratio.median >= 1.0 + LEAST && ratio.minimum > 1.0;
    let slower = ratio.median <= 1.0 / (1.0 + LEAST) && ratio.maximum < 1.0;
    Some(Choice {
        factor: factor.to_owned(),
        words,
        from,
        to,
        ratio,
        mattered: faster || slower,
    })
}

/// The steps that are compared, and their trials.
pub(super) struct Compared<'a> {
    pub(super) burst: usize,
    pub(super) steps: &'a [Step],
    pub(super) trials: &'a [Trial],
}

impl Compared<'_> {
    /// Every choice for which both steps were measured; those that mattered first, the greatest difference before all.
    pub(super) fn choices(&self) -> Vec<Choice> {
        let pairs = self.of_one_thread().into_iter().chain(self.of_threads());
        let mut choices: Vec<Choice> = pairs.filter_map(|pair| compared(pair, self.trials)).collect();
        let weight = |choice: &Choice| (choice.mattered, choice.ratio.median.ln().abs());
        choices.sort_by(|one, other| {
            let (one, other) = (weight(one), weight(other));
            other.0.cmp(&one.0).then(other.1.total_cmp(&one.1))
        });
        choices
    }

    /// The post's setting in batches of 4.
    fn post(&self) -> Setting {
        Setting {
            burst: self.burst,
            batch: 4,
            ..Setting::POST
        }
    }

    /// The step of this setting, of however many entries.
    fn find(&self, wanted: Setting) -> Option<usize> {
        self.steps.iter().position(|step| step.setting.repeats(&wanted))
    }

    /// The fastest step among those wanted.
    pub(super) fn best(&self, wanted: impl Fn(&Setting) -> bool) -> Option<usize> {
        let rate = |place: &usize| FRAMES.of(&self.steps[*place]).unwrap_or(0.0);
        (0..self.steps.len())
            .filter(|place| wanted(&self.steps[*place].setting) && rate(place) > 0.0)
            .max_by(|one, other| rate(one).total_cmp(&rate(other)))
    }

    /// Strides, batches, prefetching, buckets and tables.
    fn of_one_thread(&self) -> Vec<Pair> {
        let ([aligned, shifted], [few, many], post) = (published::STRIDES, published::BUCKETS, self.post());
        let one = Setting { batch: 1, ..post };
        let mut pairs = Vec::new();
        for (entries, over) in [(0, "an empty table"), (post.entries, "the post's table")] {
            let words =
                format!("a stride of {shifted} instead of {aligned}, over {over}, one frame at a time");
            let one = Setting { entries, ..one };
            let at = |stride| self.find(Setting { stride, ..one });
            pairs.push(("stride", words, [aligned, shifted].map(at)));
        }
        let batched =
            self.best(|setting| setting.batch > 1 && Setting { batch: 1, ..*setting }.repeats(&one));
        let batch = batched.map_or(0, |place| self.steps[place].setting.batch);
        let words = format!("batches of {batch} instead of 1, nothing prefetched, over the post's table");
        pairs.push(("batch", words, [self.find(one), batched]));
        for (kind, what) in [
            (PrefetchKind::Header, "headers"),
            (PrefetchKind::Bucket, "buckets"),
            (PrefetchKind::Both, "headers and buckets"),
        ] {
            let words = format!("{what} prefetched instead of nothing, batches of 4, over the post's table");
            let with = |prefetch| self.find(Setting { prefetch, ..post });
            pairs.push(("prefetch", words, [PrefetchKind::None, kind].map(with)));
        }
        let exact = |setting: &Setting| setting.table == TableKind::Exact && setting.threads == 1;
        let batched = self.best(|setting| exact(setting) && setting.prefetch_distance.is_none());
        let rolling = self.best(|setting| exact(setting) && setting.prefetch_distance.is_some());
        let distance = rolling.and_then(|place| self.steps[place].setting.prefetch_distance);
        let words = format!(
            "prefetching {} lookups ahead through the burst instead of a batch at a time, over the exact table",
            distance.unwrap_or(0)
        );
        pairs.push(("distance", words, [batched, rolling]));
        let words = format!(
            "{} buckets instead of {}, buckets prefetched, batches of 4",
            count(many),
            count(few)
        );
        let of = |buckets| self.find(bucket_prefetching(post, buckets));
        pairs.push(("buckets", words, [few, many].map(of)));
        let words = "the exact table instead of the post's, each with its best settings".to_owned();
        let full = |table| {
            self.best(move |setting| setting.table == table && setting.entries > 0 && setting.threads == 1)
        };
        let tables = [TableKind::Post, TableKind::Exact].map(full);
        pairs.push(("table", words, tables));
        pairs
    }

    /// Threads that share the post's larger table, and their locks.
    fn of_threads(&self) -> Vec<Pair> {
        let base = bucket_prefetching(self.post(), published::BUCKETS[1]);
        let most = self.steps.iter().map(|step| step.setting.threads).max();
        let most = most.unwrap_or(1);
        let at = |threads, lock| {
            self.find(Setting {
                threads,
                lock,
                ..base
            })
        };
        let words = format!("{most} threads instead of 1, without a lock, over the post's table");
        let unlocked = [1, most].map(|threads| at(threads, LockKind::None));
        let mut pairs = vec![("threads", words, unlocked)];
        let mut counts = vec![(1, "1 thread".to_owned()), (most, format!("{most} threads"))];
        counts.dedup_by_key(|(threads, _)| *threads);
        for (threads, on) in counts {
            for (lock, what) in [
                (LockKind::Read, "a read lock a frame"),
                (LockKind::ReadPerBatch, "a read lock a batch of 4"),
            ] {
                let words = format!("{what} instead of none, {on}, over the post's table");
                let locks = [LockKind::None, lock].map(|lock| at(threads, lock));
                pairs.push(("lock", words, locks));
            }
        }
        pairs
    }
}

fn bucket_prefetching(post: Setting, buckets: u64) -> Setting {
    Setting {
        table_buckets: Some(buckets),
        prefetch: PrefetchKind::Bucket,
        ..post
    }
}
