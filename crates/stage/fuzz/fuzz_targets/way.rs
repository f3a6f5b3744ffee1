//! Arbitrary frames, several in a batch, through all stages: every frame is in one cell, and what is known of a frame is what
//! its bytes say. For an hour: `tests/fuzz.sh 60 way`.

#![no_main]

use corelane_packet::{Dissection, HashTypes};
use corelane_rss::{Bucket, IndirectionTable, Key, Toeplitz};
use corelane_stage::counts::Class;
use corelane_stage::dispatch::{Dispatch, DispatchPlan, Spread, Workstreams};
use corelane_stage::{Desk, Fate, Context, Stage, StagePlans, TableStage, Verdict, Way, WayCounts, Work};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

const BUCKETS: u16 = 3;

/// Sections of a file, by the lowest bits of the first byte: those that unwrap, and those that prepare frames for sending.
const UNWRAP: [&str; 4] = [
    "[reassemble]\n[decapsulate]\n",
    "[reassemble]\nat = 'owner'\nmemory = 16384\n[decapsulate]\nverify = false\n",
    "[decapsulate]\n",
    "[reassemble]\n",
];
const SEND: [&str; 4] = [
    "[coalesce]\n[segment]\n[fragment]\nmtu = 68\n",
    "[coalesce]\npush = 'merge'\nacks = 'merge'\n",
    "[encapsulate]\nkind = 'vxlan'\nvni = 7\nlocal = '10.0.0.1'\nremote = '10.0.0.2'\n[fragment]\nmtu = 100\n",
    "[coalesce]\n[segment]\n[encapsulate]\nkind = 'gre'\nlocal = '::1'\nremote = '::2'\n",
];

static PLANS: LazyLock<Vec<StagePlans>> = LazyLock::new(|| {
    let written = SEND
        .iter()
        .flat_map(|send| UNWRAP.map(|unwrap| [unwrap, send].concat()));
    let plans = written.map(|text| toml::from_str(&text).expect("these are settings of stages"));
    plans.collect()
});

static TOEPLITZ: LazyLock<Toeplitz> = LazyLock::new(|| Toeplitz::new(&Key::VERIFICATION));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [options, rest @ ..] = bytes else { return };
    let plans = &PLANS[usize::from(options & 15)];
    let counts = WayCounts::new(plans);
    let (mut way, mut desk) = (way(plans, options >> 4, &counts), Desk::default());
    let (mut came, mut left, mut now) = (0, 0, Instant::now());
    let mut rest = rest;
    while let [head, behind @ ..] = rest {
        let mut batch;
        (batch, rest) = frames(usize::from(head & 7) + 1, behind);
        now += Duration::from_secs((head >> 3).into());
        came += batch.len() as u64;
        let mut work = Work::new(&mut desk, &mut batch, now);
        way.run(&mut work);
        work.settle();
        left += leaving(&work);
        assert_eq!(came + made(&counts), left + gone(&counts));
    }
    let mut nothing = Vec::<Vec<u8>>::new();
    let mut work = Work::new(&mut desk, &mut nothing, now);
    way.end(&mut work);
    work.settle();
    left += leaving(&work);
    assert_eq!(came + made(&counts), left + gone(&counts));
    assert_eq!(sum(&counts, Class::Held), 0);
});

/// The stages of the middle bucket.
fn way(plans: &StagePlans, options: u8, counts: &WayCounts) -> Way {
    let context = Context {
        bucket: Bucket::new(1),
        buckets: BUCKETS,
        seed: 1,
        key: Key::VERIFICATION,
    };
    let spread = Spread {
        toeplitz: TOEPLITZ.clone(),
        hash_types: [HashTypes::ALL, HashTypes::NONE][usize::from(options & 1)],
        table: IndirectionTable::round_robin(128, BUCKETS.into()).expect("few buckets"),
        buckets: BUCKETS,
    };
    let streams = Arc::new(Workstreams::new(BUCKETS.into(), 256));
    let plan = DispatchPlan::default();
    let dispatch = Dispatch::new(context.bucket, &plan, Arc::new(spread), streams).with_owners(options & 2 != 0);
    let tables = TableStage::new(Vec::new(), Verdict::Pass, Verdict::Pass, Arc::default());
    let dispatch = (options & 4 == 0).then_some(dispatch);
    Way::new(plans, &context, dispatch, tables, counts)
}

/// So many frames, each of a byte with its length and its bytes, and what is behind them.
fn frames(count: usize, mut bytes: &[u8]) -> (Vec<Vec<u8>>, &[u8]) {
    let mut frames = Vec::new();
    while let [length, behind @ ..] = bytes
        && frames.len() < count
    {
        let (frame, behind) = behind.split_at(behind.len().min((*length).into()));
        frames.push(frame.to_vec());
        bytes = behind;
    }
    (frames, bytes)
}

/// The number of frames that leave: for links, or for other buckets.
fn leaving(work: &Work<'_, Vec<Vec<u8>>>) -> u64 {
    let fates = work.fates();
    let leaves = |place: usize| fates.is_none_or(|fates| fates[place] != Fate::Gone);
    let leaving = (0..work.len()).filter(|place| leaves(*place));
    leaving
        .inspect(|place| assert_eq!(work.dissection(*place), Dissection::of(work.frame(*place))))
        .count() as u64
}

fn made(counts: &WayCounts) -> u64 {
    sum(counts, Class::Made)
}

fn gone(counts: &WayCounts) -> u64 {
    [Class::Dropped, Class::Used, Class::Held]
        .map(|class| sum(counts, class))
        .iter()
        .sum()
}

fn sum(counts: &WayCounts, class: Class) -> u64 {
    let mut sum = 0;
    counts.each(&mut |_, count| sum += if count.class == class { count.value } else { 0 });
    sum
}
