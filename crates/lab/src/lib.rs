//! Experiments: steps, trials, conclusions.
