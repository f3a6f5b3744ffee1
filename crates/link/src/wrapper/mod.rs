//! What can stand around any link: faults, a capture.

mod captured;
mod fault;
mod faulty;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use captured::Captured;
pub(crate) use fault::Faults;
pub use fault::{Direction, FaultPlan, Injected};
pub use faulty::Faulty;

/// What outlives a link that is lost, to go on around the one that comes back. Only its link's thread uses it while the link
/// is open, but for who reads counts.
pub(crate) type Shared<T> = Arc<Mutex<T>>;

pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
