//! Makes the stages of a worker's buckets by a plan: when it starts, and when the plan changes.

use super::counts::WorkerCounts;
use super::plan::BridgePlan;
use crate::shared::lock;
use corelane_rss::{Bucket, Key};
use corelane_stage::dispatch::{Dispatch, Workstreams};
use corelane_stage::reassembly::Placement;
use corelane_stage::{Lane, Rule, TableStage, Way, WayCounts};
use corelane_worker::CachePadded;
use std::sync::Arc;

/// What the stages of one worker's buckets count and share, whatever the plan is.
pub(super) struct Ways {
    counts: Arc<CachePadded<WorkerCounts>>,
    streams: Option<Arc<Workstreams>>,
    /// By bucket of the worker.
    ways: Vec<(Bucket, Arc<WayCounts>)>,
    seed: u64,
}

impl Ways {
    /// Those of these buckets, with zeroed counts of the stages of a plan.
    pub(super) fn new(
        plan: &BridgePlan,
        buckets: &[Bucket],
        counts: Arc<CachePadded<WorkerCounts>>,
        streams: Option<Arc<Workstreams>>,
    ) -> Ways {
        let way = |bucket: &Bucket| (*bucket, Arc::new(WayCounts::new(&plan.stages)));
        Ways {
            counts,
            streams,
            ways: buckets.iter().map(way).collect(),
            seed: fastrand::u64(..),
        }
    }

    /// The counts of the stages, by bucket.
    pub(super) fn counts(&self) -> impl Iterator<Item = Arc<WayCounts>> {
        self.ways.iter().map(|(_, counts)| Arc::clone(counts))
    }

    /// Makes the stages of each bucket by a plan, around these tables, which are counted from now on.
    pub(super) fn by(&self, plan: &BridgePlan, rules: Vec<Rule>) -> impl FnMut(Bucket) -> Way + Send + use<> {
        *lock(&self.counts.rules) = rules.iter().map(|rule| Arc::clone(&rule.counts)).collect();
        let (plan, ways, seed) = (plan.clone(), self.ways.clone(), self.seed);
        let tables = Arc::clone(&self.counts.tables);
        let spread = plan.buckets.as_ref().map(|buckets| Arc::new(buckets.spread()));
        let streams = self.streams.clone();
        let reassemble = plan.stages.reassemble.as_ref();
        let has_owners = reassemble.is_some_and(|reassemble| reassemble.at == Placement::Owner);
        move |bucket| {
            let buckets = plan.buckets.as_ref();
            let lane = Lane {
                bucket,
                buckets: buckets.map_or(1, |buckets| buckets.buckets),
                seed,
                key: buckets.map_or(Key::VERIFICATION, |buckets| buckets.key.clone()),
            };
            let exchanged = spread.as_ref().zip(streams.as_ref());
            let dispatch = buckets.zip(exchanged).map(|(plan, (spread, streams))| {
                Dispatch::new(bucket, &plan.dispatch, Arc::clone(spread), Arc::clone(streams))
                    .with_owners(has_owners)
            });
            let tables = TableStage::new(rules.clone(), plan.otherwise, plan.not_ip, Arc::clone(&tables));
            let counts = ways.iter().find(|(of, _)| *of == bucket);
            let counts = counts.map_or_else(
                || Arc::new(WayCounts::new(&plan.stages)),
                |(_, counts)| Arc::clone(counts),
            );
            Way::new(&plan.stages, &lane, dispatch, tables, &counts)
        }
    }
}
