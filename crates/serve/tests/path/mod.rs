//! The frame's way through several workers, simulated: seeds, faults and a clock of its own.

mod deliveries;
mod dispatches;
mod outcome;
mod simulation;
mod traffic;
