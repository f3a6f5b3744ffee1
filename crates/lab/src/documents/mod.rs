//! The documents of experiments, as JSON, text and pages.

pub mod change;
pub mod conditions;
pub mod engines;
pub mod html;
pub mod observed;
pub mod simulate;
pub mod streams;
mod text;
mod trials;
