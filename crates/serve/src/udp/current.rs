//! The steering in force: workers ask it datagram by datagram, the control thread exchanges it.

use arc_swap::ArcSwap;
use corelane_rss::{Bucket, FlowMetadata, Protocol, Steerer, Steering, Tuple};
use std::sync::Arc;

/// A steerer that can be exchanged while others use it. A reader sees the one before or the one after, and never waits.
#[derive(Debug)]
pub(super) struct Current(ArcSwap<Steerer>);

impl Current {
    pub(super) fn new(steering: &Steering) -> Current {
        Current(ArcSwap::from_pointee(steering.steerer()))
    }

    pub(super) fn exchange(&self, steering: &Steering) {
        self.0.store(Arc::new(steering.steerer()));
    }

    /// The bucket of a tuple.
    pub(super) fn bucket_of(&self, tuple: &Tuple) -> Bucket {
        self.0.load().bucket_of(tuple)
    }

    /// See [`Steerer::describe`].
    pub(super) fn describe(&self, tuples: &[Tuple], protocol: Protocol, flows: &mut Vec<FlowMetadata>) {
        self.0.load().describe(tuples, protocol, flows);
    }
}
