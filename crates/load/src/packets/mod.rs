//! `load packets`: sends generated or captured frames on any link; a receiver accounts for each frame.
//!
//! In: a [`PacketsPlan`]. Out: a running [`PacketsLoad`], and at its end a [`PacketsLoadReport`]. `flows` draws addresses
//! and ports, `frame` writes frames, `generator` sends them on a worker's queues, `replay` sends a capture.

mod document;
mod flows;
mod frame;
mod generator;
mod metrics;
mod plan;
mod replay;
mod report;
mod run;
mod sizes;

pub use document::{FrameCounts, PacketsLoadReport, PacketsSum, StreamLoadReport};
pub use generator::frames;
pub use metrics::LiveFrames;
pub use plan::{FlowChoice, GeneratedPlan, PacketsError, PacketsPlan, ReplayPace, ReplayPlan, Traffic};
pub use run::PacketsLoad;
pub use sizes::{Sizes, SizesError};
