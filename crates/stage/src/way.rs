//! The way of a frame: the stages of one bucket in their order. A stage is its folder and a line in the list below.
//!
//! First a frame is dispatched to its bucket. Then the stages that unwrap run in turn until none has changed a frame: what they
//! made is read and dispatched again. Then tables decide, and the stages follow that prepare frames for sending.

use crate::coalescing::Coalescing;
use crate::counts::{Count, StageCounts};
use crate::decapsulation::Decapsulation;
use crate::dispatch::{Dispatch, Reinjected};
use crate::encapsulation::Encapsulation;
use crate::fragmenting::Fragmenting;
use crate::planned::{Context, Listed, PlannedStage};
use crate::reassembly::Reassembly;
use crate::segmenting::Segmenting;
use crate::{Batch, Stage, TableStage, Work};
use corelane_measure::quantity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rounds of the stages that unwrap, at most: each stage that makes frames without end is bounded before.
const MOST_ROUNDS: usize = 64;

/// Lists the stages: those that unwrap, and those behind the tables.
macro_rules! way {
    (unwrap { $($inner:ident: $Inner:ty,)* } then { $($outer:ident: $Outer:ty,)* }) => {
        /// The settings of the stages that run.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct StagePlans {
            $(
                #[doc = concat!("Of `", stringify!($inner), "`.")]
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $inner: Option<<$Inner as PlannedStage>::Plan>,
            )*
            $(
                #[doc = concat!("Of `", stringify!($outer), "`.")]
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $outer: Option<<$Outer as PlannedStage>::Plan>,
            )*
        }

        /// All stages, in order.
        pub const STAGES: &[Listed] = &[$(Listed::of::<$Inner>(),)* $(Listed::of::<$Outer>(),)*];

        impl StagePlans {
            /// Whether no stage runs.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                $(self.$inner.is_none() &&)* $(self.$outer.is_none() &&)* true
            }

            /// The first stage that runs by one of two plans only.
            #[must_use]
            pub fn added_or_removed(&self, other: &StagePlans) -> Option<&'static str> {
                $(if self.$inner.is_some() != other.$inner.is_some() {
                    return Some(<$Inner as PlannedStage>::NAME);
                })*
                $(if self.$outer.is_some() != other.$outer.is_some() {
                    return Some(<$Outer as PlannedStage>::NAME);
                })*
                None
            }
        }

        /// The counts of the stages of one bucket.
        #[derive(Debug, Default)]
        pub struct WayCounts {
            $($inner: Option<(Arc<<$Inner as PlannedStage>::Counts>, Arc<Reinjected>)>,)*
            $($outer: Option<Arc<<$Outer as PlannedStage>::Counts>>,)*
        }

        impl WayCounts {
            /// Zeroed counts of these stages.
            #[must_use]
            pub fn new(plans: &StagePlans) -> WayCounts {
                WayCounts {
                    $($inner: plans.$inner.as_ref().map(|_| Default::default()),)*
                    $($outer: plans.$outer.as_ref().map(|_| Default::default()),)*
                }
            }

            /// Visits every count of the stages that run, with the name of its stage.
            pub fn each(&self, see: &mut dyn FnMut(&'static str, Count)) {
                $(if let Some((counts, reinjected)) = &self.$inner {
                    counts.each(&mut |count| see(<$Inner as PlannedStage>::NAME, count));
                    reinjected.each(&mut |count| see(<$Inner as PlannedStage>::NAME, count));
                })*
                $(if let Some(counts) = &self.$outer {
                    counts.each(&mut |count| see(<$Outer as PlannedStage>::NAME, count));
                })*
            }
        }

        /// The stages of one bucket.
        pub struct Way {
            dispatch: Option<Dispatch>,
            /// Whether stages run that need headers to be read.
            reads: bool,
            $($inner: Option<($Inner, Arc<Reinjected>)>,)*
            tables: TableStage,
            $($outer: Option<$Outer>,)*
        }

        impl Way {
            /// The stages of these plans around those tables; the counts are those of the same plans.
            #[must_use]
            pub fn new(
                plans: &StagePlans,
                context: &Context,
                dispatch: Option<Dispatch>,
                tables: TableStage,
                counts: &WayCounts,
            ) -> Way {
                Way {
                    dispatch,
                    reads: !plans.is_empty(),
                    $($inner: plans.$inner.as_ref().zip(counts.$inner.as_ref()).map(|(plan, (counts, reinjected))| {
                        (<$Inner as PlannedStage>::of(plan, context, Arc::clone(counts)), Arc::clone(reinjected))
                    }),)*
                    tables,
                    $($outer: plans.$outer.as_ref().zip(counts.$outer.as_ref()).map(|(plan, counts)| {
                        <$Outer as PlannedStage>::of(plan, context, Arc::clone(counts))
                    }),)*
                }
            }

            /// Runs the stages that unwrap once; returns whether one changed a frame.
            #[inline]
            fn unwrap<B: Batch>(&mut self, work: &mut Work<'_, B>) -> bool {
                let mut changed = false;
                $(if let Some((stage, reinjected)) = &mut self.$inner {
                    stage.run(work);
                    work.settle();
                    changed |= read_made(self.dispatch.as_ref(), work, <$Inner as PlannedStage>::SAME_ADDRESSES, reinjected);
                })*
                changed
            }

            /// Runs the tables, and the stages behind them.
            #[inline]
            fn finish<B: Batch>(&mut self, work: &mut Work<'_, B>) {
                self.tables.run(work);
                $(if let Some(stage) = &mut self.$outer {
                    stage.run(work);
                    work.settle();
                })*
            }
        }

        impl Stage for Way {
            #[inline]
            fn run<B: Batch>(&mut self, work: &mut Work<'_, B>) {
                match &self.dispatch {
                    Some(dispatch) => dispatch.arrivals(work),
                    None if self.reads => work.read(),
                    None => (),
                }
                if self.reads {
                    let mut rounds = 0;
                    while self.unwrap(work) && rounds < MOST_ROUNDS {
                        rounds += 1;
                    }
                }
                self.finish(work);
            }

            fn end<B: Batch>(&mut self, work: &mut Work<'_, B>) {
                $(if let Some((stage, _)) = &mut self.$inner {
                    stage.end(work);
                })*
                $(if let Some(stage) = &mut self.$outer {
                    stage.end(work);
                })*
                work.settle();
                self.tables.run(work);
            }

            fn take_over(&mut self, old: Way) {
                $(if let (Some((stage, _)), Some((old, _))) = (&mut self.$inner, old.$inner) {
                    stage.take_over(old);
                })*
                $(if let (Some(stage), Some(old)) = (&mut self.$outer, old.$outer) {
                    stage.take_over(old);
                })*
            }
        }
    };
}

