//! Documents, counter and cause names, histograms, medians, tables: data to text.
//!
//! In: counters, samples and settings that other rooms gathered. Out: documents that serialise (`corelane/scale/1`),
//! and text that a person reads. Nothing here reads a clock, a file, an environment variable or the terminal, so the
//! same data gives the same text everywhere.

#![forbid(unsafe_code)]

mod change;
pub mod classify;
pub mod conditions;
mod date;
pub mod drops;
pub mod engines;
pub mod gate;
pub mod histogram;
pub mod html;
pub mod memory;
pub mod observed;
pub mod published;
pub mod quantity;
pub mod scalability;
pub mod scale;
pub mod simulate;
pub mod statistics;
pub mod streams;
pub mod table;
mod text;
mod trials;

/// The example in the README, held to what compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
