//! Runs of one worker in a simulated network.

mod closing;
mod lost;
mod pipelines;
mod schedules;
mod support;
