//! Which strides alias: from the geometry of the caches to how many frame headers of a burst they can hold.
//!
//! A cache of S sets puts line L into set L mod S and holds as many lines there as it has ways. Headers of frame
//! buffers that lie a stride apart reach only some of the sets when the stride shares factors with S lines: at 2,048
//! bytes every 32nd. The post's remedy, 1,920, reaches every second. Counted here line by line, for the private levels:
//! the last level spreads lines over its slices by a hash that no vendor documents, so nothing is predicted for it.

use super::setting::Setting;
use super::step::{FRAMES, Step};
use crate::trial::{TrialHead, trial};
use corelane_host::cpus::CacheInfo;
use corelane_measure::statistics::{Spread, within_rounds};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the caches can do with one stride, and what was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stride {
    /// Bytes from one frame buffer to the next.
    pub stride: usize,
    /// What each private level holds of a burst's headers; empty where the kernel hides the caches' geometry.
    pub levels: Vec<Held>,
    /// Whether a private level holds less than it would if the headers spread over all its sets: what it does not hold
    /// must come from further away. `None` if nothing is known.
    pub aliases: Option<bool>,
    /// Nanoseconds to fetch a header of a burst that just arrived, one after the other: the next is known only when the
    /// one before has come, so that nothing hides how far away it is.
    pub ns_per_header: Option<f64>,
    /// The rounds of `ns_per_header`.
    pub ns_per_header_spread: Option<Spread>,
    /// That over the quickest stride's, within each round.
    pub of_quickest: Option<f64>,
    /// Whether prediction and `ns_per_header` agree: longer by [`DISTANCE`] or more in every round where it aliases,
    /// and not where it does not.
    pub agrees: Option<bool>,
    /// Frames per second if only headers are fetched, see `Setting::is_stride_probe`. It shows how much the distance
    /// matters, because CPUs overlap the fetches of several frames.
    pub frames_per_s: Option<f64>,
}

/// One measurement of how far headers are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HeaderTrial {
    /// Round and status; the step is its place in the schedule.
    #[serde(flatten)]
    pub head: TrialHead,
    /// The stride; 0 if the trial failed.
    pub stride: usize,
    /// See [`Stride::ns_per_header`].
    pub ns_per_header: f64,
}

trial!(HeaderTrial);

/// A header is further away when it takes a quarter longer: a half of them in the next level costs more, as each level
/// takes about three times the one before.
pub const DISTANCE: f64 = 1.25;

/// What a level holds of a burst's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The level.
    pub level: u32,
    /// Sets that the headers reach.
    pub sets_used: u64,
    /// Sets there are.
    pub sets: u64,
    /// Lines that the headers of a burst take.
    pub lines: u64,
    /// How many of them fit at once.
    pub lines_held: u64,
    /// How many would fit if they spread over all sets.
    pub lines_at_best: u64,
}

/// Bytes of a frame that are looked at, from its start: Ethernet and IPv4 headers are in the first line.
const HEADER_BYTES: usize = 64;

/// A level aliases when it holds less than this share of what it could: below, chance decides more than geometry.
const HELD_AT_LEAST: f64 = 0.95;

impl Stride {
    /// The prediction: `aliases in L1, L2` or `spreads`; `None` if nothing is known.
    pub(crate) fn foretold(&self) -> Option<String> {
        let short = self.levels.iter().filter(|held| held.aliases());
        let levels: Vec<String> = short.map(|held| format!("L{}", held.level)).collect();
        self.aliases.map(|aliases| match aliases {
            true => format!("aliases in {}", levels.join(", ")),
            false => "spreads".to_owned(),
        })
    }

    /// Predicts what the caches hold of the headers of `burst` frames.
    #[must_use]
    pub fn predicted(stride: usize, burst: usize, caches: &[CacheInfo]) -> Self {
        let private = caches.iter().filter(|cache| cache.level <= 2);
        let levels: Vec<Held> = private.filter_map(|cache| held(stride, burst, cache)).collect();
        Self {
            stride,
            aliases: (!levels.is_empty()).then(|| levels.iter().any(Held::aliases)),
            levels,
            ..Self::default()
        }
    }
}

impl Held {
    /// Whether it holds less than it would if the headers spread over all sets.
    pub(crate) fn aliases(&self) -> bool {
        (self.lines_held as f64) < HELD_AT_LEAST * self.lines_at_best as f64
    }
}

fn held(stride: usize, burst: usize, cache: &CacheInfo) -> Option<Held> {
    let line = cache.line_bytes.filter(|bytes| *bytes > 0)? as usize;
    let sets = u64::from(cache.sets.filter(|sets| *sets > 0)?);
    let ways = u64::from(cache.ways?);
    let mut used: BTreeMap<u64, u64> = BTreeMap::new();
    let mut lines = 0;
    for frame in 0..burst {
        let first = frame * stride;
        for number in first / line..=(first + HEADER_BYTES - 1) / line {
            *used.entry(number as u64 % sets).or_default() += 1;
            lines += 1;
        }
    }
    Some(Held {
        level: cache.level,
        sets_used: used.len() as u64,
        sets,
        lines,
        lines_held: used.values().map(|lines| (*lines).min(ways)).sum(),
        lines_at_best: lines.min(sets * ways),
    })
}

