//! Experiments. In: a plan and a test bed. Out: a report with conditions, raw trials and a conclusion.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod cache;
pub mod cases;
pub mod child;
pub mod classify;
mod columns;
pub mod document;
pub mod engines;
pub mod error;
pub mod experiment;
pub mod explained;
pub mod join;
pub mod nic;
pub mod observe;
pub mod observed;
pub mod path;
mod placing;
mod plots;
pub mod rebalance;
pub mod registry;
pub mod saved;
pub mod scale;
pub mod simulate;
pub mod trial;
