//! Runs of one worker in a simulated network.

mod lost;
mod pipelines;
mod schedules;
mod support;
