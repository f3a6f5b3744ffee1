//! Faults and a capture around any link.

mod fault;
mod wrapped;

use crate::capture::CaptureWriter;
use fault::Faults;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use fault::{FaultPlan, FrameDirection, Injected};
pub use wrapped::Wrapped;

/// State that outlives a lost link and continues around the one that replaces it. While the link is open only its thread
/// changes it; others read counts.
pub(crate) type Shared<T> = Arc<Mutex<T>>;

pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The faults and the capture of one queue.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    capture: Option<Shared<CaptureWriter>>,
    faults: Option<(FrameDirection, Shared<Faults>)>,
}

impl Around {
    pub(crate) fn new(faults: Option<FaultPlan>, capture: Option<CaptureWriter>) -> Around {
        Around {
            capture: capture.map(|writer| Shared::new(writer.into())),
            faults: faults.map(|plan| (plan.direction, Shared::new(Faults::new(plan).into()))),
        }
    }

    /// The fault counters; `None` without faults.
    pub(crate) fn injected(&self) -> Option<Injected> {
        self.faults.as_ref().map(|(_, faults)| lock(faults).injected())
    }
}