/// Adds the measurements to the predictions.
pub(super) fn measure(strides: &mut [Stride], steps: &[Step], trials: &[HeaderTrial]) {
    let times = |size: usize| {
        let is_own = move |trial: &&HeaderTrial| trial.stride == size && trial.head.is_result();
        let own = trials.iter().filter(is_own);
        own.filter_map(|trial| trial.head.in_round(Some(trial.ns_per_header)))
    };
    for stride in &mut *strides {
        let probes = |setting: &Setting| setting.stride == stride.stride && setting.is_stride_probe();
        let step = steps.iter().find(|step| probes(&step.setting));
        stride.frames_per_s = step.and_then(|step| FRAMES.of(step));
        let own: Vec<f64> = times(stride.stride).map(|(_, time)| time).collect();
        stride.ns_per_header_spread = Spread::of(&own);
        stride.ns_per_header = stride.ns_per_header_spread.map(|spread| spread.median);
    }
    let time = |stride: &&Stride| stride.ns_per_header.unwrap_or(f64::INFINITY);
    let quickest = strides
        .iter()
        .min_by(|one, other| time(one).total_cmp(&time(other)));
    let quickest = quickest.map(|stride| stride.stride);
    for stride in strides {
        let ratios = quickest.and_then(|quickest| within_rounds(times(stride.stride), times(quickest)));
        stride.of_quickest = ratios.map(|spread| spread.median);
        let further = ratios.map(|spread| spread.minimum >= DISTANCE);
        let both = further.zip(stride.aliases);
        stride.agrees = both.map(|(further, aliases)| further == aliases);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_host::cpus::CacheKind;

    const FIRST: CacheInfo = CacheInfo {
        level: 1,
        kind: CacheKind::Data,
        bytes: Some(48 << 10),
        line_bytes: Some(64),
        ways: Some(12),
        sets: Some(64),
        shared_by: Vec::new(),
    };
    const SECOND: CacheInfo = CacheInfo {
        level: 2,
        kind: CacheKind::Unified,
        bytes: Some(1 << 20),
        line_bytes: Some(64),
        ways: Some(16),
        sets: Some(1024),
        shared_by: Vec::new(),
    };

    #[test]
    fn the_post_s_default_stride_aliases_and_its_remedy_does_not_in_the_second_level() {
        let aligned = Stride::predicted(2048, 1024, &[FIRST, SECOND]);
        let expected = Held {
            level: 2,
            sets_used: 32,
            sets: 1024,
            lines: 1024,
            lines_held: 512,
            lines_at_best: 1024,
        };
        assert_eq!((aligned.levels[1], aligned.aliases), (expected, Some(true)));
        let shifted = Stride::predicted(1920, 1024, &[SECOND]);
        assert_eq!(
            (shifted.levels[0].sets_used, shifted.levels[0].lines_held),
            (512, 1024)
        );
        assert_eq!(shifted.aliases, Some(false));
    }

    #[test]
    fn the_remedy_still_leaves_half_of_a_small_first_level_unused() {
        let shifted = Stride::predicted(1920, 1024, &[FIRST, SECOND]);
        assert_eq!(
            (shifted.levels[0].lines_held, shifted.levels[0].lines_at_best),
            (384, 768)
        );
        assert_eq!(shifted.foretold().as_deref(), Some("aliases in L1"));
        let aligned = Stride::predicted(2048, 1024, &[FIRST, SECOND]);
        assert_eq!(aligned.foretold().as_deref(), Some("aliases in L1, L2"));
    }

    #[test]
    fn an_odd_number_of_lines_reaches_every_set_and_a_broken_line_takes_two() {
        for stride in [1984, 2112] {
            let odd = Stride::predicted(stride, 1024, &[FIRST, SECOND]);
            assert_eq!(odd.aliases, Some(false), "{stride}");
            assert_eq!(odd.levels[0].sets_used, 64);
        }
        assert_eq!(
            Stride::predicted(2000, 1024, &[SECOND]).levels[0].lines,
            1024 + 768
        );
    }

    #[test]
    fn prediction_and_measurement_agree_when_headers_that_do_not_fit_are_further_away() {
        let caches = [SECOND];
        let mut strides = [2048, 1920].map(|stride| Stride::predicted(stride, 1024, &caches));
        let trial = |stride, round, ns_per_header| HeaderTrial {
            head: TrialHead::new(0, round, 1.0),
            stride,
            ns_per_header,
        };
        let mut trials = vec![
            trial(2048, 0, 9.0),
            trial(1920, 0, 4.0),
            trial(2048, 1, 18.0),
            trial(1920, 1, 8.0),
        ];
        measure(&mut strides, &[], &trials);
        assert_eq!(
            strides.each_ref().map(|stride| stride.of_quickest),
            [Some(2.25), Some(1.0)]
        );
        assert_eq!(
            strides.each_ref().map(|stride| stride.agrees),
            [Some(true), Some(true)]
        );
        trials.push(trial(2048, 2, 4.0));
        trials.push(trial(1920, 2, 4.0));
        measure(&mut strides, &[], &trials);
        assert_eq!(strides[0].agrees, Some(false), "not in every round");
    }

    #[test]
    fn nothing_is_foretold_of_hidden_caches_or_of_the_last_level() {
        let hidden = CacheInfo { ways: None, ..SECOND };
        let last = CacheInfo { level: 3, ..SECOND };
        assert_eq!(Stride::predicted(2048, 1024, &[hidden, last]).aliases, None);
    }
}
