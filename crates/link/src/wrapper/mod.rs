//! What can stand around any link: faults, a capture.

mod fault;
mod wrapped;

use crate::capture::CaptureWriter;
use fault::Faults;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use fault::{Direction, FaultPlan, Injected};
pub use wrapped::Wrapped;

/// What outlives a link that is lost, to go on around the one that comes back. Only its link's thread uses it while the link
/// is open, but for who reads counts.
pub(crate) type Shared<T> = Arc<Mutex<T>>;

pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What stands around one queue.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    capture: Option<Shared<CaptureWriter>>,
    faults: Option<Shared<Faults>>,
}

impl Around {
    pub(crate) fn new(faults: Option<FaultPlan>, capture: Option<CaptureWriter>) -> Around {
        Around {
            capture: capture.map(|writer| Shared::new(writer.into())),
            faults: faults.map(|plan| Shared::new(Faults::new(plan).into())),
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.capture.is_none() && self.faults.is_none()
    }

    /// What befell the frames so far; none without faults.
    pub(crate) fn injected(&self) -> Option<Injected> {
        self.faults.as_ref().map(|faults| lock(faults).injected())
    }
}
