//! Tests of the stages.

mod coalescing;
mod work;
