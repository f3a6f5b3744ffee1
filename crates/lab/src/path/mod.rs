//! `lab path`: what the stages of a frame's way do to the flows that take it.
//!
//! In: a [`Request`], which names a scenario. Out: [`PathReport`]: one row per case of the scenario, which the same frame
//! renders for all. A scenario is a file here, which says its cases, its figures and its conclusions, and a line in `list`.
//!
//! Frames go through the bridge itself. Where no time is measured its workers take turns in one thread, so that the same
//! request gives the same document.

mod coalesce;
mod dispatch;
mod document;
mod fragments;
mod list;
mod software_rss;
mod traffic;
mod tunnels;

use crate::cases::Cases;

pub use document::{PathReport, Request, ScenarioName};

/// A scenario, ready to run.
pub type Path = Cases<Request>;
