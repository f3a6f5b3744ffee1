//! What can stand around any link: faults, a capture, a count.

mod captured;
mod counted;
mod fault;

pub use captured::Captured;
pub use counted::Counted;
pub use fault::{FaultPlan, Faulty, Injected};
