//! Experiments: a plan and a test bed come in; a report with its conditions, raw trials and a conclusion goes out.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod child;
pub mod classify;
mod columns;
pub mod document;
pub mod documents;
pub mod engines;
pub mod error;
pub mod experiment;
pub mod named;
pub mod nic;
mod placing;
pub mod rebalance;
pub mod saved;
pub mod scale;
pub mod simulate;
pub mod steps;
pub mod streams;
