//! Runs of one worker in a simulated network.

mod pipelines;
mod schedules;
mod support;
