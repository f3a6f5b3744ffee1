//! The frame's way through several workers, simulated: seeds, faults and a clock of its own.

mod simulation;
mod traffic;
