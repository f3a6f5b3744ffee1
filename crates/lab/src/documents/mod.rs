//! The documents of experiments, as JSON, text and pages.

pub mod conditions;
pub mod observed;