way! {
    unwrap {
        reassemble: Reassembly,
        decapsulate: Decapsulation,
    }
    then {
        coalesce: Coalescing,
        segment: Segmenting,
        encapsulate: Encapsulation,
        fragment: Fragmenting,
    }
}

/// Reads the frames that a stage made, and dispatches them; returns whether there were any.
#[inline]
fn read_made<B: Batch>(
    dispatch: Option<&Dispatch>,
    work: &mut Work<'_, B>,
    same_addresses: bool,
    reinjected: &Reinjected,
) -> bool {
    if !work.has_unread() {
        return false;
    }
    match dispatch {
        Some(dispatch) => dispatch.reinject(work, same_addresses, reinjected),
        None => work.read(),
    }
    true
}

/// A line for each stage in a document, in order, with its counts that are not zero.
pub fn counted(stages: &BTreeMap<String, BTreeMap<String, u64>>) -> impl Iterator<Item = String> {
    let order = STAGES.iter().filter_map(|stage| stages.get_key_value(stage.name));
    order.map(|(stage, counts)| {
        let counts = counts.iter().filter(|(_, count)| **count > 0);
        let counts = counts.map(|(name, count)| format!("{name} {}", quantity::count(*count)));
        let counts: Vec<String> = counts.collect();
        match counts.is_empty() {
            true => format!("{stage}: nothing to do"),
            false => format!("{stage}: {}", counts.join(", ")),
        }
    })
}
