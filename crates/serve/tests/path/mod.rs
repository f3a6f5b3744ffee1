//! The frame's way through several workers, simulated: seeds, faults and a clock of its own.

mod dispatches;
mod simulation;
mod traffic;
