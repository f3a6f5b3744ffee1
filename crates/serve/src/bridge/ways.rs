//! Makes the stages of a worker's buckets by a plan: when it starts, and when the plan changes.

use super::counts::WorkerCounts;
use super::plan::BridgePlan;
use crate::shared::lock;
use corelane_rss::{Bucket, Key};
use corelane_stage::dispatch::{Dispatch, Workstreams};
use corelane_stage::reassembly::Placement;
use corelane_stage::{Context, Rule, TableStage, Way, WayCounts};
use corelane_worker::CachePadded;
use std::sync::Arc;

/// What the stages of one worker's buckets count and share, whatever the plan is.
pub(super) struct Ways {
    counts: Arc<CachePadded<WorkerCounts>>,
    streams: Option<Arc<Workstreams>>,
    /// By bucket of the worker.
    ways: Vec<(Bucket, Arc<WayCounts>)>,
    /// Of all workers.
    buckets: u16,
    seed: u64,
}

impl Ways {
    /// Those of these buckets, with zeroed counts of the stages of a plan. Without buckets each of the workers is one.
    /// The seed is that of all workers, for what must not be guessed from outside.
    pub(super) fn new(
        plan: &BridgePlan,
        buckets: &[Bucket],
        workers: usize,
        counts: Arc<CachePadded<WorkerCounts>>,
        streams: Option<Arc<Workstreams>>,
        seed: u64,
    ) -> Ways {
        let way = |bucket: &Bucket| (*bucket, Arc::new(WayCounts::new(&plan.stages)));
        Ways {
            counts,
            streams,
            ways: buckets.iter().map(way).collect(),
            buckets: plan.buckets.as_ref().map_or(workers as u16, |plan| plan.buckets),
            seed,
        }
    }

    /// The counts of the stages, by bucket.
    pub(super) fn counts(&self) -> impl Iterator<Item = Arc<WayCounts>> {
        self.ways.iter().map(|(_, counts)| Arc::clone(counts))
    }

    /// Makes the stages of each bucket by a plan, around these tables, which are counted from now on.
    pub(super) fn by(&self, plan: &BridgePlan, rules: Vec<Rule>) -> impl FnMut(Bucket) -> Way + Send + use<> {
        *lock(&self.counts.rules) = rules.iter().map(|rule| Arc::clone(&rule.counts)).collect();
        let (plan, ways) = (plan.clone(), self.ways.clone());
        let (seed, buckets) = (self.seed, self.buckets);
        let tables = Arc::clone(&self.counts.tables);
        let spread = plan.buckets.as_ref().map(|buckets| Arc::new(buckets.spread()));
        let streams = self.streams.clone();
        let reassemble = plan.stages.reassemble.as_ref();
        let has_owners = reassemble.is_some_and(|reassemble| reassemble.at == Placement::Owner);
        move |bucket| {
            let spreading = plan.buckets.as_ref();
            let context = Context {
                bucket,
                buckets,
                seed,
                key: spreading.map_or(Key::VERIFICATION, |buckets| buckets.key.clone()),
            };
            let exchanged = spread.as_ref().zip(streams.as_ref());
            let dispatch = spreading.zip(exchanged).map(|(plan, (spread, streams))| {
                Dispatch::new(bucket, &plan.dispatch, Arc::clone(spread), Arc::clone(streams))
                    .with_owners(has_owners)
            });
            let tables = TableStage::new(rules.clone(), plan.otherwise, plan.not_ip, Arc::clone(&tables));
            let (_, counts) = ways
                .iter()
                .find(|(of, _)| *of == bucket)
                .expect("the buckets of a worker stay");
            Way::new(&plan.stages, &context, dispatch, tables, counts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_stage::{Desk, Stage, Work};
    use serde_json::json;
    use std::time::Instant;

    #[test]
    fn no_two_workers_without_buckets_give_outer_packets_the_same_identification() {
        let vxlan =
            json!({ "kind": "vxlan", "vni": 7, "local": "192.0.2.1", "remote": "192.0.2.2", "df": "unset" });
        let plan = BridgePlan {
            stages: serde_json::from_value(json!({ "encapsulate": vxlan })).unwrap(),
            ..BridgePlan::new(Vec::new(), Vec::new())
        };
        let mut given = Vec::new();
        for worker in [0, 1, 2].map(Bucket::new) {
            let ways = Ways::new(&plan, &[worker], 3, Arc::default(), None, 7);
            let mut way = ways.by(&plan, Vec::new())(worker);
            let (mut desk, mut frames) = (Desk::default(), vec![vec![0; 60]; 100]);
            let mut work = Work::new(&mut desk, &mut frames, Instant::now());
            way.run(&mut work);
            let outer = (0..work.len()).map(|place| &work.frame(place)[14..]);
            given.extend(outer.map(|packet| [packet[4], packet[5]]));
        }
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 300);
    }
}
