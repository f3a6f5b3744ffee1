//! What a number is: histograms, quantities and their parsing, medians and spreads, names of counters and causes.
//!
//! Pure: nothing here reads a clock, a file, an environment variable or the terminal, and nothing knows an experiment.

#![forbid(unsafe_code)]

pub mod counter;
pub mod counters;
pub mod drops;
pub mod histogram;
pub mod metric;
pub mod quantity;
pub mod scalability;
pub mod share;
pub mod statistics;
pub mod time_series;
pub mod words;

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
